package threads

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// FreeSlot is a free slot of a thread that has an agent with the role and the skills for a waiting item.
type FreeSlot struct {
	Thread string
	Slot   int
	Code   Code // of the reason that keeps this item off the thread
}

// Beside returns the slots that stay free beside waiting work after a plan's starts, in the order of the
// configuration's threads. A slot is free while it has no session and its thread may take one more. Its code comes
// from the first item in the queue that waits only for an agent, a slot or a short rest. If an item rule holds that
// item, it is that rule's code. Otherwise it is that of the thread's agent that passed most rules. The item's own
// code would be wrong: the item may wait for a busy agent of one thread while another thread is paused. wake is as
// Plan.NextWake, for the slots and their codes.
func Beside(s *Snapshot, plan *Plan) (free []FreeSlot, wake time.Time) {
	if s.Config == nil {
		return nil, wake
	}
	v := newCrew(afterStarts(s, plan.Starts))
	open := v.openThreads()
	codes := make([]Code, len(v.threads))
	asked := make(map[*Reason]bool) // items of a class share their reason
	for _, h := range plan.Holds {
		if len(open[h.Kind]) == 0 || asked[h.Reason] || !h.couldStart() {
			continue
		}
		asked[h.Reason] = true
		t := v.besideTraits(h)
		for _, thread := range open[h.Kind] {
			codes[thread.place] = v.keeps(thread, &t, h.Reason.Code)
		}
		for kind := range open {
			open[kind] = slices.DeleteFunc(open[kind], func(t *threadState) bool { return codes[t.place] != "" })
		}
	}
	for i, code := range codes {
		for slot, n := range v.threads[i].sessions {
			if code != "" && n == 0 {
				free = append(free, FreeSlot{v.threads[i].Name, slot, code})
			}
		}
	}
	return free, v.wakeAt
}

// afterStarts returns the snapshot with the starts added to its sessions.
func afterStarts(s *Snapshot, starts []Start) *Snapshot {
	after := *s
	after.Sessions = slices.Clone(s.Sessions)
	for i := range starts {
		after.Sessions = append(after.Sessions, *starts[i].session())
	}
	return &after
}

// openThreads returns the threads with a free slot, by the kinds of work that their agents have roles for.
func (v *view) openThreads() map[agents.Kind][]*threadState {
	open := make(map[agents.Kind][]*threadState)
	for i := range v.threads {
		t := &v.threads[i]
		if t.full() || !slices.Contains(t.sessions, 0) {
			continue
		}
		for _, kind := range kindOrder {
			if slices.ContainsFunc(v.cands, func(c candidate) bool { return c.agent.thread == t && c.role.On.Does(kind) }) {
				open[kind] = append(open[kind], t)
			}
		}
	}
	return open
}

// couldStart reports whether the item waits only for an agent, a slot or a short rest.
func (h *Hold) couldStart() bool {
	switch h.Reason.Code.Class() {
	case Ready, Unfit, Busy:
		return true
	}
	return false
}

// besideTraits gathers the traits of a waiting item.
func (v *view) besideTraits(h *Hold) traits {
	w := work{Hold: *h}
	if h.Kind == agents.KindIssue {
		w.issue = v.Facts.Issue(h.Ref)
	} else if p := v.Facts.Pull(h.Ref); p != nil {
		st := v.stageOf(p)
		w.pull, w.stage = p, &st
	}
	if w.issue != nil {
		w.pin = v.pinOf(w.issue)
	}
	v.remember(&w)
	return v.traitsOf(&w)
}

// keeps returns the code of the reason that keeps an item off a thread. It is empty where no agent of the thread has
// the role and the skills.
func (v *view) keeps(thread *threadState, t *traits, item Code) Code {
	furthest, code := -1, Code("")
	for _, c := range v.cands {
		if c.agent.thread != thread || roleFits(v, t, c) != nil || hasSkills(v, t, c) != nil {
			continue
		}
		at, why := v.refusal(t, c)
		if why == nil {
			var further int
			c.kind = t.kind
			further, why = v.unfree(c)
			at += further
		}
		if at > furthest {
			furthest, code = at, item
			if why != nil && item.Class() != Ready {
				code = why.Code
			}
		}
	}
	return code
}
