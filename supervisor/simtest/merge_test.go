package simtest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// A reviewer that closes the pull request instead of objecting had the issue begun anew for ever: 207 implementations
// and 203 reviews in five minutes of a machine. Now that is a rejection, and after max_review_rounds a person is asked.
func TestReviewerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		issue := w.Forge.Issue("unwelcome")
		w.Exec.Script = func(job agents.Job, n int) Script {
			if job.Kind != agents.KindReview {
				return w.Work(job, n)
			}
			return Script{Takes: time.Second, Do: func() {
				w.Forge.EditPull(job.Number, func(p *forge.Pull) {
					p.Closed, p.ClosedBy, p.Ended = true, job.Agent, time.Now()
				})
			}}
		}
		l := w.Start()
		time.Sleep(3 * time.Hour)
		l.Kill() // the count is on the forge
		l.Bury()
		l = w.Start()
		time.Sleep(9 * time.Hour)
		rounds := w.Config.Forge.MaxReviewRounds + 1
		if got := len(w.Exec.RunsOf(agents.KindIssue, issue)); got != rounds {
			t.Errorf("%d implementations in twelve hours, want %d", got, rounds)
		}
		if is := w.Forge.Get(issue); !is.Has(forge.LabelNeedsHuman) {
			t.Errorf("labelled %v, want needs-human", is.Labels)
		}
		w.Forge.SendBack()
		time.Sleep(12 * time.Hour)
		if got := len(w.Exec.RunsOf(agents.KindIssue, issue)); got != 2*rounds {
			t.Errorf("%d implementations after a person sent it back, want %d", got, 2*rounds)
		}
		comments := w.Forge.Comments()
		if len(comments) != 2 || !strings.Contains(comments[1].Body, "closed by an agent 6 times") {
			t.Errorf("comments: %v, want two about the rounds", comments)
		}
		l.Stop()
		w.Check()
	})
}
