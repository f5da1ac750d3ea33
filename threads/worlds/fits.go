package worlds

import (
	"cmp"
	"fmt"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// able returns why an agent may not take an item, or "". It ignores whether the agent is free: see idle.
func (in *inspection) able(it *threads.Item, a *agents.Agent) string {
	rung, alone := in.rung(it)
	switch {
	case rung != nil && rung.Name == a.Name:
		return ""
	case alone:
		return "its ladder gives it to " + rung.Name
	case in.roleFor(it, a) == nil:
		return "no role of it fits"
	case it.Kind == agents.KindIssue:
		why := in.ableIssue(it, a)
		if asker := in.asker(it); asker != nil {
			return cmp.Or(why, notFirst(asker, a))
		}
		if heir := in.heir(it); why == "" && heir != nil && heir.Name != a.Name {
			why = "the agent that finished its blocker comes first"
		}
		return why
	case it.Kind == agents.KindReview && in.unpaired(a.Login, in.writers(in.s.Facts.Pull(it.Ref))):
		return "it must not review that"
	case it.Kind == agents.KindReview:
		return notFirst(in.asker(it), a)
	case it.Kind == agents.KindRework:
		return in.ableRework(it, a)
	}
	return ""
}

// notFirst returns the objection that another agent asked a question, and continues first.
func notFirst(asker, a *agents.Agent) string {
	if asker == nil || asker.Name == a.Name {
		return ""
	}
	return "the agent that asked comes first"
}

// roleFor returns the agent's first role that takes the item, or nil.
func (in *inspection) roleFor(it *threads.Item, a *agents.Agent) *agents.Role {
	if rung, _ := in.rung(it); rung != nil && rung.Name == a.Name {
		return in.writing(it, a)
	}
	for _, name := range a.Roles {
		if r := in.cfg.Role(name); in.fits(it, r) {
			return r
		}
	}
	return nil
}

// fits reports whether a role takes the item.
func (in *inspection) fits(it *threads.Item, r *agents.Role) bool {
	switch it.Kind {
	case agents.KindSchedule:
		return r.Name == it.Role
	case agents.KindReview:
		return r.On == agents.OnReview && in.labelled(it, r)
	case agents.KindRework:
		if author := in.coder(it); author != nil {
			return r == in.writing(it, author)
		}
	}
	return r.On == agents.OnIssue && in.labelled(it, r)
}

// coder returns the agent that opened a pull request, or nil if it is no longer configured or none of its roles is on
// issues.
func (in *inspection) coder(it *threads.Item) *agents.Agent {
	a := in.cfg.AgentByLogin(in.s.Facts.Pull(it.Ref).Author)
	if a == nil || !slices.ContainsFunc(a.Roles, func(r string) bool { return in.cfg.Role(r).On == agents.OnIssue }) {
		return nil
	}
	return a
}

// writing returns the role in which the author of a pull request took its issue, or nil if the author no longer has
// such a role.
func (in *inspection) writing(it *threads.Item, author *agents.Agent) *agents.Role {
	for _, name := range author.Roles {
		if r := in.cfg.Role(name); r.On == agents.OnIssue && in.labelled(it, r) {
			return r
		}
	}
	return nil
}

// labelled reports whether an item, or its issue, carries the label that the role requires.
func (in *inspection) labelled(it *threads.Item, r *agents.Role) bool {
	is, p := in.s.Facts.Issue(it.Chain), in.s.Facts.Pull(it.Ref)
	return r.Label == "" || is != nil && is.Has(r.Label) || p != nil && p.Has(r.Label)
}

func (in *inspection) ableIssue(it *threads.Item, a *agents.Agent) string {
	is := in.s.Facts.Issue(it.Ref)
	pinned := func(login string) bool { return login != a.Login && in.ours(login) }
	if slices.ContainsFunc(is.Assignees, pinned) && !is.Has(forge.LabelInProgress) {
		return "the issue is pinned to another"
	}
	return in.capable(it, a)
}

// capable returns why an agent may not take an issue, whatever its assignees, or "".
func (in *inspection) capable(it *threads.Item, a *agents.Agent) string {
	for _, skill := range forge.Skills(in.s.Facts.Issue(it.Ref).Labels) {
		if !slices.Contains(a.Skills, skill) {
			return "it lacks the skill " + skill
		}
	}
	if slices.ContainsFunc(in.cfg.Agents, in.reviewer) &&
		!in.reviewable(append(slices.Clone(in.s.History.Chain(it.Chain).Writers), a.Name)) {
		return "no agent could review it"
	}
	return ""
}

// heir returns the agent that an issue waits for: the last writer of the blocker that was closed last, if it may take
// the issue and its thread's affinity_wait is not over. Most issues have none.
func (in *inspection) heir(it *threads.Item) *agents.Agent {
	var last *forge.Issue
	for _, b := range in.s.Facts.Issue(it.Ref).Blockers {
		if is := in.s.Facts.Issue(b.Ref); is != nil && is.Closed && (last == nil || is.Ended.After(last.Ended)) {
			last = is
		}
	}
	if last == nil {
		return nil
	}
	a := in.cfg.Agent(in.s.History.Chain(last.Ref).Finisher())
	if a == nil || in.roleFor(it, a) == nil || in.ableIssue(it, a) != "" ||
		!in.Now.Before(last.Ended.Add(in.cfg.Thread(a.Thread).AffinityWait)) {
		return nil
	}
	return a
}

func (in *inspection) ableRework(it *threads.Item, a *agents.Agent) string {
	p := in.s.Facts.Pull(it.Ref)
	author := in.coder(it)
	writers := in.writers(p)
	switch {
	case author != nil && author.Name != a.Name && in.Now.Before(it.Since.Add(in.cfg.Forge.ReworkWait)):
		return "its author comes first"
	case in.reviewable(writers) && !in.reviewable(append(writers, a.Name)):
		return "no agent could review it afterwards"
	}
	return ""
}

// idle returns why an agent cannot start the item beside the busy sessions, or "".
func (in *inspection) idle(it *threads.Item, a *agents.Agent, busy []threads.Session) string {
	t := in.cfg.Thread(a.Thread)
	running := 0
	for i := range busy {
		if busy[i].Thread == t.Name {
			running++
		}
		if busy[i].Agent == a.Name {
			return "it is busy"
		}
	}
	if running >= t.MaxSessions {
		return "its thread is full"
	}
	if it.Kind == agents.KindIssue && in.saves(t, busy) {
		return "the rest of a window is kept"
	}
	return in.gated(in.roleFor(it, a), a)
}

// gated returns why an agent cannot start anything in a role, whatever else runs, or "".
func (in *inspection) gated(r *agents.Role, a *agents.Agent) string {
	t := in.cfg.Thread(a.Thread)
	switch {
	case a.Token == "":
		return "it has no token"
	case len(r.Command) == 0:
		return "its role has no program"
	case in.s.History.Agent(a.Name).Held(in.Now), in.paused(a.Name, t.Name):
		return "it is held"
	case in.s.History.Thread(t.Name).ParkedUntil.After(in.Now):
		return "its thread is parked"
	case in.crowded(t.Name):
		return "the machine is full"
	case in.unserved(a.Name):
		return "its model is not served"
	case in.broke(a.Name):
		return "its budget is used up"
	case in.exhausted(t):
		return "a window is used up"
	}
	return ""
}

// startsFit checks that each start gives its item to an agent that may take it and is free.
func startsFit(in *inspection) error {
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		a := in.cfg.Agent(st.Agent)
		busy := append(slices.Clone(in.s.Sessions), sessionsOf(in.plan.Starts[:i])...)
		var why string
		switch role := in.roleFor(&st.Item, a); {
		case a.Thread != st.Thread:
			why = "it is on " + a.Thread
		case role != nil && role.Name != st.Role:
			why = "as " + st.Role + ", but its role for that is " + role.Name
		default:
			why = cmp.Or(in.able(&st.Item, a), in.idle(&st.Item, a, busy))
			if p := in.kept(&st.Item, a, st.Slot, busy); why == "" && p != nil {
				why = "the slot, or the agent, is kept for " + p.Ref.String()
			}
		}
		if why != "" {
			return fmt.Errorf("%s %s by %s on %s: %s", st.Item.Kind, st.Item.Ref, st.Agent, st.Thread, why)
		}
	}
	return nil
}

