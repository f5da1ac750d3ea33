package threads

import (
	"slices"

	"codeberg.org/johba/disinto/forge"
)

// Route is one line of [routes]. Issues with its skill label are assigned to one of its agents as soon as they can be
// worked on, even if no agent is free. Without a route an issue waits unassigned for the next free agent.
type Route struct {
	Skill  string
	Agents []string // sorted; each has the skill
}

// route assigns the routed issues that could not start in this plan, each to the agent with the fewest issues.
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

// routed reports whether there is a route for one of an issue's skills.
func (d *decision) routed(w *work) bool {
	skills := forge.Skills(w.labels())
	return slices.ContainsFunc(d.Config.Routes, func(r Route) bool { return slices.Contains(skills, r.Skill) })
}

// leastLoaded returns the agent on an issue's route that has the fewest issues. It returns none if no agent on the
// route can work now, because an issue that is pinned to a held agent would wait without need.
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
