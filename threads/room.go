package threads

import (
	"fmt"

	"codeberg.org/johba/disinto/agents"
)

// Room is the free memory and disk of the machine in bytes; math.MaxInt64 where it is not known.
type Room struct {
	Memory int64 // that a new process can use before the kernel kills one
	Disk   int64 // of the file system with the state directory
}

// hasRoom keeps a machine that is nearly full from filling up: one more agent could make the kernel kill one, or
// leave no space for the journal.
func hasRoom(v *view, _ candidate) *Reason {
	f := &v.Config.Factory
	switch {
	case v.Room == nil:
		return nil
	case v.Room.Memory < f.MinFreeMemory:
		return short("memory", v.Room.Memory, f.MinFreeMemory)
	case v.Room.Disk < f.MinFreeDisk:
		return short("disk", v.Room.Disk, f.MinFreeDisk)
	}
	return nil
}

func short(of string, free, least int64) *Reason {
	words := fmt.Sprintf("%s of %s free, min_free_%s is %s", agents.Size(free), of, of, agents.Size(least))
	return &Reason{Code: NoRoom, Note: words}
}
