package file

import (
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// escalateAfter is the default number of setbacks from one rung to the next.
const escalateAfter = 2

// ladder reads the agents that take over work that an agent, or the agents of a role, did not finish.
func (t *table) ladder() (rungs []string, after int) {
	rungs = t.list("escalate")
	t.shapeOf("escalate").Unique = true
	for i, name := range rungs {
		if slices.Contains(rungs[:i], name) {
			t.wrong("escalate", "has %q twice", name)
		}
	}
	after = t.number("escalate_after", escalateAfter, 1)
	if len(rungs) > 0 {
		return rungs, after
	}
	if t.has("escalate_after") {
		t.wrong("escalate_after", "is set, and escalate is not: want both, or neither")
	}
	return nil, 0
}

// checkLadders refuses rungs that cannot write, and ladders that lead in a circle.
func (d *decoder) checkLadders() {
	c := &d.config
	told := make(map[string]bool)
	for i := range c.Agents {
		a := &c.Agents[i]
		key := []string{"agents", a.Name, "escalate"}
		d.checkLadder(key, a.Escalate, c.Does(a, agents.KindIssue))
		if slices.Contains(a.Escalate, a.Name) {
			d.wrong(d.lineOf(key), key, "has %s itself in it: want other agents", a.Name)
			continue
		}
		circle := d.circle(a.Name)
		if circle == nil {
			continue
		}
		key = d.ladderOf(a)
		ladder, members := strings.Join(key[:2], "."), strings.Join(slices.Sorted(slices.Values(circle[1:])), " ")
		if !told[ladder] && !told[members] { // all agents of a circle find the same one
			told[ladder], told[members] = true, true
			d.wrong(d.lineOf(key), key, "leads in a circle: %s", strings.Join(circle, " -> "))
		}
	}
	for i := range c.Roles {
		r := &c.Roles[i]
		d.checkLadder([]string{"roles", r.Name, "escalate"}, r.Escalate, r.On.Does(agents.KindIssue))
	}
}

// checkLadder checks the rungs of one ladder.
func (d *decoder) checkLadder(key, rungs []string, writes bool) {
	if len(rungs) > 0 && !writes {
		d.wrong(d.lineOf(key), key, `is set, and %s has no work with on = "issue": only that goes up a ladder`, key[1])
	}
	for _, name := range rungs {
		switch a := d.config.Agent(name); {
		case a == nil:
			d.wrong(d.lineOf(key), key, "has %q in it, which is no agent%s", name, threads.Suggest(name, d.agentNames()))
		case !d.config.Does(a, agents.KindIssue):
			d.wrong(d.lineOf(key), key, `has %s in it, which has no role with on = "issue"`, name)
		}
	}
}

// circle follows all ladders above an agent, and returns the shortest way back to it; nil without one.
func (d *decoder) circle(agent string) []string {
	return way(agent, agent, func(name string) []string {
		rungs, _ := d.config.Ladder(name)
		return rungs
	})
}

// way returns the shortest way of at least one step from one name to another, with both; nil without one.
func way(from, to string, next func(name string) []string) []string {
	before := make(map[string]string) // the name from which a name was reached first
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, name := range next(queue[0]) {
			if _, seen := before[name]; !seen {
				before[name] = queue[0]
				queue = append(queue, name)
			}
		}
	}
	if _, reached := before[to]; !reached {
		return nil
	}
	names := []string{to}
	for at := before[to]; at != from; at = before[at] {
		names = append(names, at)
	}
	slices.Reverse(names)
	return append([]string{from}, names...)
}

// ladderOf returns the key of the ladder that applies to an agent.
func (d *decoder) ladderOf(a *agents.Agent) []string {
	if len(a.Escalate) == 0 {
		for _, name := range a.Roles {
			if r := d.config.Role(name); r != nil && r.On.Does(agents.KindIssue) && len(r.Escalate) > 0 {
				return []string{"roles", name, "escalate"}
			}
		}
	}
	return []string{"agents", a.Name, "escalate"}
}
