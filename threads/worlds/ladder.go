package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// above returns the agents above an agent on its ladder, and the number of setbacks from one to the next.
func (in *inspection) above(agent string) (rungs []string, each int) {
	a := in.cfg.Agent(agent)
	if a == nil {
		return nil, 1
	}
	if rungs, each = a.Escalate, a.EscalateAfter; len(rungs) == 0 {
		for _, name := range a.Roles {
			if r := in.cfg.Role(name); r.On == agents.OnIssue && len(r.Escalate) > 0 {
				rungs, each = r.Escalate, r.EscalateAfter
				break
			}
		}
	}
	for i, name := range rungs {
		if name == agent {
			return rungs[i+1:], each
		}
	}
	return rungs, each
}

// begun returns the agents that have worked on a chain, the first one first.
func (in *inspection) begun(it *threads.Item) []string {
	if known := in.s.History.Chain(it.Chain).Writers; len(known) > 0 {
		return known
	}
	if p := in.s.Facts.Pull(it.Ref); p != nil {
		if a := in.cfg.AgentByLogin(p.Author); a != nil {
			return []string{a.Name}
		}
	}
	return nil
}

// level returns a chain's ladder and its height on it, which follows from failures and rejections.
func (in *inspection) level(it *threads.Item) (rungs []string, level int) {
	for _, name := range in.begun(it) {
		var each int
		if rungs, each = in.above(name); len(rungs) > 0 {
			after := &in.checks.after
			level = max((after.setbacks[it.Chain]+in.sentBack(it))/each, after.rungs[it.Chain])
			return rungs, min(level, len(rungs))
		}
	}
	return nil, 0
}

// sentBack counts the heads of a chain's pull requests that were rejected since the last retry.
func (in *inspection) sentBack(it *threads.Item) int {
	since := in.s.History.Chain(it.Chain).Retried
	var heads []string
	for _, p := range in.s.Facts.Pulls {
		if !slices.Contains(p.Closes, it.Chain) && p.Ref != it.Ref {
			continue
		}
		agent := func(login string) bool { return in.ours(login) || in.bot(login) }
		if p.Closed && !p.Merged && agent(p.ClosedBy) && p.Ended.After(since) {
			heads = append(heads, p.HeadSHA)
		}
		for _, r := range p.Reviews {
			if r.Verdict == forge.ChangesRequested && (r.Official || agent(r.Author)) && r.Submitted.After(since) {
				heads = append(heads, r.CommitSHA)
			}
		}
	}
	slices.Sort(heads)
	return len(slices.Compact(heads))
}

// rung returns the agent to which a ladder gives an item, or nil. alone means that no other agent may take the item.
func (in *inspection) rung(it *threads.Item) (rung *agents.Agent, alone bool) {
	if !in.laddered || !it.Kind.Writes() {
		return nil, false
	}
	is := in.s.Facts.Issue(it.Ref)
	pinned := it.Kind == agents.KindIssue && !is.Has(forge.LabelInProgress) && slices.ContainsFunc(is.Assignees, in.ours)
	rungs, level := in.level(it)
	if pinned || len(rungs) == 0 {
		return nil, false
	}
	if level == 0 {
		author := in.author(it)
		if author == nil || !in.Now.Before(it.Since.Add(in.cfg.Forge.ReworkWait)) || !in.stranded(author) {
			return nil, false
		}
		return in.substitute(it, rungs), false
	}
	order := slices.Clone(rungs[level-1:])
	for i := level - 2; i >= 0; i-- {
		order = append(order, rungs[i])
	}
	i := slices.IndexFunc(order, func(name string) bool { return in.steps(it, name) })
	if i < 0 {
		return nil, false
	}
	rung = in.cfg.Agent(order[i])
	if higher := slices.Index(rungs, rung.Name) + 1; in.stranded(rung) {
		if other := in.substitute(it, rungs[higher:]); other != nil {
			rung = other
		}
	}
	return rung, true
}

// author returns the agent that opened the pull request of a rework, or nil for other work.
func (in *inspection) author(it *threads.Item) *agents.Agent {
	if it.Kind != agents.KindRework {
		return nil
	}
	return in.cfg.AgentByLogin(in.s.Facts.Pull(it.Ref).Author)
}

// stranded reports whether an agent's thread starts nothing for long, and may fall back to ladders.
func (in *inspection) stranded(a *agents.Agent) bool {
	return in.cfg.Thread(a.Thread).Fallback && in.shut(a)
}

