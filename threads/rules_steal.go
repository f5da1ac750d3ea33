package threads

import (
	"slices"

	"codeberg.org/johba/disinto/forge"
)

// stealRule says why an idle agent does not get an issue that is pinned to another; nil when it does.
type stealRule struct {
	name    string
	whoever bool // the answer is the same for every idle agent, and a no stays one: 90 of them need not ask of 10,000 issues
	why     func(b *balancer, w *work, thief string) *Reason
}

// stealRules are asked in order; of several idle agents the one that came furthest names the reason.
var stealRules = []stealRule{
	{"never moved before", true, movedBefore},
	{"not begun", true, begun},
	{"not urgent", true, tooUrgent},
	{"skills say who can do it", true, anybodys},
	{"its agent is still busy", true, stillBusy},
	{"the idle agent may have it", false, mayHave},
	{"the idle agent has room", false, agentFull},
	{"not too much at once", true, cycleFull},
}

// movedBefore keeps an issue from going back and forth between two agents and never being worked on.
func movedBefore(_ *balancer, w *work, _ string) *Reason {
	if w.has(forge.LabelStolen) {
		return &Reason{Code: StolenBefore}
	}
	return nil
}

// begun keeps an issue with whoever has a workspace for it, also when nobody works on it right now.
func begun(b *balancer, w *work, _ string) *Reason {
	if writers := b.History.Chain(w.Ref).Writers; len(writers) > 0 {
		return &Reason{Code: WorkBegun, Agent: writers[len(writers)-1]}
	}
	return nil
}

func tooUrgent(b *balancer, w *work, _ string) *Reason {
	if w.Priority < b.rules.Priority {
		return &Reason{Code: TooUrgent, Count: w.Priority, Limit: b.rules.Priority}
	}
	return nil
}

func anybodys(b *balancer, w *work, _ string) *Reason {
	nameless := w.has("skill/") // somebody meant to say a skill
	if len(forge.Skills(w.labels())) == 0 && (nameless || w.Priority < b.rules.AnyPriority) {
		return &Reason{Code: NoSkillSaid, Count: w.Priority, Limit: b.rules.AnyPriority}
	}
	return nil
}

func stillBusy(b *balancer, w *work, _ string) *Reason {
	if n := len(b.queues[w.pin]); n <= b.rules.Busy {
		return &Reason{Code: NotBusy, Agent: w.pin, Count: n}
	}
	return nil
}

// mayHave asks what Decide would ask if the issue were pinned to the idle agent already.
func mayHave(b *balancer, w *work, thief string) *Reason {
	t := w.class.traits
	t.pin = thief
	furthest, reason := -1, noRole[t.kind]
	for _, c := range b.cands {
		if c.agent.Name != thief {
			continue
		}
		at, why := b.refusal(&t, c)
		if why == nil {
			if at, why = b.unfree(c); why == nil {
				return nil
			}
			at += len(candidateRules)
			if b.taken[thief] > 0 && why.Code == NoSlot {
				return nil // the slot that it takes itself
			}
		}
		if at > furthest {
			furthest, reason = at, why
		}
	}
	return reason
}

func agentFull(b *balancer, _ *work, thief string) *Reason {
	if n := b.taken[thief]; n >= b.rules.PerAgent {
		return &Reason{Code: StealLimit, Agent: thief, Count: n}
	}
	return nil
}

func cycleFull(b *balancer, _ *work, _ string) *Reason {
	if n := len(b.Moves); n >= b.rules.PerCycle {
		return &Reason{Code: StealLimit, Count: n}
	}
	return nil
}

// onRoute keeps an issue that is routed by its skills from everybody who is not on the route. Once it is pinned, by the
// route, by a person or by a steal, the pin alone counts.
func onRoute(v *view, t *traits, c candidate) *Reason {
	if t.pin != "" || t.skills == "" {
		return nil
	}
	routed := false
	for _, r := range v.Config.Routes {
		if slices.Contains(lines(t.skills), r.Skill) {
			if slices.Contains(r.Agents, c.agent.Name) {
				return nil
			}
			routed = true
		}
	}
	if routed {
		return &Reason{Code: NotOnRoute, Agent: c.agent.Name}
	}
	return nil
}
