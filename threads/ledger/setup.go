package ledger

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// setupFailed lets the repository rest, longer each time. Sessions that ran beside the first one do not count again.
func (e *ended) setupFailed() {
	if e.scheduled() || e.At.Before(e.repo.SetupUntil) {
		return
	}
	e.repo.SetupFails++
	e.repo.SetupUntil, e.repo.SetupWhy = e.at.Add(doubled(e.Breaker, e.repo.SetupFails, downMax)), e.Reason
}

// setUp forgets the failures of a repository's setup once it has succeeded.
func (e *ended) setUp() {
	failed := func(s agents.Step) bool { return s.Failed() }
	if e.Item.Kind == agents.KindIssue && len(e.Steps) > 0 && !slices.ContainsFunc(e.Steps, failed) {
		*e.repo = threads.RepoHistory{}
	}
}