func sessionsOf(starts []threads.Start) []threads.Session {
	list := make([]threads.Session, len(starts))
	for i, st := range starts {
		list[i] = threads.Session{
			Thread: st.Thread, Slot: st.Slot, Agent: st.Agent, Role: st.Role, Item: st.Item, State: threads.Reserved,
		}
	}
	return list
}

// pairing checks reviewers against the agents that really wrote. The ledger may remember more writers than these, but
// never fewer.
func pairing(in *inspection) error {
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		if st.Item.Kind != agents.KindReview {
			continue
		}
		p := *in.forge.pull(st.Item.Ref)
		p.Coders = in.s.Facts.Pull(st.Item.Ref).Coders // an agent may have pushed since the scan
		if authors := in.forge.authors(&p); in.unpaired(in.cfg.Agent(st.Agent).Login, authors) {
			return fmt.Errorf("%s reviews %s, which %v wrote", st.Agent, st.Item.Ref, authors)
		}
	}
	return nil
}

// slotsKept checks the slot of each start, beside the starts before it.
func slotsKept(in *inspection) error {
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		t := in.cfg.Thread(st.Thread)
		used := make([]int, t.Slots)
		for _, s := range append(slices.Clone(in.s.Sessions), sessionsOf(in.plan.Starts[:i])...) {
			if s.Thread == t.Name && s.Slot < t.Slots {
				used[s.Slot]++
			}
		}
		switch {
		case st.Slot < 0 || st.Slot >= t.Slots:
			return fmt.Errorf("%s has no slot %d", t.Name, st.Slot)
		case !t.Overlap && used[st.Slot] > 0:
			return fmt.Errorf("slot %d of %s is sticky and taken, but %s starts in it", st.Slot, t.Name, st.Agent)
		case t.Overlap && used[st.Slot] != slices.Min(used):
			return fmt.Errorf("slot %d of %s is not the emptiest", st.Slot, t.Name)
		}
	}
	return nil
}
