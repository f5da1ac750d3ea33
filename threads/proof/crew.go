package proof

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// slots proves that every agent can run, that every reviewer may review some agent's work, and that every slot can be
// used.
func (p *prover) slots() string {
	for i := range p.config.Agents {
		p.employed(&p.config.Agents[i])
	}
	for i := range p.file.Threads {
		t := &p.file.Threads[i]
		used := p.filled(t.Name)
		key, have := "max_concurrent", t.Slots
		if t.Overlap && t.MaxSessions > len(t.Agents) {
			key, have = "max_sessions", t.MaxSessions
		}
		if used < have {
			p.tell("slots", Hint, fmt.Sprintf("threads.%s: %s = %d, but at most %s can run there at once", t.Name, key, have,
				plural(used, "session")), p.crewOf(t))
		}
	}
	return "every agent can run, and every slot can be used"
}

// crewOf says why no more sessions run on a thread.
func (p *prover) crewOf(t *threads.Thread) []string {
	if len(t.Agents) == 0 {
		return []string{"the thread has no agents"}
	}
	return []string{"every agent of the thread is offered work of each kind: " + join(t.Agents), "no more of them start"}
}

// alone returns a world in which all agents but one are paused.
func (p *prover) alone(agent string) *world {
	w := newWorld(p.config)
	for i := range p.config.Agents {
		if name := p.config.Agents[i].Name; name != agent {
			w.books.Apply(ledger.Record{At: w.now, Pause: &ledger.Pause{Agent: name}})
		}
	}
	return w
}

// spent records a usage of an agent, a number of times.
func (w *world) spent(thread, agent string, u agents.Usage, times int) {
	a, t := ledger.Entry(w.books.Agents, agent), ledger.Entry(w.books.Threads, thread)
	for range times {
		a.Spent, t.Spent = a.Spent.Add(w.now, u), t.Spent.Add(w.now, u)
		t.Use(w.now, u)
	}
}

// offered files work of each kind for an agent, and returns its start, or nil if it starts nothing.
func (w *world) offered(agent string) *threads.Start {
	w.offers(agent, 1, 1)
	w.now = w.now.Add(step)
	plan := w.plan()
	i := slices.IndexFunc(plan.Starts, func(s threads.Start) bool { return s.Agent == agent })
	if i < 0 {
		return nil
	}
	return &plan.Starts[i]
}

// offers files an issue and a person's pull request for each role of an agent. Scheduled work is due anyway.
func (w *world) offers(agent string, issues, pulls int) {
	for _, name := range w.config.Agent(agent).Roles {
		r := w.config.Role(name)
		switch {
		case r == nil:
		case r.On == agents.OnIssue:
			w.file(compact(r.Label, fmt.Sprintf("priority/%d", issues)), agent)
		case r.On == agents.OnReview:
			made := w.open(fmt.Sprintf("person-%d", w.count), forge.Ref{})
			made.Labels = compact(r.Label, fmt.Sprintf("priority/%d", pulls))
		}
	}
}

// employed reports an agent that can never run. It also reports a reviewer that may review only people's work, in a
// factory where agents write.
func (p *prover) employed(a *agents.Agent) {
	if p.stopped(a.Name) {
		return
	}
	w := p.alone(a.Name)
	if w.offered(a.Name) == nil {
		plan := w.plan()
		for _, h := range plan.Holds {
			w.say("%s waits: %s", named(&h.Item), h.Reason.Text())
		}
		p.tell("slots", Hint, "agents."+a.Name+" can never run", w.story())
		return
	}
	if !p.quiet.HasTrigger(a, agents.OnReview) || p.quiet.HasTrigger(a, agents.OnIssue) {
		return
	}
	var story []string
	for _, author := range p.kin() {
		if !p.config.HasTrigger(author, agents.OnIssue) {
			continue
		}
		why := p.reviews(a, author)
		if why == "" {
			return
		}
		story = append(story, fmt.Sprintf("%s opens a pull request; %s may not review it: %s", author.Name, a.Name, why))
	}
	if len(story) > 0 {
		p.tell("slots", Hint, "agents."+a.Name+": it may review the work of people, but of no agent", few(story))
	}
}

// reviews returns why an agent does not review the work of an author, or "" if it does.
func (p *prover) reviews(a, author *agents.Agent) string {
	w := p.alone(a.Name)
	w.config = p.quiet
	var labels []string
	for _, name := range a.Roles {
		if r := p.config.Role(name); r != nil {
			labels = append(labels, r.Label)
		}
	}
	is := w.file(compact(labels...), "").Ref
	ledger.Entry(w.books.Chains, is).Writers = []string{author.Name}
	made := w.open(author.Login, is).Ref
	w.now = w.now.Add(step)
	plan := w.plan()
	if slices.ContainsFunc(plan.Starts, func(s threads.Start) bool { return s.Item.Ref == made }) {
		return ""
	}
	return w.refusal(made, a.Name)
}

// refusal returns the first reason against giving an agent an item.
func (w *world) refusal(ref forge.Ref, agent string) string {
	ex, err := threads.Explain(w.snapshot(), ref)
	if err != nil {
		return err.Error()
	}
	for i := range ex.Candidates {
		if no := w.answer(&ex.Candidates[i]); ex.Candidates[i].Agent == agent && no != "" {
			return no
		}
	}
	return ex.Verdict
}

// named names an item in a story: a pull request or issue by its number, scheduled work by its role.
func named(it *threads.Item) string {
	if it.Ref.Number == 0 {
		return it.Role
	}
	return string(it.Kind) + " " + it.Ref.Short()
}

// filled returns the most sessions that run on a thread at once. Every agent has work of each kind, and each order of
// urgency is tried.
func (p *prover) filled(thread string) int {
	used := 0
	for _, order := range [][2]int{{1, 10}, {10, 1}, {10, 10}} {
		w := newWorld(p.config)
		for i := range p.config.Agents {
			w.offers(p.config.Agents[i].Name, order[0], order[1])
		}
		w.now = w.now.Add(time.Hour)
		plan := w.plan()
		n := 0
		for i := range plan.Starts {
			if plan.Starts[i].Thread == thread {
				n++
			}
		}
		used = max(used, n)
	}
	return used
}
