package threads

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
)

// FreeSlot is a slot that stands free beside work: an item waits for which an agent of its thread has role and skills.
type FreeSlot struct {
	Thread string
	Slot   int
	Code   Code // of what keeps that item from this thread
}

// Beside returns the slots that stand free beside work once the starts of a plan are made, in the order of the
// configuration's threads. A slot is free while it has no session and its thread may take one more. Of the items that
// wait for nothing but an agent, a slot or a short rest, the first in the queue gives the code. Where an item rule
// keeps it, that is the item's code. Otherwise it is that of the thread's agent that passed most rules, and not the
// item's: the item may wait for a busy agent of one thread while another thread is paused.
func Beside(s *Snapshot, plan *Plan) []FreeSlot {
	if s.Config == nil {
		return nil
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
	var free []FreeSlot
	for i, code := range codes {
		for slot, n := range v.threads[i].sessions {
			if code != "" && n == 0 {
				free = append(free, FreeSlot{v.threads[i].Name, slot, code})
			}
		}
	}
	return free
}

// afterStarts is the snapshot with the starts as sessions.
func afterStarts(s *Snapshot, starts []Start) *Snapshot {
	after := *s
	after.Sessions = slices.Clone(s.Sessions)
	for i := range starts {
		after.Sessions = append(after.Sessions, *starts[i].session())
	}
	return &after
}

// openThreads are the threads with a free slot, by the kinds of work that their agents have roles for.
func (v *view) openThreads() map[agents.Kind][]*threadState {
	open := make(map[agents.Kind][]*threadState)
	for i := range v.threads {
		t := &v.threads[i]
		if t.full() || !slices.Contains(t.sessions, 0) {
			continue
		}
		for kind, on := range triggers {
			if slices.ContainsFunc(v.cands, func(c candidate) bool { return c.agent.thread == t && c.role.On == on }) {
				open[kind] = append(open[kind], t)
			}
		}
	}
	return open
}

// triggers are the roles that do each kind of work.
var triggers = map[agents.Kind]agents.On{
	agents.KindIssue: agents.OnIssue, agents.KindRework: agents.OnIssue, agents.KindReview: agents.OnReview,
	agents.KindSchedule: agents.OnSchedule,
}

// couldStart reports whether nothing but an agent, a slot or a short rest is missing.
func (h *Hold) couldStart() bool {
	switch h.Reason.Code.Class() {
	case Ready, Unfit, Busy:
		return true
	}
	return false
}

// besideTraits gathers the traits of an item that waits.
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
	return v.traitsOf(&w)
}

// keeps is the code of what keeps an item from a thread; empty where no agent of the thread has the role and the
// skills.
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
