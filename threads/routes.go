package threads

import (
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Route is one line of [routes]: issues with a skill label are assigned to one of some agents as soon as they can be worked
// on, whether or not one of them is free. Without a route an issue waits unassigned for the next free agent.
type Route struct {
	Skill  string
	Agents []string // sorted; all have the skill
}

// route assigns what is routed and could not start in this plan. Each issue goes to the agent with the least to do.
func (d *decision) route() {
	if len(d.Config.Routes) == 0 {
		return
	}
	load := make(map[string]int)
	for _, w := range d.queue {
		if w.pending(d.view) {
			load[w.pin]++
		}
	}
	for _, w := range d.queue {
		if w.issue == nil || w.class == nil || w.taken || w.pin != "" || !d.routed(w) || d.intruder(w) != nil {
			continue
		}
		if a := d.leastLoaded(w, load); a != "" {
			load[a]++
			d.plan.Marks = append(d.plan.Marks, Mark{
				Action: ActRoute, Ref: w.Ref, Item: w.Item, Agent: a, Reason: Reason{Code: PinnedTo, Agent: a},
			})
		}
	}
}

// routed reports whether a route leads somewhere from one of the skills of an issue.
func (d *decision) routed(w *work) bool {
	skills := forge.Skills(w.labels())
	return slices.ContainsFunc(d.Config.Routes, func(r Route) bool { return slices.Contains(skills, r.Skill) })
}

// leastLoaded is the agent on the route of an issue that has the least to do; empty when none of them can work now. What is
// pinned to somebody who cannot would wait for no reason.
func (d *decision) leastLoaded(w *work, load map[string]int) string {
	best, least := "", 0
	for _, c := range w.class.able {
		n := load[c.agent.Name]
		if c.agent.on != nil {
			n++
		}
		if !c.stuck && (best == "" || n < least) {
			best, least = c.agent.Name, n
		}
	}
	return best
}

// readRoutes reads [routes], in which every key is a skill.
func (d *decoder) readRoutes(t *table) {
	for skill := range t.values {
		r := Route{Skill: skill, Agents: t.oneOrMore(skill)}
		for _, name := range r.Agents {
			d.checkRoute(t, skill, name)
		}
		d.config.Routes = append(d.config.Routes, r)
	}
	slices.SortFunc(d.config.Routes, func(a, b Route) int { return strings.Compare(a.Skill, b.Skill) })
	t.done()
}

// oneOrMore takes a string, or a list of them, at least one.
func (t *table) oneOrMore(key string) []string {
	if s, ok := t.values[key].(string); ok && s != "" {
		t.ignore(key)
		return []string{s}
	}
	list := t.set(key)
	if values, ok := t.values[key].([]any); ok && len(values) == 0 {
		t.wrong(key, "is empty, want at least one agent")
	}
	return list
}

// checkRoute refuses a route to somebody who could never take what comes along it.
func (d *decoder) checkRoute(t *table, skill, name string) {
	a := d.config.Agent(name)
	if a == nil {
		var known []string
		for i := range d.config.Agents {
			known = append(known, d.config.Agents[i].Name)
		}
		t.wrong(skill, "has %q in it, who is in no thread's agents%s", name, suggest(name, known))
		return
	}
	if !slices.Contains(a.Skills, skill) {
		t.wrong(skill, "has %s in it, who lacks the skill: add %q to its skills", name, skill)
	}
	v := &view{Snapshot: &Snapshot{Config: &d.config}}
	if !v.hasTrigger(a, agents.OnIssue) {
		t.wrong(skill, "has %s in it, who has no role for issues", name)
	}
}
