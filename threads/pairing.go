package threads

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
)

// localPair reports whether an agent of this thread would be a local reviewer of local work.
func (c *Config) localPair(thread string, localWork bool) bool {
	t := c.Thread(thread)
	return localWork && t != nil && t.Backend == Local
}

// anyLocal reports whether a local model wrote to the work. An agent that is no longer configured may have been one.
func (c *Config) anyLocal(writers []string) bool {
	return slices.ContainsFunc(writers, func(name string) bool {
		a := c.Agent(name)
		return a == nil || c.localPair(a.Thread, true)
	})
}

// reviewable reports whether any configured agent may review work of these writers.
func (c *Config) reviewable(writers []string) bool {
	local := c.anyLocal(writers)
	return slices.ContainsFunc(c.Agents, func(a agents.Agent) bool {
		return c.HasTrigger(&a, agents.OnReview) && !slices.Contains(writers, a.Name) && !c.localPair(a.Thread, local)
	})
}

// hasReviewers reports whether any review agent is configured at all. Without one, people review.
func (c *Config) hasReviewers() bool {
	return slices.ContainsFunc(c.Agents, func(a agents.Agent) bool { return c.HasTrigger(&a, agents.OnReview) })
}

// HasTrigger reports whether one of an agent's roles has this trigger.
func (c *Config) HasTrigger(a *agents.Agent, on agents.On) bool {
	return slices.ContainsFunc(a.Roles, func(name string) bool {
		r := c.Role(name)
		return r != nil && r.On == on
	})
}
