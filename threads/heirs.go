package threads

import (
	"time"

	"codeberg.org/johba/disinto/agents"
)

// ReworkWait is how long an item waits for the agent that wrote its pull request, or that asked a question about it,
// while that agent cannot start.
const ReworkWait = 30 * time.Minute

// inherit makes an item wait for the agent that asked a question or wrote a plan. It continues the item once people
// have answered, because its program still has the conversation. Other agents may take the item after ReworkWait.
func (v *view) inherit(w *work, t *traits) {
	d := v.dialogue(w)
	if d == nil || d.Agent == "" || !d.Asked || w.Kind == agents.KindRework {
		return
	}
	since := d.Answered
	if since.IsZero() { // the answer was a change of labels
		since = w.updated()
	}
	if until := since.Add(ReworkWait); v.may(d.Agent, *t) && v.later(until) {
		t.heir, t.until = d.Agent, until
	}
}

// heirFirst returns the reason for the agents that are not the heir.
func (t *traits) heirFirst() *Reason { return &Reason{Code: AskerFirst, Agent: t.heir, Until: t.until} }

// heirFirst reserves an item for the agent that asked about it, for ReworkWait.
func heirFirst(_ *view, t *traits, c candidate) *Reason {
	if t.heir != "" && t.heir != c.agent.Name {
		return t.heirFirst()
	}
	return nil
}
