package threads

import (
	"time"

	"codeberg.org/johba/disinto/agents"
)

// ReworkWait is how long an item waits for the agent that wrote its pull request, or that asked a question about it,
// while that agent cannot start.
const ReworkWait = 30 * time.Minute

// inherit sets the agent that an item waits for, and until when. The agent that asked about the item goes before the
// one that finished a blocker.
func (v *view) inherit(w *work, t *traits) {
	if t.heir, t.until = v.askerOf(w, t); t.heir != "" {
		t.asked = true
		return
	}
	t.heir, t.until = v.heirOf(w, t)
}

// heirFirst returns the reason for the agents that are not the heir.
func (t *traits) heirFirst() *Reason {
	code := FinisherFirst
	if t.asked {
		code = AskerFirst
	}
	return &Reason{Code: code, Agent: t.heir, Until: t.until}
}

// heirOf returns the agent that an issue waits for, and until when. It is the agent that finished the blocker closed
// last, if its thread has affinity_wait and it may take the issue. The wait starts when that blocker was closed.
func (v *view) heirOf(w *work, t *traits) (heir string, until time.Time) {
	if w.issue == nil || len(w.issue.Blockers) == 0 {
		return "", time.Time{}
	}
	var closed time.Time
	for _, b := range w.issue.Blockers {
		is := v.Facts.Issue(b.Ref)
		if is == nil || !is.Ended.After(closed) {
			continue
		}
		closed, heir = is.Ended, v.History.Chain(b.Ref).Finisher()
	}
	if heir == "" {
		return "", time.Time{}
	}
	a := v.Config.Agent(heir)
	if a == nil || v.Config.Thread(a.Thread) == nil {
		return "", time.Time{}
	}
	wait := v.Config.Thread(a.Thread).AffinityWait
	if wait == 0 || !v.may(heir, *t) || !v.later(closed.Add(wait)) {
		return "", time.Time{}
	}
	return heir, closed.Add(wait)
}

// askerOf returns the agent that asked a question or wrote a plan. It continues the item once people have answered,
// because its program still has the conversation. Other agents may take the item after ReworkWait.
func (v *view) askerOf(w *work, t *traits) (agent string, until time.Time) {
	d := v.dialogue(w)
	if d == nil || d.Agent == "" || !d.Asked || w.Kind == agents.KindRework {
		return "", time.Time{}
	}
	since := d.Answered
	if since.IsZero() { // the answer was a change of labels
		since = w.updated()
	}
	until = since.Add(ReworkWait)
	if !v.may(d.Agent, *t) || !v.later(until) {
		return "", time.Time{}
	}
	return d.Agent, until
}

// heirFirst reserves an item for its heir: the agent that asked about it, for ReworkWait, or the agent that finished
// an issue's last blocker, for that agent's affinity_wait.
func heirFirst(_ *view, t *traits, c candidate) *Reason {
	if t.heir != "" && t.heir != c.agent.Name {
		return t.heirFirst()
	}
	return nil
}
