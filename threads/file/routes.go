package file

import (
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// readRoutes reads [routes], in which every key is a skill.
func (d *decoder) readRoutes(t *table) {
	t.named()
	for skill := range t.values {
		r := threads.Route{Skill: skill, Agents: t.oneOrMore(skill)}
		for _, name := range r.Agents {
			d.checkRoute(t, skill, name)
		}
		d.config.Routes = append(d.config.Routes, r)
	}
	slices.SortFunc(d.config.Routes, func(a, b threads.Route) int { return strings.Compare(a.Skill, b.Skill) })
	t.done()
}

// oneOrMore reads a string, or a list that is not empty.
func (t *table) oneOrMore(key string) []string {
	if s, ok := t.values[key].(string); ok && s != "" {
		t.ignore(key)
		return []string{s}
	}
	list := t.set(key)
	t.shapeOf(key).Type, t.shapeOf(key).MinLength = []string{"string", "array"}, 1
	if values, ok := t.values[key].([]any); ok && len(values) == 0 {
		t.wrong(key, "is empty, want at least one agent")
	}
	return list
}

// checkRoute refuses a route to an agent that could never take its issues.
func (d *decoder) checkRoute(t *table, skill, name string) {
	a := d.config.Agent(name)
	if a == nil {
		t.wrong(skill, "has %q in it, which is in no thread's agents%s", name, threads.Suggest(name, d.agentNames()))
		return
	}
	if !slices.Contains(a.Skills, skill) {
		t.wrong(skill, "has %s in it, which lacks the skill: add %q to its skills", name, skill)
	}
	if !d.config.Does(a, agents.KindIssue) {
		t.wrong(skill, `has %s in it, which has no role with on = "issue"`, name)
	}
}
