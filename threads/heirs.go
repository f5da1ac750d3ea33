package threads

import (
	"time"

	"codeberg.org/johba/disinto/agents"
)

// inherit names the agent that an item waits for until a time: the one that asked goes before the one that finished a
// blocker.
func (v *view) inherit(w *work, t *traits) {
	if t.heir, t.until = v.askerOf(w, *t); t.heir != "" {
		t.asked = true
		return
	}
	t.heir, t.until = v.heirOf(w, *t)
}

// heirFirst is the reason of the agents that are not the heir.
func (t *traits) heirFirst() *Reason {
	code := FinisherFirst
	if t.asked {
		code = AskerFirst
	}
	return &Reason{Code: code, Agent: t.heir, Until: t.until}
}

// heirOf is the agent that an issue waits for, and until when: the one that finished the blocker closed last, if its
// thread has affinity_wait and the agent may take the issue. The wait begins when that blocker was closed.
func (v *view) heirOf(w *work, t traits) (heir string, until time.Time) {
	if w.issue == nil || len(w.issue.Blockers) == 0 {
		return "", time.Time{}
	}
	var closed time.Time
	for _, b := range w.issue.Blockers {
		is, writers := v.Facts.Issue(b.Ref), v.History.Chain(b.Ref).Writers
		if is == nil || !is.Ended.After(closed) {
			continue
		}
		closed, heir = is.Ended, ""
		if len(writers) > 0 {
			heir = writers[len(writers)-1]
		}
	}
	if heir == "" {
		return "", time.Time{}
	}
	a := v.Config.Agent(heir)
	if a == nil || v.Config.Thread(a.Thread) == nil {
		return "", time.Time{}
	}
	wait := v.Config.Thread(a.Thread).AffinityWait
	if wait == 0 || !v.may(heir, t) || !v.later(closed.Add(wait)) {
		return "", time.Time{}
	}
	return heir, closed.Add(wait)
}

// askerOf is the agent that asked, or planned, and goes on with the item once people answered; others may after
// rework_wait. Its program still has the conversation.
func (v *view) askerOf(w *work, t traits) (agent string, until time.Time) {
	d := v.dialogue(w)
	if d == nil || d.Agent == "" || !d.Asked || w.Kind == agents.KindRework {
		return "", time.Time{}
	}
	since := d.Answered
	if since.IsZero() { // a label answered
		since = w.updated()
	}
	until = since.Add(v.Config.Forge.ReworkWait)
	if !v.may(d.Agent, t) || !v.later(until) {
		return "", time.Time{}
	}
	return d.Agent, until
}

// heirFirst reserves an item for the agent that asked about it, for rework_wait, or an issue for the agent that
// finished its last blocker, for the affinity_wait of the agent's thread.
func heirFirst(_ *view, t *traits, c candidate) *Reason {
	if t.heir != "" && t.heir != c.agent.Name {
		return t.heirFirst()
	}
	return nil
}
