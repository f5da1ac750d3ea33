package threads

import (
	"cmp"
	"slices"

	"codeberg.org/johba/disinto/forge"
)

// Ladder returns the rungs above an agent, in order: the agents that get its chains after setbacks. after is the
// number of setbacks from one rung to the next. An agent's own ladder takes precedence over its role's. If the
// agent is on the ladder itself, only the rungs above it count.
func (c *Config) Ladder(agent string) (rungs []string, after int) {
	a := c.Agent(agent)
	if a == nil {
		return nil, 0
	}
	rungs, after = a.Escalate, a.EscalateAfter
	for _, name := range a.Roles {
		if r := c.Role(name); len(rungs) == 0 && r != nil { // a role of a file under decoding may not exist
			rungs, after = r.Escalate, r.EscalateAfter
		}
	}
	return rungs[1+slices.Index(rungs, agent):], max(1, after)
}

// StandIns returns the agents that may take an agent's assigned work and rework while its thread is shut, in order: its
// ladder, then the agents of its role on the threads to which its own falls back.
func (c *Config) StandIns(agent string) []string {
	rungs, _ := c.Ladder(agent)
	return slices.Concat(rungs, c.elsewhere(agent))
}

// elsewhere returns the agents with a role of the agent's on the threads to which its own falls back.
func (c *Config) elsewhere(agent string) (names []string) {
	a := c.Agent(agent)
	if a == nil {
		return nil
	}
	for _, to := range c.Thread(a.Thread).FallbackTo {
		for i := range c.Agents {
			b := &c.Agents[i]
			same := func(role string) bool { return slices.Contains(a.Roles, role) }
			if b.Thread == to && slices.ContainsFunc(b.Roles, same) {
				names = append(names, b.Name)
			}
		}
	}
	return names
}

// climb is a chain's position on an agent's ladder.
type climb struct {
	of       string // the agent
	level    int    // 0 is below the first rung
	setbacks int    // rejections and failures so far
}

// ladder has the rungs above an agent; see Config.Ladder.
type ladder struct {
	rungs []string
	after int
}

// foot is where on a ladder an item stands. Ten thousand climbing items share a handful of feet.
type foot struct {
	of    string
	level int
}

// choice is the rung that was chosen for items with the same traits.
type choice struct {
	traits
	rung string
}

// ladderOf returns Config.Ladder, which it computes once for each agent.
func (v *view) ladderOf(agent string) ladder {
	l, known := v.ladders[agent]
	if !known {
		l.rungs, l.after = v.Config.Ladder(agent)
		if v.ladders == nil {
			v.ladders = make(map[string]ladder)
		}
		v.ladders[agent] = l
	}
	return l
}

// climbOf finds the ladder of an item's chain, and the chain's level on it. The ladder is that of the chain's first
// writer that has one. The level never falls before a retry.
func (v *view) climbOf(w *work) (c climb) {
	h := w.chain
	writers := h.Writers
	if w.stage != nil && w.stage.own && len(writers) == 0 { // the journal was lost
		writers = w.stage.writers[:1]
	}
	for _, name := range writers {
		l := v.ladderOf(name)
		if len(l.rungs) == 0 {
			continue
		}
		c.of, c.setbacks = name, h.Failures+v.rejections(w, h)
		c.level = min(len(l.rungs), max(h.Rung, c.setbacks/l.after))
		c.setbacks = max(c.setbacks, c.level*l.after) // a dismissed review no longer counts, but the level stays
		break
	}
	return c
}

// rejections counts the rejected heads of a chain's pull requests since the last retry: those on which a review
// requested changes, and those whose pull request an agent closed unmerged.
func (v *view) rejections(w *work, h *ChainHistory) int {
	pulls := v.pullsOf(w)
	if len(pulls) == 0 {
		return 0
	}
	heads := make(map[string]bool)
	for _, p := range pulls {
		for i := range p.Reviews {
			r := &p.Reviews[i]
			counts := r.Official || v.isAgent(r.Author)
			if r.Verdict == forge.ChangesRequested && counts && r.Submitted.After(h.Retried) {
				heads[r.CommitSHA] = true
			}
		}
		if !p.Merged && v.isAgent(p.ClosedBy) && p.Ended.After(h.Retried) {
			heads[p.HeadSHA] = true
		}
	}
	return len(heads)
}

// pullsOf returns the pull requests of an item's chain.
func (v *view) pullsOf(w *work) (list []*forge.Pull) {
	switch {
	case w.pull != nil && w.Chain == w.Ref:
		return []*forge.Pull{w.pull}
	case v.pulls != nil:
		return v.pulls[w.Chain]
	}
	for i := range v.Facts.Pulls { // without the index: see newCrew
		if p := &v.Facts.Pulls[i]; slices.Contains(p.Closes, w.Chain) {
			list = append(list, p)
		}
	}
	return list
}

