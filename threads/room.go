package threads

import (
	"fmt"

	"codeberg.org/johba/disinto/agents"
)

// Room is the free memory and disk of the machine in bytes; math.MaxInt64 where it is unknown.
type Room struct {
	Memory int64 // a new process can use it before the kernel kills one
	Disk   int64 // of the file system with the state directory
	// None says why no machine elsewhere could run a session of the thread even if it ran nothing else. It is empty
	// where one could, or where that is unknown.
	None string
}

// hasRoom keeps a machine that is nearly full from filling up: one more agent could make the kernel kill one, or
// leave no space for the journal. A session elsewhere needs room there, and none here.
func hasRoom(v *view, c candidate) *Reason {
	f, room := &v.Config.Factory, v.Room
	if c.agent.thread.Executor != "" {
		there, known := v.Rooms[c.agent.thread.Name]
		if room = nil; known {
			room = &there
		}
	}
	switch {
	case room == nil:
		return nil
	case room.None != "":
		return &Reason{Code: NoPlace, Agent: c.agent.Name, Note: room.None}
	case room.Memory < f.MinFreeMemory:
		return short("memory", room.Memory, f.MinFreeMemory)
	case room.Disk < f.MinFreeDisk:
		return short("disk", room.Disk, f.MinFreeDisk)
	}
	return nil
}

func short(of string, free, least int64) *Reason {
	words := fmt.Sprintf("%s of %s free, min_free_%s is %s", agents.Size(free), of, of, agents.Size(least))
	return &Reason{Code: NoRoom, Note: words}
}
