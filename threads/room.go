package threads

import "fmt"

// Room is what the machine has left, in bytes; math.MaxInt64 where that cannot be told.
type Room struct {
	Memory int64 // that a new process could use without anybody being killed
	Disk   int64 // where the state directory is
}

// hasRoom keeps a machine that is nearly full from filling up: one more agent would end in the kernel killing one, or in
// a journal that cannot be written.
func hasRoom(v *view, _ candidate) *Reason {
	f := &v.Config.Factory
	switch {
	case v.Room == nil:
		return nil
	case v.Room.Memory < f.MinFreeMemory:
		return &Reason{Code: NoRoom, Note: fmt.Sprintf("%s of memory free, min_free_memory is %s", size(v.Room.Memory), size(f.MinFreeMemory))}
	case v.Room.Disk < f.MinFreeDisk:
		return &Reason{Code: NoRoom, Note: fmt.Sprintf("%s of disk free, min_free_disk is %s", size(v.Room.Disk), size(f.MinFreeDisk))}
	}
	return nil
}

// sizeUnits are the letters that a size may end with, each 1024 times the one before.
const sizeUnits = "KMGT"

// size writes bytes as the configuration does, rounded down.
func size(n int64) string {
	unit := ""
	for i := 0; i < len(sizeUnits) && n >= 1024; i++ {
		n, unit = n/1024, sizeUnits[i:i+1]
	}
	return fmt.Sprintf("%d%s", n, unit)
}