// climbing returns the rung to which a ladder reserves an item; empty without one. An assignment of the item, by a
// person or a route, takes precedence. If the other rules refuse the rung, the next one above takes its place, else
// the next one below, else none.
func (v *view) climbing(w *work, t *traits) (rung string, level, setbacks int) {
	if t.pin != "" {
		return "", 0, 0
	}
	c := v.climbOf(w)
	if c.level == 0 && !v.fallsBack(t.author) {
		return "", 0, 0
	}
	c.of = cmp.Or(c.of, t.author) // without a ladder, the threads to which its own falls back
	if rung = v.rungAt(foot{c.of, c.level}, t); rung == "" {
		return "", 0, 0
	}
	return rung, c.level, c.setbacks
}

// rungAt returns chooseRung, which it computes once for items with the same traits.
func (v *view) rungAt(f foot, t *traits) string {
	for i := range v.chosen[f] {
		if known := &v.chosen[f][i]; known.equal(t) {
			return known.rung
		}
	}
	if v.chosen == nil {
		v.chosen = make(map[foot][]choice)
	}
	rung := v.chooseRung(f, *t)
	v.chosen[f] = append(v.chosen[f], choice{*t, rung})
	return rung
}

// chooseRung finds the agent for a level of a ladder; empty when there is none.
func (v *view) chooseRung(f foot, t traits) string {
	rungs := v.ladderOf(f.of).rungs
	if f.level == 0 {
		return v.standIn(v.Config.StandIns(f.of), t)
	}
	at := slices.IndexFunc(rungs[f.level-1:], func(name string) bool { return v.mayStep(name, t) })
	if at >= 0 {
		at += f.level - 1
	}
	for i := f.level - 2; at < 0 && i >= 0; i-- {
		if v.mayStep(rungs[i], t) {
			at = i
		}
	}
	switch {
	case at < 0:
		return ""
	case v.fallsBack(rungs[at]):
		return cmp.Or(v.standIn(slices.Concat(rungs[at+1:], v.Config.elsewhere(rungs[at])), t), rungs[at])
	}
	return rungs[at]
}

// standIn returns the rung that replaces an agent whose thread is shut: the first idle one that may take the work,
// else the first busy one; empty without either.
func (v *view) standIn(rungs []string, t traits) (rung string) {
	for _, name := range rungs {
		if !v.mayStep(name, t) || v.shut(v.thread(v.Config.Agent(name).Thread)) {
			continue
		}
		if !slices.ContainsFunc(v.Sessions, func(s Session) bool { return s.Agent == name }) {
			return name
		}
		rung = cmp.Or(rung, name)
	}
	return rung
}

// mayStep reports whether the other rules let an agent take an item as a rung.
func (v *view) mayStep(name string, t traits) bool {
	t.rung, t.level, t.author, t.heir = name, 1, "", ""
	return v.may(name, t)
}

// fallsBack reports whether the work of an agent may go up its ladder, because its thread is shut and has fallback.
func (v *view) fallsBack(agent string) bool {
	a := v.Config.Agent(agent)
	if a == nil {
		return false
	}
	t := v.thread(a.Thread)
	return t.Fallback && v.shut(t)
}

// shut reports whether a thread starts nothing for long: it is parked, it fails, or its subscription is used up.
func (v *view) shut(t *threadState) bool {
	s := v.History.Failing[Crew{Thread: t.Name}]
	return v.later(v.History.Thread(t.Name).ParkedUntil) || s.Failing() && v.later(s.Until) || t.usedUp != nil
}

// onRung refuses every agent but the chain's rung, once the chain has had enough rejections and failures to climb.
func onRung(_ *view, t *traits, c candidate) *Reason {
	if t.level == 0 || t.rung == c.agent.Name {
		return nil
	}
	return &Reason{Code: OnRung, Agent: t.rung, Count: t.setbacks, Limit: t.level}
}

// fallBack assigns issues that are pinned to agents of a shut thread to a higher rung that can start them now, one
// issue to each agent. The forge lets only the assignee claim an issue.
func (d *decision) fallBack() {
	taken := make(map[string]bool) // agents that have an issue to start
	var stranded []*work
	for _, w := range d.queue {
		switch {
		case w.pin == "":
		case !d.fallsBack(w.pin):
			taken[w.pin] = taken[w.pin] || w.pending(d.view)
		case w.Reason != nil && w.Reason.Code == StaleFacts:
			return // it may have just been assigned to a rung
		case w.pending(d.view):
			stranded = append(stranded, w)
		}
	}
	for _, w := range stranded {
		rungs := d.Config.StandIns(w.pin)
		i := slices.IndexFunc(rungs, func(name string) bool { return !taken[name] && d.couldPin(w, name) })
		if i < 0 {
			continue
		}
		taken[rungs[i]] = true
		d.plan.Marks = append(d.plan.Marks, Mark{
			Action: ActRoute, Ref: w.Ref, Item: w.Item, Agent: rungs[i], From: w.pin,
			Reason: Reason{Code: PinnedTo, Agent: rungs[i]},
		})
	}
}

// couldPin reports whether an agent could start an issue at once if the issue were assigned to it.
func (d *decision) couldPin(w *work, name string) bool {
	t := w.class.traits
	t.pin = name
	return slices.ContainsFunc(d.cands, func(c candidate) bool {
		if c.agent.Name != name {
			return false
		}
		c.kind = t.kind
		_, why := d.refusal(&t, c)
		return why == nil && d.free(c)
	})
}
