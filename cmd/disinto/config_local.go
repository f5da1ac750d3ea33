//go:build linux

package main

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// localPart returns the part of a configuration that this machine runs. It omits the agents whose sessions run on other
// machines, and the roles of only those agents: their programs, system accounts, limits and sandboxes are on the nodes.
func localPart(c *threads.Config) *threads.Config {
	part := *c
	part.Agents = slices.DeleteFunc(slices.Clone(c.Agents), func(a agents.Agent) bool { return runsElsewhere(c, &a) })
	if len(part.Agents) == 0 && len(c.Agents) > 0 {
		part.Factory.User = ""
	}
	has := func(all []agents.Agent, role string) bool {
		return slices.ContainsFunc(all, func(a agents.Agent) bool { return slices.Contains(a.Roles, role) })
	}
	part.Roles = slices.DeleteFunc(slices.Clone(c.Roles), func(r agents.Role) bool {
		return has(c.Agents, r.Name) && !has(part.Agents, r.Name)
	})
	return &part
}

// runsElsewhere reports whether the sessions of an agent run on other machines.
func runsElsewhere(c *threads.Config, a *agents.Agent) bool {
	t := c.Thread(a.Thread)
	return t != nil && t.Executor != ""
}
