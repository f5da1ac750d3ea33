package ledger

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// setupFailed lets the repository rest, longer each time. Sessions that ran beside the first one do not count again.
func (e *ended) setupFailed() {
	if e.scheduled() || e.At.Before(e.repo.SetupUntil) {
		return
	}
	e.repo.SetupFails++
	e.repo.SetupUntil, e.repo.SetupWhy = e.at.Add(doubled(e.Breaker, e.repo.SetupFails, downMax)), e.Reason
}

// setUp forgets the failures of a repository's commands once they have succeeded.
func (e *ended) setUp() {
	fails := func(s agents.Step) bool { return s.Phase == agents.PhaseSetup && s.Failed() }
	sets := func(s agents.Step) bool { return s.Phase == agents.PhaseSetup }
	if e.Item.Kind == agents.KindIssue && slices.ContainsFunc(e.Steps, sets) && !slices.ContainsFunc(e.Steps, fails) {
		e.repo.SetupFails, e.repo.SetupUntil, e.repo.SetupWhy = 0, time.Time{}, ""
	}
	switch v := e.Verified; {
	case v == nil || v.Verdict == agents.Red:
	case v.Verdict == agents.VerifyBroken:
		e.repo.RedBase, e.repo.RedWhy = v.Base, v.Words
	default:
		e.repo.RedBase, e.repo.RedWhy = "", ""
	}
}
