package proof

import (
	"fmt"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// skillPrefix is that of labels that ask for a skill.
const skillPrefix = "skill/"

// most bounds how long a search goes on, in states: a journey has a few dozen, with a long ladder a few hundred.
const most = 2000

// reviewers proves that the work of every author can be reviewed to its end: the issue is assigned to the author, and
// each way is followed in which sessions fail and reviewers object.
func (p *prover) reviewers() string {
	writers := 0
	for _, a := range p.kin() {
		if !p.config.HasTrigger(a, agents.OnIssue) {
			continue
		}
		writers++
		for _, labels := range p.plainSets() {
			end := p.journey(labels, a.Name)
			// One that the agent cannot begin for another reason is not for it.
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
	if writers == 0 || !reviewed { // then people review
		return ""
	}
	return "the work of every author has a reviewer, also after failures, changes and each rung of a ladder"
}

// plainSets are the sets of labels in use that ask for no skill.
func (p *prover) plainSets() (sets [][]string) {
	for _, set := range p.inUse() {
		if _, skilled := split(set.labels); len(skilled) == 0 && set.agents == "" {
			sets = append(sets, set.labels)
		}
	}
	return sets
}

// unreviewed notes that the work of an agent, and of those like it, finds no reviewer. What Config.Problems says too is
// told of each agent in its words.
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

// stopped reports whether nothing of an agent comes to an end, which was told.
func (p *prover) stopped(agent string) bool { return p.stuck[agent] }

// mostTold bounds the sets of labels that are told of one by one.
const mostTold = 10

// skills proves that an issue with each set of labels in use can be worked on to its end.
func (p *prover) skills() string {
	plain := make(map[string]bool) // labels of roles without which nothing is done anyway
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
			p.tell("skills", Hint, refs(set.refs)+": every role that takes issues asks for a label", end.story)
		} else {
			p.tell("skills", Wrong, set.stops(end), end.story)
		}
	}
	if n := stopped - mostTold; n > 0 {
		p.tell("skills", Wrong, plural(n, "more set")+" of labels that open issues have cannot be worked on either", nil)
	}
	takes := func(r agents.Role) bool { return r.On == agents.OnIssue }
	if !slices.ContainsFunc(p.config.Roles, takes) {
		return ""
	}
	return "every label and skill in use can be worked on"
}

// stops says what happens to issues with a set of labels that cannot be worked on.
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

// counts reports whether it matters that a set of labels cannot be worked on: issues carry it, or a route is for it and
// without the skill the same issue could be.
func (p *prover) counts(set labelSet, plain map[string]bool) bool {
	roles, _ := split(set.labels)
	return len(set.refs) > 0 || set.routed && plain[labelSet{labels: roles}.words()]
}

// unpicked reports whether issues with a set of labels wait for people to pick them: every role that takes issues asks
// for a label, and they carry none of these.
func (p *prover) unpicked(set labelSet) bool {
	free := func(r agents.Role) bool { return r.On == agents.OnIssue && r.Label == "" }
	roles, _ := split(set.labels)
	return len(roles) == 0 && set.agents == "" && !slices.ContainsFunc(p.config.Roles, free)
}

// split tells the labels that ask for skills from the others.
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

// stuck is the end of a way: nothing will ever happen there.
type stuck struct {
	why   *threads.Reason
	begun bool // an agent has worked on it
	story []string
	names []string // of the authors to whom it happens
}

// journey follows an issue on every way from its filing: each writing session succeeds or fails, each review approves
// or requests changes, and an agent that is to rework may be gone, so that others do. It returns the shortest way that
// ends with work that no agent may do; nil when there is none. A way that ends with a person, or with a merge, is as it
// should be.
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

// climbed notes that a chain went up a ladder.
func (p *prover) climbed(w *world, s *threads.Start) {
	if s.Rung == 0 {
		return
	}
	for _, of := range w.books.Chain(s.Item.Chain).Writers {
		p.climbs[rung{of, s.Agent}] = true
	}
}

// subject is the issue, or its pull request once there is one.
func (w *world) subject() forge.Ref {
	if len(w.pulls) > 0 {
		return w.pulls[0].Ref
	}
	return w.issues[0].Ref
}

// settle lets time pass until the subject starts. Neither is returned where people go on, or it is merged.
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

// routed assigns what a plan has assigned, and reports whether it did.
func (w *world) routed(plan *threads.Plan) (did bool) {
	for _, m := range plan.Marks {
		if is := w.issue(m.Ref); is != nil && m.Action == threads.ActRoute {
			is.Assignees, did = []string{w.config.Agent(m.Agent).Login}, true
			w.say("%s is assigned to %s by a route", m.Ref.Short(), m.Agent)
		}
	}
	return did
}

// outcomes are the worlds that a session may lead to, success first.
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
	gone.say("%s is paused, and others may rework %s after a while", s.Agent, ref)
	return []*world{well, bad, gone}
}

// state has all that decides how a journey goes on. Where the chain can climb no higher, how often it failed does not.
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

// dead tells why the subject waits for ever, with the answer of each agent that works in such a role.
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

// answer is the first objection to an agent; empty for none. That no role fits says little where one asks for a label.
func (w *world) answer(c *threads.CandidateSteps) string {
	if r := w.config.Role(c.Role); r != nil && r.Label != "" && !w.issues[0].Has(r.Label) {
		return "role " + c.Role + " is for items labelled " + r.Label
	}
	if i := slices.IndexFunc(c.Steps, func(s threads.Step) bool { return !s.OK }); i >= 0 {
		return c.Steps[i].Why
	}
	return ""
}

// pairings say why each review agent may not review the work of some writers.
func (w *world) pairings(writers []string) (no []string) {
	for i := range w.config.Agents {
		a := &w.config.Agents[i]
		if code := w.config.Unpaired(a, writers); code != "" && w.config.HasTrigger(a, agents.OnReview) {
			no = append(no, a.Name+": "+threads.Reason{Code: code, Agent: a.Name}.Text())
		}
	}
	return no
}

// few keeps the first lines of a list.
func few(list []string) []string {
	const shown = 4
	if len(list) <= shown {
		return list
	}
	return append(slices.Clone(list[:shown]), fmt.Sprintf("and %d more in the same way", len(list)-shown))
}
