package supervisor_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// A split is approved by a command once it is written, and not before.
func TestApproveSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		issue := w.Forge.Issue("large")
		w.Forge.Edit(issue, func(is *forge.Issue) { is.Labels = append(is.Labels, forge.LabelSplitFirst) })
		w.Exec.Script = func(job agents.Job, n int) simtest.Script {
			if slices.Contains(job.Env, "DISINTO_CAUSE=split") {
				return simtest.Script{Takes: time.Hour, Outcome: agents.Outcome{
					Result: agents.Planned, Words: "## A\n\n## B\n", Claimed: true,
				}}
			}
			return w.Work(job, n)
		}
		l := w.Start()
		time.Sleep(time.Minute)
		approve := fmt.Sprintf(`{"ref":"%d"}`, issue)
		told(t, l, "/v1/approve", approve,
			fmt.Sprintf("409 cannot approve johba/harb#%d: its split is not written yet", issue))
		w.Until(2*time.Hour, "a plan", func() bool { return len(w.Forge.Comments()) == 1 })
		time.Sleep(time.Minute)
		told(t, l, "/v1/approve", approve, fmt.Sprintf("johba/harb#%d: plan approved", issue))
		w.Until(24*time.Hour, "both are merged", func() bool { return w.Forge.Get(issue).Closed })
		l.Stop()
		w.Check()
		if pulls := w.Forge.Pulls(); len(pulls) != 2 {
			t.Errorf("got %d pull requests, want 2", len(pulls))
		}
	})
}

// A person approves a plan by a command. An agent's approval before that does not count.
func TestApprove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		planned, plain := w.Forge.Issue("large"), w.Forge.Issue("small")
		w.Forge.Edit(planned, func(is *forge.Issue) { is.Labels = append(is.Labels, forge.LabelPlanFirst) })
		w.Exec.Script = func(job agents.Job, n int) simtest.Script {
			if slices.Contains(job.Env, "DISINTO_CAUSE=plan") {
				return simtest.Script{Takes: time.Minute, Outcome: agents.Outcome{
					Result: agents.Planned, Words: "a plan",
					Claimed: true,
				}}
			}
			return w.Work(job, n)
		}
		l := w.Start()
		w.Until(time.Hour, "a plan", func() bool { return len(w.Forge.Comments()) == 1 })
		w.Forge.Approve(planned, "dev-qwen")
		time.Sleep(time.Hour)
		w.Forge.Edit(planned, func(is *forge.Issue) {
			is.Labels = slices.DeleteFunc(is.Labels, func(l string) bool { return l == forge.LabelPlanFirst })
		})
		told(t, l, "/v1/approve", fmt.Sprintf(`{"ref":"%d"}`, planned), fmt.Sprintf("johba/harb#%d: plan approved", planned))
		w.Until(time.Hour, "it is merged", func() bool { return w.Forge.Get(planned).Closed })
		told(t, l, "/v1/approve", fmt.Sprintf(`{"ref":"%d"}`, planned),
			fmt.Sprintf("409 cannot approve johba/harb#%d: it is closed, reopen it", planned))
		w.Forge.Edit(plain, func(is *forge.Issue) { is.Closed = false })
		told(t, l, "/v1/approve", fmt.Sprintf(`{"ref":"%d"}`, plain),
			fmt.Sprintf("409 cannot approve johba/harb#%d: it needs no plan; the label plan-first asks for one", plain))
		l.Stop()
		w.Check()
		if runs := w.Exec.RunsOf(agents.KindIssue, planned); len(runs) != 2 {
			t.Errorf("got %d sessions on the issue, want 2: one that plans and one that works", len(runs))
		}
	})
}
