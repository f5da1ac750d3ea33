package proof

import (
	"fmt"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// most bounds the states of a search. A journey has a few dozen, with a long ladder a few hundred.
const most = 2000

// reviewers proves that every author's work gets its reviews. The issue is assigned to the author, and the search
// follows every sequence of failed sessions and requested changes.
func (p *prover) reviewers() string {
	writers := 0
	for _, a := range p.kin() {
		if !p.config.HasTrigger(a, agents.OnIssue) {
			continue
		}
		writers++
		for _, labels := range p.plainSets() {
			end := p.journey(labels, a.Name)
			// If the agent cannot start the issue for another reason, the issue is not for it.
			if end != nil && (end.begun || end.why.Code == threads.NoReviewer) {
				p.unreviewed(a, labels, end)
				break
			}
		}
	}
	for _, u := range p.waiting {
		p.tell("reviewers", Wrong, "the work of "+join(u.names)+" can wait for ever: "+u.why.Text(), u.story)
	}
	p.jammed()
	reviewed := slices.ContainsFunc(p.config.Roles, func(r agents.Role) bool { return r.On == agents.OnReview })
	if writers == 0 || !reviewed { // people review
		return ""
	}
	return "every author's work has a reviewer, also after failures, requested changes and each rung of a ladder"
}

// plainSets returns the sets of labels in use without a skill or an assignee.
func (p *prover) plainSets() (sets [][]string) {
	for _, set := range p.inUse() {
		if _, skilled := split(set.labels); len(skilled) == 0 && set.agents == "" {
			sets = append(sets, set.labels)
		}
	}
	return sets
}

// unreviewed records that the work of an agent, and of agents like it, finds no reviewer. NoReviewer, which
// Config.Problems also reports, is reported per agent in the words of Config.Problems.
func (p *prover) unreviewed(like *agents.Agent, labels []string, end *stuck) {
	for i := range p.config.Agents {
		a := &p.config.Agents[i]
		if p.kind(a) != p.kind(like) {
			continue
		}
		p.stuck[a.Name] = true
		if end.why.Code != threads.NoReviewer {
			end.names = append(end.names, a.Name)
		} else if own := p.journey(labels, a.Name); own != nil {
			text := threads.Problem{Key: "agents." + a.Name, Reason: *own.why}.String()
			p.tell("reviewers", Wrong, text, own.story)
		}
	}
	same := func(u *stuck) bool { return u.why.Text() == end.why.Text() }
	if i := slices.IndexFunc(p.waiting, same); i >= 0 {
		p.waiting[i].names = append(p.waiting[i].names, end.names...)
	} else if len(end.names) > 0 {
		p.waiting = append(p.waiting, end)
	}
}

// stopped reports whether an earlier finding says that the agent's work waits for ever.
func (p *prover) stopped(agent string) bool { return p.stuck[agent] }

// mostTold limits how many sets of labels get a finding of their own.
const mostTold = 10

// skills proves that an issue with each set of labels in use can be worked on until its end.
func (p *prover) skills() string {
	plain := make(map[string]bool) // by sets without skills: whether an issue with them is done
	stopped := 0
	for _, set := range p.inUse() {
		end := p.journey(set.labels, set.agents)
		if _, skilled := split(set.labels); len(skilled) == 0 && set.agents == "" {
			plain[set.words()] = end == nil
		}
		if end == nil || !p.counts(set, plain) {
			continue
		}
		if stopped++; stopped > mostTold {
			continue
		}
		if p.unpicked(set) {
			p.tell("skills", Hint, refs(set.refs)+": every role for issues requires a label", end.story)
		} else {
			p.tell("skills", Wrong, set.stops(end), end.story)
		}
	}
	if n := stopped - mostTold; n > 0 {
		p.tell("skills", Wrong, plural(n, "more set")+" of labels on open issues cannot be worked on either", nil)
	}
	takes := func(r agents.Role) bool { return r.On == agents.OnIssue }
	if !slices.ContainsFunc(p.config.Roles, takes) {
		return ""
	}
	return "every label and skill in use can be worked on"
}

// stops describes the effect on issues with a set of labels that cannot be worked on.
func (s labelSet) stops(end *stuck) string {
	why := end.why.Text()
	switch _, skilled := split(s.labels); {
	case end.why.Code == threads.PinnedTo:
		why = "no other agent takes it"
	case end.why.Code == threads.NoSkill:
		why = "no agent that may take it has " + join(skilled)
	}
	if len(s.refs) > 0 {
		return fmt.Sprintf("%s with %s can never be done: %s", refs(s.refs), s.words(), why)
	}
	return fmt.Sprintf("an issue with %s waits for ever: %s", s.words(), why)
}

// counts reports whether it matters that a set of labels cannot be worked on: open issues carry it, or it has a
// route, and the same issue without the skill could be worked on.
func (p *prover) counts(set labelSet, plain map[string]bool) bool {
	roles, _ := split(set.labels)
	return len(set.refs) > 0 || set.routed && plain[labelSet{labels: roles}.words()]
}

// unpicked reports whether issues with a set of labels wait for a person to pick them: every role for issues requires
// a label, and the set has none of these.
func (p *prover) unpicked(set labelSet) bool {
	free := func(r agents.Role) bool { return r.On == agents.OnIssue && r.Label == "" }
	roles, _ := split(set.labels)
	return len(roles) == 0 && set.agents == "" && !slices.ContainsFunc(p.config.Roles, free)
}

// split separates the labels that ask for skills from the others.
func split(labels []string) (roles, skills []string) {
	for _, l := range labels {
		if len(forge.Skills([]string{l})) > 0 {
			skills = append(skills, l)
		} else {
			roles = append(roles, l)
		}
	}
	return roles, skills
}

// refs names some items: "#3, #4 and 5 more".
func refs(list []forge.Ref) string {
	const shown = 3
	var names []string
	for _, r := range list[:min(shown, len(list))] {
		names = append(names, r.Short())
	}
	if n := len(list) - shown; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	return join(names)
}

// stuck is a state in which the subject waits for ever.
type stuck struct {
	why   *threads.Reason
	begun bool // a session has started
	story []string
	names []string // authors whose work ends there
}

// journey follows an issue from its filing through every sequence of outcomes: each writing session succeeds or
// fails, each review approves or requests changes, and the agent of a rework may be paused, so that another takes
// over. It returns the shortest sequence that ends with work that no agent may do, or nil. A merge or a wait for a
// person is a good end.
func (p *prover) journey(labels []string, agent string) (shortest *stuck) {
	first := newWorld(p.quiet)
	is := first.file(labels, agent)
	first.filed(is, agent)
	seen := map[string]bool{}
	for queue := []*world{first}; len(queue) > 0 && len(seen) < most; queue = queue[1:] {
		w := queue[0]
		start, end := w.settle()
		if shortest == nil {
			shortest = end
		}
		if start == nil {
			continue
		}
		p.climbed(w, start)
		for _, next := range w.outcomes(start) {
			if key := next.state(); !seen[key] {
				seen[key] = true
				queue = append(queue, next)
			}
		}
	}
	return shortest
}

func (w *world) filed(is *forge.Issue, agent string) {
	words := is.Short() + " is filed"
	if len(is.Labels) > 1 {
		words += " with " + join(slices.DeleteFunc(slices.Clone(is.Labels), func(l string) bool {
			return l == forge.LabelBacklog
		}))
	}
	if agent != "" {
		words += ", for " + agent
	}
	w.say("%s", words)
}

// climbed records that a chain reached a rung of a ladder.
func (p *prover) climbed(w *world, s *threads.Start) {
	if s.Rung == 0 {
		return
	}
	for _, of := range w.books.Chain(s.Item.Chain).Writers {
		p.climbs[rung{of, s.Agent}] = true
	}
}

// subject returns the issue, or its pull request once one is open.
func (w *world) subject() forge.Ref {
	if len(w.pulls) > 0 {
		return w.pulls[0].Ref
	}
	return w.issues[0].Ref
}

// settle advances time until the subject starts, or waits for ever. It returns neither if the subject is merged or
// waits for a person.
func (w *world) settle() (*threads.Start, *stuck) {
	const waits = 50
	for range waits {
		plan := w.plan()
		for i := range plan.Starts {
			if plan.Starts[i].Item.Ref == w.subject() {
				return &plan.Starts[i], nil
			}
		}
		if w.routed(&plan) {
			continue
		}
		why := held(&plan, w.subject())
		switch {
		case len(plan.Merges) > 0 || why == nil || why.Code == threads.Paused:
			return nil, nil
		case !plan.NextWake.IsZero():
			w.now = plan.NextWake
		case slices.Contains([]threads.Class{threads.Unfit, threads.Busy, threads.Ready}, why.Code.Class()):
			return nil, w.dead(why)
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// routed carries out the assignments of a plan, and reports whether there were any.
func (w *world) routed(plan *threads.Plan) (did bool) {
	for _, m := range plan.Marks {
		if is := w.issue(m.Ref); is != nil && m.Action == threads.ActRoute {
			is.Assignees, did = []string{w.config.Agent(m.Agent).Login}, true
			w.say("%s is assigned to %s by a route", m.Ref.Short(), m.Agent)
		}
	}
	return did
}

// outcomes returns the worlds that follow a session, success first.
func (w *world) outcomes(s *threads.Start) []*world {
	begin := func() (*world, string) {
		next := w.clone()
		run := next.starts(s)
		next.now = next.now.Add(step)
		return next, run
	}
	well, run := begin()
	bad, other := begin()
	ref := s.Item.Ref.Short()
	switch s.Item.Kind {
	case agents.KindReview:
		well.ends(run, agents.Done, forge.Approved)
		well.say("%s approves %s", s.Agent, ref)
		bad.ends(other, agents.Done, forge.ChangesRequested)
		bad.say("%s requests changes on %s", s.Agent, ref)
	case agents.KindIssue:
		well.ends(run, agents.Done, 0)
		made := well.open(w.config.Agent(s.Agent).Login, s.Item.Ref)
		well.say("%s opens %s for %s", s.Agent, made.Short(), ref)
		bad.ends(other, agents.Failed, 0)
		bad.say("%s fails at %s", s.Agent, ref)
	default:
		well.ends(run, agents.Done, 0)
		well.pushes(s.Item.Ref)
		well.say("%s reworks %s", s.Agent, ref)
		bad.ends(other, agents.Failed, 0)
		bad.say("%s fails at %s", s.Agent, ref)
	}
	if s.Item.Kind != agents.KindRework || len(w.books.Paused) > 0 {
		return []*world{well, bad}
	}
	gone := w.clone()
	gone.books.Apply(ledger.Record{At: gone.now, Pause: &ledger.Pause{Agent: s.Agent}})
	gone.say("%s is paused; others may rework %s after rework_wait", s.Agent, ref)
	return []*world{well, bad, gone}
}

// state returns what decides how a journey continues. The number of failures counts only while the chain can climb.
func (w *world) state() string {
	chain := w.books.Chain(w.issues[0].Ref)
	objections, verdict := 0, forge.Commented
	if len(w.pulls) > 0 {
		for _, r := range w.pulls[0].Reviews {
			if r.Verdict == forge.ChangesRequested {
				objections++
			}
			if r.CommitSHA == w.pulls[0].HeadSHA {
				verdict = r.Verdict
			}
		}
	}
	where := fmt.Sprint(len(w.pulls), verdict, chain.Writers, len(w.books.Paused))
	for _, name := range chain.Writers {
		if rungs, after := w.config.Ladder(name); len(rungs) > 0 && chain.Rung < len(rungs) {
			setbacks := min(chain.Failures+objections, after*len(rungs))
			tried := []int{chain.Attempt(agents.KindIssue).Count, chain.Attempt(agents.KindRework).Count}
			return fmt.Sprint(where, setbacks, chain.Rung, tried, objections)
		}
	}
	return where
}

// dead returns the reason why the subject waits for ever, with the answer of each agent with a matching role.
func (w *world) dead(why *threads.Reason) *stuck {
	end := w.clone()
	ref := end.subject()
	end.say("%s waits for ever: %s", ref.Short(), why.Text())
	ex, err := threads.Explain(w.snapshot(), ref)
	if err != nil {
		return &stuck{why: why, begun: end.begun > 0, story: end.story()}
	}
	on := agents.OnIssue
	if ex.Kind == agents.KindReview {
		on = agents.OnReview
	}
	var no []string
	for i := range ex.Candidates {
		c := &ex.Candidates[i]
		if r := w.config.Role(c.Role); r != nil && r.On == on {
			if words := w.answer(c); words != "" {
				no = append(no, c.Agent+": "+words)
			}
		}
	}
	if why.Code == threads.NoReviewer {
		no = w.pairings(append(slices.Clone(w.books.Chain(w.issues[0].Ref).Writers), why.Agent))
	}
	return &stuck{why: why, begun: end.begun > 0, story: append(end.story(), few(no)...)}
}

// answer returns the first objection to an agent, or "". For a role that requires a label, it names that label.
func (w *world) answer(c *threads.CandidateSteps) string {
	if r := w.config.Role(c.Role); r != nil && r.Label != "" && !w.issues[0].Has(r.Label) {
		return "role " + c.Role + " is for items labelled " + r.Label
	}
	if i := slices.IndexFunc(c.Steps, func(s threads.Step) bool { return !s.OK }); i >= 0 {
		return c.Steps[i].Why
	}
	return ""
}

// pairings says for each review agent why it may not review the work of the writers.
func (w *world) pairings(writers []string) (no []string) {
	for i := range w.config.Agents {
		a := &w.config.Agents[i]
		if code := w.config.Unpaired(a, writers); code != "" && w.config.HasTrigger(a, agents.OnReview) {
			no = append(no, a.Name+": "+threads.Reason{Code: code, Agent: a.Name}.Text())
		}
	}
	return no
}

// few keeps the first lines of a list, and counts the others.
func few(list []string) []string {
	const shown = 4
	if len(list) <= shown {
		return list
	}
	return append(slices.Clone(list[:shown]), fmt.Sprintf("and %d more like these", len(list)-shown))
}
