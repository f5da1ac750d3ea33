package threads

import (
	"fmt"

	"codeberg.org/johba/disinto/agents"
)

// Room is what the machine has left, in bytes; math.MaxInt64 where that cannot be told.
type Room struct {
	Memory int64 // that a new process could use without anybody being killed
	Disk   int64 // where the state directory is
}

// hasRoom keeps a machine that is nearly full from filling up: one more agent would end in the kernel killing one, or
// in a journal that cannot be written.
func hasRoom(v *view, _ candidate) *Reason {
	f := &v.Config.Factory
	switch {
	case v.Room == nil:
		return nil
	case v.Room.Memory < f.MinFreeMemory:
		return &Reason{Code: NoRoom, Note: fmt.Sprintf("%s of memory free, min_free_memory is %s", agents.Size(v.Room.Memory), agents.Size(f.MinFreeMemory))}
	case v.Room.Disk < f.MinFreeDisk:
		return &Reason{Code: NoRoom, Note: fmt.Sprintf("%s of disk free, min_free_disk is %s", agents.Size(v.Room.Disk), agents.Size(f.MinFreeDisk))}
	}
	return nil
}
