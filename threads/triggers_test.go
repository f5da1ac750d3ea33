package threads_test

import (
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// TestEveryTriggerStarts gives each trigger's only agent an issue, a pull request and a due time. It must start an
// item of a kind that the trigger does, and no other: a trigger for which the scheduler makes no items does nothing.
func TestEveryTriggerStarts(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	ref := func(n int64) forge.Ref { return forge.Ref{Repo: "o/r", Number: n} }
	for _, on := range agents.Triggers() {
		c := &threads.Config{
			Forge: threads.Forge{Repos: []string{"o/r"}, MaxUnreviewed: 3, MaxReviewsHour: 9, MaxSessionsDay: 99},
			Roles: []agents.Role{{Name: "r", On: on, Every: time.Hour, Priority: 5, Command: []string{"x"}}},
			Agents: []agents.Agent{
				{Name: "a", Login: "a", Roles: []string{"r"}, Thread: "t", Token: "t"},
			},
			Threads: []threads.Thread{{Name: "t", Backend: threads.API, Slots: 1, MaxSessions: 1, Agents: []string{"a"}}},
		}
		s := threads.Snapshot{Now: now, Config: c, History: threads.NewHistory()}
		s.Facts.Repos = []forge.Repo{{Name: "o/r", AsOf: now, DefaultBranch: "main"}}
		s.Facts.Issues = []forge.Issue{{
			Ref: ref(1), Labels: []string{forge.LabelBacklog}, Created: now, Updated: now, AsOf: now, BlockersKnown: true,
		}}
		s.Facts.Pulls = []forge.Pull{{
			Ref: ref(2), Author: "ada", Created: now, Updated: now, AsOf: now, Base: "main", MergeBase: "base", Head: "patch",
			HeadSHA: "head", Mergeable: forge.MergeClean, Labels: []string{"review"},
		}}
		plan := threads.Decide(s)
		if len(plan.Starts) != 1 || !on.Does(plan.Starts[0].Item.Kind) {
			t.Errorf("on = %q: got starts %v, want one", on, plan.Starts)
		}
	}
}

// TestEveryKindHasATrigger expects a trigger for each kind of work, and one only.
func TestEveryKindHasATrigger(t *testing.T) {
	for _, kind := range []agents.Kind{agents.KindIssue, agents.KindReview, agents.KindRework, agents.KindSchedule} {
		does := slices.DeleteFunc(agents.Triggers(), func(on agents.On) bool { return !on.Does(kind) })
		if len(does) != 1 {
			t.Errorf("%s: got triggers %q, want one", kind, does)
		}
	}
}
