package advice

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// change is a configuration that may help.
type change struct {
	kind   string
	name   string
	config *threads.Config
}

// Kinds of changes.
const (
	Slot   = "slot"
	Agent  = "agent"
	Fewer  = "fewer" // a slot or an agent less
	Key    = "key"   // of factory.toml
	Dollar = "dollar"
)

// mostChanges limits how many changes are tried, and mostSkills for how many skills. usualHold is the hold that is
// tried.
const (
	mostChanges = 24
	mostSkills  = 4
	usualHold   = 2 * time.Minute
)

// more returns the changes that add capacity, or make better use of it.
func more(c *threads.Config) (list []change) {
	for i := range c.Threads {
		t := &c.Threads[i]
		if len(t.Agents) > t.MaxSessions {
			list = append(list, slot(c, t, 1))
		}
		for j := range c.Roles {
			if may(c, &c.Roles[j], t) {
				list = append(list, hired(c, &c.Roles[j], t))
			}
		}
	}
	list = append(list, keys(c)...)
	list = append(list, skilled(c)...)
	list = append(list, dollars(c)...)
	return list[:min(len(list), mostChanges)]
}

// fewer returns the changes that remove a slot or an agent.
func fewer(c *threads.Config) (list []change) {
	for i := range c.Threads {
		if t := &c.Threads[i]; t.MaxSessions > 1 {
			list = append(list, slot(c, t, -1))
		}
	}
	for _, a := range alike(c) {
		ask := sim.Change{Without: []string{a.Name}}
		if other, _, err := ask.Of(c); err == nil && len(other.Roles) == len(c.Roles) {
			list = append(list, change{Fewer, "without " + a.Name, other})
		}
	}
	return list[:min(len(list), mostChanges)]
}

// slot adds slots to a thread, or removes some.
func slot(c *threads.Config, t *threads.Thread, by int) change {
	ask := sim.Change{Slots: map[string]int{t.Name: t.MaxSessions + by}}
	noun := "slot"
	if t.Overlap {
		noun = "session at once"
	}
	other, _, err := ask.Of(c)
	if err != nil { // too many slots
		other = c
	}
	if by < 0 {
		return change{Fewer, "one " + noun + " less on " + t.Name, other}
	}
	return change{Slot, "one more " + noun + " on " + t.Name, other}
}

// may reports whether agents of a role on a thread would find work. A local reviewer does only if some writing agent
// is not local: no local agent reviews local work.
func may(c *threads.Config, r *agents.Role, t *threads.Thread) bool {
	switch {
	case r.On == agents.OnIssue:
		return true
	case r.On != agents.OnReview:
		return false
	case t.Backend != threads.Local:
		return true
	}
	return slices.ContainsFunc(c.Agents, func(a agents.Agent) bool {
		writes := slices.ContainsFunc(a.Roles, func(name string) bool {
			role := c.Role(name)
			return role != nil && role.On == agents.OnIssue
		})
		return writes && c.Thread(a.Thread).Backend != threads.Local
	})
}

// hired adds an agent to a thread: a copy of an agent of that role, from that thread if it has one. If every agent of
// the thread has a slot, so does the new one.
func hired(c *threads.Config, r *agents.Role, t *threads.Thread) change {
	has := func(a *agents.Agent) bool { return slices.Contains(a.Roles, r.Name) }
	var like *agents.Agent
	for i := range c.Agents {
		if a := &c.Agents[i]; has(a) && (like == nil || like.Thread != t.Name && a.Thread == t.Name) {
			like = a
		}
	}
	a := *like
	a.Thread, a.Roles = t.Name, []string{r.Name}
	for a.Name = like.Name + "-2"; c.Agent(a.Name) != nil || c.AgentByLogin(a.Name) != nil; {
		a.Name += "-2"
	}
	a.Login = a.Name
	other := owned(c)
	other.Agents = inserted(other.Agents, a, func(o agents.Agent) bool { return o.Name > a.Name })
	th := other.Thread(t.Name)
	name := fmt.Sprintf("one more agent on %s (%s)", t.Name, r.Name)
	if th.MaxSessions >= len(th.Agents) {
		th.MaxSessions++
		if !th.Overlap {
			th.Slots++
			name = fmt.Sprintf("one more slot on %s, and an agent for it (%s)", t.Name, r.Name)
		}
	}
	th.Agents = inserted(th.Agents, a.Name, func(o string) bool { return o > a.Name })
	for i := range other.Routes {
		if on := &other.Routes[i]; slices.Contains(on.Agents, like.Name) {
			on.Agents = inserted(on.Agents, a.Name, func(o string) bool { return o > a.Name })
		}
	}
	return change{Agent, name, other}
}

