package control

import (
	"slices"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// RetryChoice chooses items to retry: all that a retry lets go on, or those of one agent or repository, or those
// labelled blocked. The zero value chooses none.
type RetryChoice struct {
	Blocked, All bool
	Agent, Repo  string // the agent whose session on the item failed last, and the item's repository
}

// Empty reports whether nothing chooses.
func (c RetryChoice) Empty() bool { return c == RetryChoice{} }

// Check refuses an agent or a repository that the factory of a status does not have.
func (c RetryChoice) Check(d *Document) error {
	var agents, repos []string
	for i := range d.Agents {
		agents = append(agents, d.Agents[i].Name)
	}
	for i := range d.Repos {
		repos = append(repos, d.Repos[i].Name)
	}
	switch isRepo := func(name string) bool { return strings.EqualFold(name, c.Repo) }; {
	case c.Agent != "" && !slices.Contains(agents, c.Agent):
		return NotFound("no agent is called %s%s", c.Agent, threads.Suggest(c.Agent, agents))
	case c.Repo != "" && !slices.ContainsFunc(repos, isRepo):
		return NotFound("no repository is called %s%s", c.Repo, threads.Suggest(c.Repo, repos))
	}
	return nil
}

// From returns the chosen items of a status, in its order.
func (c RetryChoice) From(d *Document) (list []QueueDocument) {
	for i := range d.Queue {
		q := &d.Queue[i]
		if c.Empty() || q.Number == 0 || !q.retryHelps() || c.Blocked && !q.isBlocked() ||
			c.Agent != "" && q.FailedBy != c.Agent || c.Repo != "" && !strings.EqualFold(q.Repo, c.Repo) {
			continue
		}
		list = append(list, *q)
	}
	return list
}

// retryHelps reports whether the item failed, and waits for a person or for its next try.
func (q *QueueDocument) retryHelps() bool {
	switch q.Code {
	case threads.SkipLabel:
		return q.NeedsPerson
	case threads.CoolDown, threads.SetupFailed, threads.EgressRefused:
		return true
	}
	return q.Code.Class() == threads.Failed
}

// isBlocked reports whether it used up its attempts.
func (q *QueueDocument) isBlocked() bool {
	label := threads.Reason{Code: threads.SkipLabel, Note: forge.LabelBlocked}.Text()
	return q.Code == threads.GaveUp || q.Code == threads.SkipLabel && strings.HasPrefix(q.Why, label)
}