func (in *inspection) shut(a *agents.Agent) bool {
	return in.s.History.Thread(a.Thread).ParkedUntil.After(in.Now) || in.exhausted(in.cfg.Thread(a.Thread))
}

// substitute returns the first rung that can take an item, preferably one without a session.
func (in *inspection) substitute(it *threads.Item, rungs []string) (first *agents.Agent) {
	for _, name := range rungs {
		a := in.cfg.Agent(name)
		if !in.steps(it, name) || in.shut(a) {
			continue
		}
		if !slices.ContainsFunc(in.s.Sessions, func(s threads.Session) bool { return s.Agent == name }) {
			return a
		}
		if first == nil {
			first = a
		}
	}
	return first
}

// steps reports whether the rules other than the ladder let an agent take an item as a rung.
func (in *inspection) steps(it *threads.Item, name string) bool {
	a := in.cfg.Agent(name)
	if a == nil || in.writing(it, a) == nil {
		return false
	}
	if it.Kind == agents.KindIssue {
		return in.capable(it, a) == ""
	}
	return in.reviewableAfter(it, a)
}

// reviewableAfter reports whether an agent may still review the pull request after a rework by the given agent.
func (in *inspection) reviewableAfter(it *threads.Item, a *agents.Agent) bool {
	writers := in.writers(in.s.Facts.Pull(it.Ref))
	return !in.reviewable(writers) || in.reviewable(append(writers, a.Name))
}

// rungsRight checks the rung that each start of a writing session names.
func rungsRight(in *inspection) error {
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		want := 0
		if _, alone := in.rung(&st.Item); alone {
			_, want = in.level(&st.Item)
		}
		if st.Rung != want {
			return fmt.Errorf("%s %s by %s: got rung %d, want %d", st.Item.Kind, st.Item.Ref, st.Agent, st.Rung, want)
		}
	}
	return nil
}

// fallsBack reports whether a pinned issue may be reassigned to a rung of its agent's ladder.
func (in *inspection) fallsBack(m *threads.Mark) bool {
	from, to, is := in.cfg.Agent(m.From), in.cfg.Agent(m.Agent), in.s.Facts.Issue(m.Ref)
	if from == nil || to == nil || is == nil || !slices.Equal(is.Assignees, []string{from.Login}) || !in.stranded(from) {
		return false
	}
	rungs, _ := in.above(from.Name)
	return slices.Contains(rungs, to.Name) && in.roleFor(&m.Item, to) != nil && in.capable(&m.Item, to) == "" &&
		in.idle(&m.Item, to, in.busy) == ""
}

// pin assigns some issues to agents with ladders, and parks the threads of some of these.
func (w *world) pin() {
	for i := range w.cfg.Agents {
		a := &w.cfg.Agents[i]
		if len(a.Escalate) == 0 || !w.chance(0.5) {
			continue
		}
		is := oneOf(w, oneOf(w, w.forge.repos...).issues...)
		if len(is.Assignees) == 0 {
			is.Assignees = []string{a.Login}
		}
		if w.chance(0.5) {
			t := ledger.Entry(w.shell.books.Threads, a.Thread)
			t.ParkedUntil, t.ParkedWhy = epoch.Add(w.between(time.Minute, 50*time.Minute)), "usage limit"
		}
	}
}

// ladders gives ladders of writing agents to some agents, and sometimes to a role.
func (w *world) ladders(cfg *threads.Config) {
	var writers []string
	for i := range cfg.Agents {
		a := &cfg.Agents[i]
		if slices.ContainsFunc(a.Roles, func(name string) bool { return name == "dev" || name == "write" }) {
			writers = append(writers, a.Name)
		}
	}
	if len(writers) < 2 {
		return
	}
	some := func(but string) (rungs []string) {
		for _, i := range w.rng.Perm(len(writers))[:w.number(1, 2)] {
			if writers[i] != but {
				rungs = append(rungs, writers[i])
			}
		}
		return rungs
	}
	for i := range cfg.Agents {
		if a := &cfg.Agents[i]; slices.Contains(writers, a.Name) && w.chance(0.4) {
			a.Escalate, a.EscalateAfter = some(a.Name), w.number(1, 2)
		}
	}
	if w.chance(0.2) {
		rungs, after := some(""), w.number(1, 2)
		for _, list := range [][]agents.Role{cfg.Roles, w.roles} {
			for i := range list {
				if list[i].Name == "dev" {
					list[i].Escalate, list[i].EscalateAfter = rungs, after
				}
			}
		}
	}
}
