package worlds

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// learnedLeast is the number of known verdicts from which a slot is kept.
const learnedLeast = 3

// kept returns the pull request that prevents an agent from taking an item into a free slot, or nil. A slot is kept
// for its resident, and the resident for the slot, while the resident's pull request waits for a verdict. The verdict
// must be expected to request changes, and to come sooner than the context could be read again.
func (in *inspection) kept(it *threads.Item, a *agents.Agent, slot int, busy []threads.Session) *forge.Pull {
	t := in.cfg.Thread(a.Thread)
	known := in.s.History.Thread(t.Name).Returns
	if t.Overlap || in.inMemory(t) || known.N < learnedLeast || known.Gap >= known.Back*t.Hold.Seconds() {
		return nil
	}
	if it.Priority <= 2 || in.s.History.Item(it.Key()).PassedOver >= passedOverMost {
		return nil
	}
	for _, other := range in.freeSlots(t, busy) {
		w := in.s.History.Slots[threads.SlotKey{Thread: t.Name, Slot: other}]
		if other != slot && w.Agent != a.Name || w.Chain == it.Chain || w.Agent == "" {
			continue
		}
		if p := in.awaited(w, t, busy); p != nil {
			return p
		}
	}
	return nil
}

// awaited returns the pull request for whose verdict a resident waits, or nil.
func (in *inspection) awaited(w threads.Warm, t *threads.Thread, busy []threads.Session) *forge.Pull {
	a := in.cfg.Agent(w.Agent)
	if a == nil || a.Thread != t.Name || in.Now.Sub(w.Left) >= t.Hold ||
		in.s.History.Agent(a.Name).IdleSince.After(w.Left) {
		return nil
	}
	for i := range in.s.Facts.Pulls {
		p := &in.s.Facts.Pulls[i]
		waits := !p.Closed && !p.Draft && p.Author == a.Login && home(p) == w.Chain &&
			forge.SkipLabel(p.Labels) == "" && in.judgedSoon(p)
		if waits && !in.unwanted(p) && in.reviewable(in.writers(p)) && in.returns(a, busy) {
			return p
		}
	}
	return nil
}

// judgedSoon reports whether a pull request waits for a verdict, or for facts new enough to act on its verdict.
func (in *inspection) judgedSoon(p *forge.Pull) bool {
	_, old := in.asOf(p.Ref, home(p))
	v := in.forge.verdicts(p, in.writers(p), true)
	rework := v.changes || p.CI == forge.CIFailure || in.conflicts(p)
	return in.wantsReview(p) || rework && old != nil
}

// returns reports whether an agent could start work in one of its roles.
func (in *inspection) returns(a *agents.Agent, busy []threads.Session) bool {
	works := slices.ContainsFunc(busy, func(s threads.Session) bool { return s.Agent == a.Name })
	return !works && slices.ContainsFunc(a.Roles, func(name string) bool { return in.gated(in.cfg.Role(name), a) == "" })
}