// inserted returns a copy of a list with one more element, placed before the first greater one.
func inserted[T any](list []T, one T, greater func(T) bool) []T {
	at := slices.IndexFunc(list, greater)
	if at < 0 {
		at = len(list)
	}
	return slices.Insert(slices.Clone(list), at, one)
}

// owned copies a configuration whose agents, threads and routes the caller changes.
func owned(c *threads.Config) *threads.Config {
	other := *c
	other.Agents, other.Threads, other.Routes = slices.Clone(c.Agents), slices.Clone(c.Threads), slices.Clone(c.Routes)
	return &other
}

// keys returns changes of keys of factory.toml that cost nothing.
func keys(c *threads.Config) (list []change) {
	if n := c.Forge.MaxUnreviewed; n > 0 {
		other := owned(c)
		other.Forge.MaxUnreviewed = 2 * n
		list = append(list, change{Key, fmt.Sprintf("max_unreviewed = %d in place of %d", 2*n, n), other})
	}
	for i := range c.Threads {
		t := &c.Threads[i]
		if t.Overlap {
			continue
		}
		hold, name := usualHold, fmt.Sprintf(`hold = "2m" on %s`, t.Name)
		if t.Hold > 0 {
			hold, name = 0, "no hold on "+t.Name
		}
		other := owned(c)
		other.Threads[i].Hold = hold
		list = append(list, change{Key, name, other})
	}
	return list
}

// skilled returns changes that give a skill of some writing agents to all of them, and add them to its route.
func skilled(c *threads.Config) (list []change) {
	var writers []int
	holders := make(map[string]int)
	var skills []string
	for i := range c.Agents {
		a := &c.Agents[i]
		if !slices.ContainsFunc(c.Roles, func(r agents.Role) bool {
			return r.On == agents.OnIssue && slices.Contains(a.Roles, r.Name)
		}) {
			continue
		}
		writers = append(writers, i)
		for _, s := range a.Skills {
			if holders[s]++; holders[s] == 1 {
				skills = append(skills, s)
			}
		}
	}
	slices.Sort(skills)
	skills = slices.DeleteFunc(skills, func(s string) bool { return holders[s] == len(writers) && !narrow(c, s, writers) })
	for _, s := range skills[:min(len(skills), mostSkills)] {
		list = append(list, change{Key, "skill " + s + " for every agent that writes", spread(c, s, writers)})
	}
	return list
}

// narrow reports whether a route of a skill leaves out one of the given agents.
func narrow(c *threads.Config, skill string, of []int) bool {
	return slices.ContainsFunc(c.Routes, func(r threads.Route) bool {
		return r.Skill == skill && slices.ContainsFunc(of, func(i int) bool {
			return !slices.Contains(r.Agents, c.Agents[i].Name)
		})
	})
}

// spread gives a skill to agents, and adds them to its routes.
func spread(c *threads.Config, skill string, to []int) *threads.Config {
	other := owned(c)
	var names []string
	for _, i := range to {
		a := &other.Agents[i]
		if names = append(names, a.Name); !slices.Contains(a.Skills, skill) {
			a.Skills = inserted(a.Skills, skill, func(o string) bool { return o > skill })
		}
	}
	for i := range other.Routes {
		if r := &other.Routes[i]; r.Skill == skill {
			r.Agents = names
		}
	}
	return other
}

// dollars returns changes that raise each budget by a dollar a day, or by a tenth of its tokens.
func dollars(c *threads.Config) (list []change) {
	raise := func(b agents.Budget, who string, set func(*threads.Config, agents.Budget)) {
		by := "a tenth more tokens a day for "
		if b.USD > 0 {
			b.USD++
			by = "a dollar more a day for "
		}
		if b.Tokens > 0 {
			b.Tokens += max(1, b.Tokens/10)
		}
		if b == (agents.Budget{}) {
			return
		}
		other := owned(c)
		set(other, b)
		list = append(list, change{Dollar, by + who, other})
	}
	for i := range c.Threads {
		raise(c.Threads[i].Budget, c.Threads[i].Name, func(o *threads.Config, b agents.Budget) { o.Threads[i].Budget = b })
	}
	for i := range c.Agents {
		raise(c.Agents[i].Budget, c.Agents[i].Name, func(o *threads.Config, b agents.Budget) { o.Agents[i].Budget = b })
	}
	return list
}
