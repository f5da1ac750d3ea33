package threads

import (
	"fmt"
	"slices"

	"codeberg.org/johba/disinto/agents"
)

// Problem is a mistake in a valid configuration that keeps some work from ever being done.
type Problem struct {
	Key    string // the table with the mistake, such as agents.dev-qwen
	Reason Reason // the reason that held items will show
}

// String returns the problem and its remedy on one line.
func (p Problem) String() string {
	text := p.Key + ": " + p.Reason.Text()
	if mend := p.Reason.Mend(); mend != "" && p.Reason.Code != NoToken { // its text names the variable to set
		text += ": " + mend
	}
	return text
}

// Problems lists the mistakes that `disinto check` refuses. `disinto run` tolerates them, and holds the work with a
// reason. The scheduler's own rules find them, so the two cannot disagree. Agents come first, then repositories and
// roles, each sorted by name.
func (c *Config) Problems() []Problem {
	v := &view{Snapshot: &Snapshot{Config: c}}
	var all []Problem
	for i := range c.Agents {
		cand := candidate{agent: &agentState{Agent: &c.Agents[i]}}
		key := "agents." + c.Agents[i].Name
		if why := hasToken(v, cand); why != nil {
			all = append(all, Problem{key, *why})
		}
		if why := c.noReviewer("", &c.Agents[i]); why != nil {
			all = append(all, Problem{key, *why})
		}
	}
	for _, r := range c.Repos {
		for i := range c.Agents {
			why := c.noReviewer(r.Name, &c.Agents[i])
			if why != nil && c.ownCrew(r.Name) && c.noReviewer("", &c.Agents[i]) == nil {
				all = append(all, Problem{fmt.Sprintf("repos.%q", r.Name), *why})
			}
		}
	}
	for i := range c.Roles {
		if why := hasProgram(v, candidate{role: &c.Roles[i]}); why != nil {
			all = append(all, Problem{"roles." + c.Roles[i].Name, *why})
		}
	}
	return all
}

// noReviewer returns why nobody may review what an author writes in a repository, or nil. Empty stands for those
// without agents of their own, if there are any.
func (c *Config) noReviewer(repo string, a *agents.Agent) *Reason {
	nowhere := repo == "" && len(c.Forge.Repos) > 0 && !slices.ContainsFunc(c.Forge.Repos, func(name string) bool {
		return !c.ownCrew(name)
	})
	if nowhere || !c.Does(a, agents.KindIssue) || !c.WorksIn(repo, a.Name, agents.KindIssue) {
		return nil
	}
	v := &view{Snapshot: &Snapshot{Config: c}, reviews: c.reviewers()}
	t := &traits{traitKey: traitKey{kind: agents.KindIssue, repo: repo}}
	return canBeReviewed(v, t, candidate{agent: &agentState{Agent: a}})
}

// Deadlocked lists the agents of a thread whose sessions wait for a review by agents of the same thread, if they can
// fill the thread. Every session would then wait until its time limit; this happened to upstream twice. It returns
// nil if they cannot fill the thread.
func (c *Config) Deadlocked(t *Thread) []string {
	var waiting []string
	for i := range c.Agents {
		if a := &c.Agents[i]; a.Thread == t.Name && c.waitsForReview(a) && c.reviewedOnlyOn(t.Name, a.Name) {
			waiting = append(waiting, a.Name)
		}
	}
	if len(waiting) < t.MaxSessions {
		return nil
	}
	return waiting
}

// waitsForReview reports whether the agent's program may run until its pull request is reviewed.
func (c *Config) waitsForReview(a *agents.Agent) bool {
	return c.hasRole(a, func(r *agents.Role) bool { return r.WaitsForReview })
}

// reviewedOnlyOn reports whether some agents may review a writer's work, and all of them are on this thread.
func (c *Config) reviewedOnlyOn(thread, writer string) (only bool) {
	for i := range c.Agents {
		a := &c.Agents[i]
		if !c.Does(a, agents.KindReview) || c.Unpaired(a, []string{writer}) != "" {
			continue
		}
		if only = a.Thread == thread; !only {
			return false
		}
	}
	return only
}
