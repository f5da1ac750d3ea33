package threads

import (
	"fmt"

	"codeberg.org/johba/disinto/agents"
)

// Room is the free memory and disk of the machine in bytes; math.MaxInt64 where it is unknown.
type Room struct {
	Memory int64 // a new process can use it before the kernel kills one
	Disk   int64 // of the file system with the state directory
	// None says why no machine elsewhere could run a session of the agent even if it ran nothing else. It is empty where
	// one could, or where that is unknown.
	None string
	// Down says why Nomad, which runs the thread's sessions, does not answer. It is empty while it answers.
	Down string
}

// hasRoom keeps a machine that is nearly full from filling up: one more agent could make the kernel kill one, or
// leave no space for the journal. A session elsewhere needs room there, and none here.
func hasRoom(v *view, c candidate) *Reason {
	f, room := &v.Config.Factory, v.Room
	if c.agent.thread.Executor != "" {
		there, known := v.Rooms[c.agent.Name]
		if room = nil; known {
			room = &there
		}
		if there.Down != "" {
			return &Reason{Code: NoNomad, Note: there.Down}
		}
	}
	switch lack := f.Lacks(room); lack {
	case "":
		return nil
	case lackMemory:
		return short(lack, room.Memory, f.MinFreeMemory)
	case lackDisk:
		return short(lack, room.Disk, f.MinFreeDisk)
	default:
		return &Reason{Code: NoNode, Agent: c.agent.Name, Note: lack}
	}
}

// What a machine can lack, beside a reason of its own in Room.None.
const (
	lackMemory = "memory"
	lackDisk   = "disk"
)

// Lacks says what a machine lacks for one more session; empty if nothing, or if its room is unknown. As long as the
// answer is the same, room changes no plan.
func (f *Factory) Lacks(r *Room) string {
	switch {
	case r == nil:
		return ""
	case r.Down != "":
		return r.Down
	case r.None != "":
		return r.None
	case r.Memory < f.MinFreeMemory:
		return lackMemory
	case r.Disk < f.MinFreeDisk:
		return lackDisk
	}
	return ""
}

// LackIn says what machines elsewhere lack, by agent. Agents that lack nothing are left out.
func (f *Factory) LackIn(rooms map[string]Room) map[string]string {
	lacking := make(map[string]string)
	for name, r := range rooms {
		if lack := f.Lacks(&r); lack != "" {
			lacking[name] = lack
		}
	}
	return lacking
}

func short(of string, free, least int64) *Reason {
	words := fmt.Sprintf("%s of %s free, min_free_%s is %s", agents.Size(free), of, of, agents.Size(least))
	return &Reason{Code: NoRoom, Note: words}
}
