package proof

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// jammed reports whether sessions that wait for a review can take every agent and slot that could review, so that all
// of them wait until their time limit. Config.Problems reports this for a single thread.
func (p *prover) jammed() {
	w := newWorld(p.quiet)
	for i := range p.quiet.Agents {
		a := &p.quiet.Agents[i]
		for _, name := range a.Roles {
			if r := p.quiet.Role(name); r != nil && r.WaitsForReview {
				w.file(compact("priority/1", r.Label), a.Name)
				break
			}
		}
	}
	plan := w.plan()
	for i := range plan.Starts {
		s := &plan.Starts[i]
		w.starts(s)
		w.say("%s starts %s on %s", s.Agent, s.Item.Ref.Short(), s.Thread)
	}
	for _, x := range slices.Clone(w.runs) {
		if r := p.quiet.Role(x.Role); r == nil || !r.WaitsForReview {
			return // this session ends, and frees its slot
		}
		made := w.open(x.Login, x.Item.Ref)
		w.say("%s opens %s, and runs until it is reviewed", x.Agent, made.Short())
	}
	w.now = w.now.Add(step)
	plan = w.plan()
	reviews := func(s threads.Start) bool { return s.Item.Kind == agents.KindReview }
	if len(w.pulls) == 0 || slices.ContainsFunc(plan.Starts, reviews) {
		return
	}
	for i := range w.pulls {
		if why := held(&plan, w.pulls[i].Ref); why != nil && why.Code.Class() == threads.Busy {
			w.say("%s waits for a review: %s", w.pulls[i].Short(), why.Text())
			p.tell("reviewers", Wrong, "sessions that wait for a review can take all slots and agents that review: "+
				"give a reviewer a thread of its own, or have the program end once its pull request is open", w.story())
			return
		}
	}
}
