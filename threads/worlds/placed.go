package worlds

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// place is a possible start of an item: by this agent, in this slot.
type place struct {
	warmth int
	home   int // 0 for the slot's resident or, on an overlap thread, for the agent that finished a blocker
	away   int // 1 for an agent that would leave its own warm slot empty
	idle   time.Time
	agent  string
	thread string
	slot   int
}

func (a place) compare(b place) int {
	return cmp.Or(
		a.warmth-b.warmth, a.home-b.home, a.away-b.away, a.idle.Compare(b.idle),
		cmp.Compare(a.agent, b.agent), cmp.Compare(a.thread, b.thread), a.slot-b.slot,
	)
}

// placedWell checks that no other agent or slot was better for an item when it started.
func placedWell(in *inspection) error {
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		busy := append(slices.Clone(in.s.Sessions), sessionsOf(in.plan.Starts[:i])...)
		got := in.place(&st.Item, in.cfg.Agent(st.Agent), st.Slot, busy)
		for j := range in.cfg.Agents {
			a := &in.cfg.Agents[j]
			if in.able(&st.Item, a) != "" || in.idle(&st.Item, a, busy) != "" {
				continue
			}
			for _, slot := range in.freeSlots(in.cfg.Thread(a.Thread), busy) {
				other := in.place(&st.Item, a, slot, busy)
				if other.compare(got) < 0 && in.kept(&st.Item, a, slot, busy) == nil {
					return fmt.Errorf("%s %s went to %+v, want %+v", st.Item.Kind, st.Item.Ref, got, other)
				}
			}
		}
	}
	return nil
}

func (in *inspection) place(it *threads.Item, a *agents.Agent, slot int, busy []threads.Session) place {
	t := in.cfg.Thread(a.Thread)
	p := place{
		warmth: in.warmth(it, t.Name, slot, a.Name), home: 1, idle: in.s.History.Agent(a.Name).IdleSince,
		agent: a.Name, thread: t.Name, slot: slot,
	}
	if t.Overlap {
		if in.finished(it, a.Name) {
			p.home = 0
		}
		return p
	}
	if in.resident(t, slot) == a.Name {
		p.home = 0
		return p
	}
	for _, other := range in.freeSlots(t, busy) {
		if in.resident(t, other) == a.Name {
			p.away = 1
		}
	}
	return p
}

// resident returns the agent whose cache is in a sticky slot, or "" if the server keeps the cache.
func (in *inspection) resident(t *threads.Thread, slot int) string {
	if in.inMemory(t) {
		return ""
	}
	return in.s.History.Slots[threads.SlotKey{Thread: t.Name, Slot: slot}].Agent
}

// freeSlots returns the slots that a session could get: all empty ones of a sticky thread, the emptiest of an overlap
// thread.
func (in *inspection) freeSlots(t *threads.Thread, busy []threads.Session) []int {
	used := make([]int, t.Slots)
	for i := range busy {
		if busy[i].Thread == t.Name && busy[i].Slot < t.Slots {
			used[busy[i].Slot]++
		}
	}
	if t.Overlap {
		return []int{slices.Index(used, slices.Min(used))}
	}
	var free []int
	for slot, n := range used {
		if n == 0 {
			free = append(free, slot)
		}
	}
	return free
}
