package threads

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
)

// Unpaired returns why an agent may not review the work of some writers: OwnWork, LocalPair, or empty. A local model
// never reviews a local model's work. A writer that is no longer configured counts as local.
func (c *Config) Unpaired(reviewer *agents.Agent, writers []string) Code {
	return c.unpaired(reviewer, writers, c.anyLocal(writers))
}

// unpaired is Unpaired for a caller that knows whether a writer is local. It runs for every agent and pull request.
func (c *Config) unpaired(reviewer *agents.Agent, writers []string, local bool) Code {
	switch {
	case slices.Contains(writers, reviewer.Name):
		return OwnWork
	case local && c.isLocal(reviewer):
		return LocalPair
	}
	return ""
}

func (c *Config) isLocal(a *agents.Agent) bool {
	t := c.Thread(a.Thread)
	return t != nil && t.Backend.Weak()
}

func (c *Config) anyLocal(writers []string) bool {
	return slices.ContainsFunc(writers, func(name string) bool {
		a := c.Agent(name)
		return a == nil || c.isLocal(a)
	})
}

// reviewable reports whether any configured agent may review the work of these writers in a repository.
func (v *view) reviewable(repo string, writers []string) bool {
	local := v.Config.anyLocal(writers)
	return slices.ContainsFunc(v.reviews, func(a *agents.Agent) bool {
		return v.Config.unpaired(a, writers, local) == "" && v.Config.WorksIn(repo, a.Name, agents.KindReview)
	})
}

// hasReviewers reports whether any review agent is configured. Without one, people review.
func (c *Config) hasReviewers() bool { return len(c.reviewers()) > 0 }

// reviewers returns the agents that review.
func (c *Config) reviewers() (list []*agents.Agent) {
	for i := range c.Agents {
		if c.Does(&c.Agents[i], agents.KindReview) {
			list = append(list, &c.Agents[i])
		}
	}
	return list
}

// Does reports whether one of an agent's roles does a kind of work.
func (c *Config) Does(a *agents.Agent, kind agents.Kind) bool {
	return c.hasRole(a, func(r *agents.Role) bool { return r.On.Does(kind) })
}

// hasRole reports whether one of an agent's roles fits.
func (c *Config) hasRole(a *agents.Agent, fits func(*agents.Role) bool) bool {
	return slices.ContainsFunc(a.Roles, func(name string) bool {
		r := c.Role(name) // a role of a file under decoding may not exist
		return r != nil && fits(r)
	})
}
