package threads

import (
	"slices"

	"codeberg.org/johba/disinto/forge"
)

// stealRule returns why an idle agent does not get an issue that is pinned to another agent; nil when it does.
type stealRule struct {
	name   string
	shared bool // every idle agent gets the same answer, and an objection is final, so it is found once for 90 agents
	why    func(b *balancer, w *work, thief string) *Reason
}

// stealRules apply in order. The reason is that of the idle agent that passed most of them.
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

// movedBefore keeps an issue from moving back and forth between two agents for ever.
func movedBefore(_ *balancer, w *work, _ string) *Reason {
	if w.has(forge.LabelStolen) {
		return &Reason{Code: StolenBefore}
	}
	return nil
}

// begun keeps an issue with the agent that has a workspace for it, even when it has no session now.
func begun(b *balancer, w *work, _ string) *Reason {
	if last := b.History.Chain(w.Ref).Finisher(); last != "" {
		return &Reason{Code: WorkBegun, Agent: last}
	}
	return nil
}

func tooUrgent(_ *balancer, w *work, _ string) *Reason {
	if w.Priority < StealPriority {
		return &Reason{Code: TooUrgent, Count: w.Priority, Limit: StealPriority}
	}
	return nil
}

func anybodys(_ *balancer, w *work, _ string) *Reason {
	nameless := w.has(forge.SkillPrefix) // a person meant to name a skill
	if len(forge.Skills(w.labels())) == 0 && (nameless || w.Priority < StealAnyPriority) {
		return &Reason{Code: NoSkillSaid, Count: w.Priority, Limit: StealAnyPriority}
	}
	return nil
}

func stillBusy(b *balancer, w *work, _ string) *Reason {
	if n := len(b.queues[w.pin]); n <= StealBusy && !b.load[w.pin].handsOver() {
		return &Reason{Code: NotBusy, Agent: w.pin, Count: n}
	}
	return nil
}

// mayHave applies the rules that Decide would apply if the issue were pinned to the idle agent.
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
			c.kind = t.kind
			if at, why = b.unfree(c); why == nil {
				return nil
			}
			at += len(candidateRules)
			if b.taken[thief] > 0 && why.Code == NoSlot {
				return nil // the thief itself takes that slot
			}
		}
		if at > furthest {
			furthest, reason = at, why
		}
	}
	return reason
}

func agentFull(b *balancer, _ *work, thief string) *Reason {
	if n := b.taken[thief]; n >= StealPerAgent {
		return &Reason{Code: StealLimit, Agent: thief, Count: n}
	}
	return nil
}

func cycleFull(b *balancer, _ *work, _ string) *Reason {
	if n := len(b.Moves); n >= StealPerCycle {
		return &Reason{Code: StealLimit, Count: n}
	}
	return nil
}

// onRoute keeps a routed issue from agents that are not on its route. Once the issue is pinned, by the route, by a
// person or by a steal, only the pin counts.
func onRoute(v *view, t *traits, c candidate) *Reason {
	if t.pin != "" || len(t.skills) == 0 {
		return nil
	}
	routed := false
	for _, r := range v.Config.Routes {
		if slices.Contains(t.skills, r.Skill) {
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
