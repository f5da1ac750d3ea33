package supervisor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// runs returns the sessions on issues, such as "#1 cancelled", with the attempt from the second on.
func runs(w *simtest.World) string {
	var list []string
	for _, r := range w.Exec.Runs() {
		words := fmt.Sprintf("%s #%d", r.Job.Kind, r.Job.Number)
		if !slices.Contains(r.Job.Env, "DISINTO_ATTEMPT=1") {
			words += " again"
		}
		if !r.End.IsZero() {
			words += " " + string(r.Outcome.Result)
		}
		list = append(list, words)
	}
	return strings.Join(list, ", ")
}

func wantRuns(t *testing.T, w *simtest.World, want string) {
	t.Helper()
	if got := runs(w); got != want {
		t.Errorf("got sessions %q, want %q", got, want)
	}
}

// marks returns the labels and assignees of an issue.
func marks(w *simtest.World, n int64) string {
	is := w.Forge.Get(n)
	return strings.Join(append(slices.Clone(is.Labels), is.Assignees...), " ")
}

func wantMarks(t *testing.T, w *simtest.World, n int64, want string) {
	t.Helper()
	if got := marks(w, n); got != want {
		t.Errorf("#%d: got labels and assignees %q, want %q", n, got, want)
	}
}

// life runs a test in a world with one issue that an agent works on.
func life(t *testing.T, test func(t *testing.T, w *simtest.World, l *simtest.Life)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Forge.Issue("one")
		l := w.Start()
		time.Sleep(time.Minute)
		wantRuns(t, w, "issue #1")
		test(t, w, l)
		wantReplay(t, l)
		l.Stop()
		w.Check()
	})
}

// When cancel answers, the session has ended, the label is written and the claim is released. Retry undoes it.
func TestCancel(t *testing.T) {
	life(t, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		told(t, l, "/v1/cancel", `{"ref":"1"}`, "johba/harb#1: session of dev-coder ended, labelled cancelled")
		wantRuns(t, w, "issue #1 cancelled")
		wantMarks(t, w, 1, "backlog cancelled")
		for _, again := range []string{`{"ref":"#1"}`, `{"ref":"Johba/Harb#1"}`} {
			told(t, l, "/v1/cancel", again, "johba/harb#1:  (cancelled already)")
		}
		time.Sleep(simtest.Size(3*time.Hour, time.Hour))
		wantRuns(t, w, "issue #1 cancelled")
		if d := l.Document(); d.Recent[0].Outcome != agents.Cancelled || d.Recent[0].Reason != "cancelled by hand" ||
			held(l) != "#1 label" {
			t.Errorf("got %+v, held %s, want it cancelled by hand", d.Recent[0], held(l))
		}
		told(t, l, "/v1/retry", `{"ref":"1"}`, "johba/harb#1: label cancelled removed")
		w.Until(2*time.Second, "another session", func() bool { return len(w.Exec.Runs()) == 2 })
		wantRuns(t, w, "issue #1 cancelled, issue #1")
		told(t, l, "/v1/retry", `{"ref":"1"}`, "johba/harb#1:  (dev-coder works on it)")
		wantRuns(t, w, "issue #1 cancelled, issue #1")
	})
}

func TestCancelWithoutSession(t *testing.T) {
	life(t, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Forge.Issue("two", 1)
		told(t, l, "/v1/cancel", `{"ref":"2"}`, "johba/harb#2: labelled cancelled")
		w.Until(2*time.Hour, "the first is merged", func() bool { return w.Forge.Get(1).Closed })
		time.Sleep(simtest.Size(time.Hour, 20*time.Minute))
		wantMarks(t, w, 2, "backlog cancelled")
		if n := len(w.Exec.RunsOf(agents.KindIssue, 2)); n != 0 {
			t.Errorf("got %d sessions on a cancelled issue, want 0", n)
		}
		told(t, l, "/v1/cancel", `{"ref":"1"}`, "johba/harb#1:  (closed, nothing to cancel)")
		told(t, l, "/v1/cancel", `{"ref":"99"}`, "404 cannot cancel johba/harb#99: there is no such issue or pull request")
		told(t, l, "/v1/cancel", `{"ref":"a/b#1"}`, "404 a/b is none of the repositories of this factory")
		told(t, l, "/v1/cancel", `{"ref":"one"}`, `400 cannot read "one" as an issue: write 12, #12 or owner/name#12`)
	})
}

// A start that races with a cancel does not happen after the answer, and a session started before has ended by then.
func TestCancelRace(t *testing.T) {
	for i := 0; i < 125; i += simtest.Size(1, 12) {
		synctest.Test(t, func(t *testing.T) {
			w := simtest.New(t)
			w.Slow()
			l := w.Start()
			time.Sleep(time.Second)
			w.Forge.Issue("one")
			l.Reload(w.Config, nil) // kicks
			time.Sleep(time.Duration(i) * 4 * time.Millisecond)
			answer := tell(t, l, "/v1/cancel", `{"ref":"1"}`)
			answered := time.Now()
			if !strings.Contains(answer, "labelled cancelled") || strings.Contains(answer, "[") {
				t.Errorf("cancel after %d ms: got %s", 4*i, answer)
			}
			for _, r := range w.Exec.Runs() {
				if r.End.IsZero() {
					t.Errorf("cancel after %d ms: a session still runs after the answer", 4*i)
				}
			}
			wantMarks(t, w, 1, "backlog cancelled")
			time.Sleep(simtest.Size(10*time.Minute, 3*time.Minute))
			for _, r := range w.Exec.Runs() {
				if r.Begin.After(answered) {
					t.Errorf("cancel after %d ms: a session started after the answer", 4*i)
				}
			}
			wantMarks(t, w, 1, "backlog cancelled")
			l.Stop()
			w.Check()
		})
	}
}

// The cancel of an issue includes our pull requests for it: a merge would close the issue.
func TestCancelWithPull(t *testing.T) {
	life(t, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Until(time.Hour, "a review", func() bool { return len(w.Exec.Runs()) == 2 })
		told(t, l, "/v1/cancel", `{"ref":"1"}`,
			"johba/harb#1: session of review-opus ended, labelled cancelled, #2 labelled cancelled")
		time.Sleep(simtest.Size(3*time.Hour, 40*time.Minute))
		wantRuns(t, w, "issue #1 done, review #2 cancelled")
		if w.Forge.Get(1).Closed || w.Forge.Pulls()[0].Closed {
			t.Error("a cancelled issue or its pull request was closed")
		}
		told(t, l, "/v1/retry", `{"ref":"1"}`, "johba/harb#1: label cancelled removed, #2 label cancelled removed")
		w.Until(time.Hour, "merged", w.Forge.Done)
	})
}

// A cancel while the forge is down ends the session, and nothing starts; the label follows later, even after a
// restart.
func TestCancelWithForgeDown(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := simtest.New(t)
			w.Forge.Issue("one")
			l := w.Start()
			time.Sleep(time.Minute)
			w.Forge.Fail(func(context.Context, string) error { return forge.ErrUnavailable })
			told(t, l, "/v1/cancel", `{"ref":"1"}`, "johba/harb#1: session of dev-coder ended "+
				"[nothing starts on it; it is labelled when the forge allows it: forge unavailable]")
			told(t, l, "/v1/cancel", `{"ref":"7"}`, "503 cannot cancel johba/harb#7 now: forge unavailable")
			told(t, l, "/v1/retry", `{"ref":"1"}`, "503 cannot retry johba/harb#1 now: forge unavailable")
			if restart {
				l.Stop()
				l = w.Start()
			}
			time.Sleep(time.Minute)
			w.Forge.Fail(nil)
			w.Until(3*time.Minute, "the label", func() bool { return marks(w, 1) == "backlog cancelled" })
			time.Sleep(simtest.Size(time.Hour, 20*time.Minute))
			wantRuns(t, w, "issue #1 cancelled")
			wantReplay(t, l)
			l.Stop()
			w.Check()
		})
	}
}

// If a supervisor is killed in the middle of a cancel, the next one finishes it.
func TestCancelKilled(t *testing.T) {
	// The second look comes after the journal record and the end of the session.
	for call, n := range map[string]int{"release": 1, "look": 2, "label": 1} {
		for _, after := range []bool{false, true} {
			if !simtest.Storms() && (call == "release" || after != (call == "look")) {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				w := simtest.New(t)
				w.Forge.Issue("one")
				l := w.Start(simtest.KillAt(call, n, after))
				time.Sleep(time.Minute)
				go l.Handler().ServeHTTP(discard{}, request(`{"ref":"1"}`))
				<-l.Killed
				l.Bury()
				l = w.Start()
				w.Until(2*time.Minute, "the label", func() bool { return marks(w, 1) == "backlog cancelled" })
				time.Sleep(simtest.Size(time.Hour, 15*time.Minute))
				if n := len(w.Exec.Runs()); n != 1 {
					t.Errorf("killed at %s: got sessions %s, want 1", call, runs(w))
				}
				wantMarks(t, w, 1, "backlog cancelled")
				l.Stop()
				w.Check()
			})
		}
	}
}

// After release the session has ended and the issue stays in the queue. After a minute an agent takes it, at the same
// attempt.
func TestRelease(t *testing.T) {
	life(t, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Forge.Edit(1, func(is *forge.Issue) { is.Labels = []string{forge.LabelInProgress} }) // as upstream's programs do
		told(t, l, "/v1/release", `{"ref":"1"}`,
			"johba/harb#1: session of dev-coder ended, claim released, label backlog put back")
		wantMarks(t, w, 1, "backlog")
		told(t, l, "/v1/release", `{"ref":"1"}`, "johba/harb#1:  (no claim of ours is on it)")
		time.Sleep(50 * time.Second)
		wantRuns(t, w, "issue #1 cancelled")
		w.Until(20*time.Second, "another session", func() bool { return len(w.Exec.Runs()) == 2 })
		wantRuns(t, w, "issue #1 cancelled, issue #1")
	})
}

func TestReleaseWithoutSession(t *testing.T) {
	life(t, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		told(t, l, "/v1/pause", `{}`, "everything: paused")
		for n, mark := range []struct{ labels, assignees []string }{
			{[]string{"in-progress"}, []string{"dev-qwen"}},
			{[]string{"backlog"}, []string{"dev-qwen"}},
			{[]string{"backlog", "in-progress"}, []string{"dev-elsewhere"}},
			{[]string{"backlog"}, []string{"ada"}},
		} {
			w.Forge.Issue(fmt.Sprint("issue ", n))
			w.Forge.Edit(int64(n)+2, func(is *forge.Issue) { is.Labels, is.Assignees = mark.labels, mark.assignees })
		}
		told(t, l, "/v1/release", `{"ref":"2"}`, "johba/harb#2: claim released, label backlog put back")
		told(t, l, "/v1/release", `{"ref":"3"}`,
			"johba/harb#3:  (not claimed, but pinned to dev-qwen: unassign it to let any agent take it)")
		told(t, l, "/v1/release", `{"ref":"4"}`,
			"409 cannot release johba/harb#4: it is claimed by dev-elsewhere, which another host runs")
		told(t, l, "/v1/release", `{"ref":"5"}`, "johba/harb#5:  (no claim of ours is on it)")
		told(t, l, "/v1/release", `{"ref":"9"}`, "404 cannot release johba/harb#9: there is no such issue or pull request")
		for n, want := range map[int64]string{
			2: "backlog", 3: "backlog dev-qwen", 4: "backlog in-progress dev-elsewhere",
			5: "backlog ada",
		} {
			wantMarks(t, w, n, want)
		}
		if w.Exec.Runs()[0].End != (time.Time{}) {
			t.Error("release ended the session of another issue")
		}
	})
}

// A claim of another supervisor stays, even if its agent uses the account of one of our agents, until a person
// releases it.
func TestReleaseOfAnother(t *testing.T) {
	life(t, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		told(t, l, "/v1/pause", `{}`, "everything: paused")
		w.Forge.Issue("theirs")
		w.Forge.Edit(2, func(is *forge.Issue) {
			is.Labels, is.Assignees, is.HeldBy = []string{"backlog", "in-progress"}, []string{"dev-qwen"}, "dev-qwen on another"
		})
		time.Sleep(5 * time.Minute)
		wantMarks(t, w, 2, "backlog in-progress dev-qwen")
		for _, q := range l.Document().Queue {
			if q.Number == 2 && (q.Code != "claimed-elsewhere" || q.Why != "claimed by dev-qwen on another") {
				t.Errorf("got queue entry %+v, want claimed by dev-qwen on another host", q)
			}
		}
		told(t, l, "/v1/retry", `{"ref":"2"}`, "johba/harb#2:  (it waits for the claim of dev-qwen on another, which retry "+
			"does not take away: if that host is gone, disinto release 2)")
		wantMarks(t, w, 2, "backlog in-progress dev-qwen")
		told(t, l, "/v1/release", `{"ref":"2"}`, "johba/harb#2: claim of dev-qwen on another taken away, claim released")
		wantMarks(t, w, 2, "backlog")
	})
}

// Retry clears every obstacle and reports each, and the work restarts at its first attempt.
func TestRetry(t *testing.T) {
	fails := func(r agents.Result) func(w *simtest.World) {
		return func(w *simtest.World) {
			w.Exec.Script = func(agents.Job, int) simtest.Script {
				return simtest.Script{Takes: time.Second, Outcome: agents.Outcome{Result: r, Reason: "so it is", Claimed: true}}
			}
		}
	}
	tests := []struct {
		name  string
		world func(w *simtest.World)
		wait  time.Duration
		edit  func(is *forge.Issue)
		want  string
	}{
		{"in its cool-down", fails(agents.Failed), 3 * time.Minute, nil, "2 failed attempts forgotten, back-off ended"},
		{
			"claimed by another host", func(w *simtest.World) {
				begun := time.Now()
				w.Forge.Fail(func(_ context.Context, call string) error {
					if call == "claim" && time.Since(begun) < 90*time.Second {
						return fmt.Errorf("%w: claimed by dev-elsewhere on another", forge.ErrTaken)
					}
					return nil
				})
			}, 90 * time.Second, nil,
			"back-off ended: already taken: claimed by dev-elsewhere on another",
		},
		{"gave up", fails(agents.Failed), 25 * time.Minute, nil, "5 failed attempts forgotten, label blocked removed"},
		{"refused", fails(agents.Refused), 20 * time.Minute, nil, "label needs-human removed"},
		{
			"backlog removed", fails(agents.Failed), time.Minute, func(is *forge.Issue) { is.Labels = nil },
			"1 failed attempt forgotten, back-off ended, label backlog put back",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := simtest.New(t)
				w.Slow()
				tt.world(w)
				w.Forge.Issue("one")
				l := w.Start()
				time.Sleep(tt.wait)
				if tt.edit != nil {
					w.Forge.Edit(1, tt.edit)
				}
				n := len(w.Exec.Runs())
				w.Exec.Script = w.Work
				told(t, l, "/v1/retry", `{"ref":"1"}`, "johba/harb#1: "+tt.want)
				w.Until(2*time.Second, "another session", func() bool { return len(w.Exec.Runs()) == n+1 })
				if last := w.Exec.Runs()[n]; !slices.Contains(last.Job.Env, "DISINTO_ATTEMPT=1") {
					t.Errorf("the session after retry is not a first attempt: %s", runs(w))
				}
				wantReplay(t, l)
				w.Until(time.Hour, "merged", w.Forge.Done)
				told(t, l, "/v1/retry", `{"ref":"1"}`, "409 cannot retry johba/harb#1: it is closed, reopen it")
				l.Stop()
				w.Check()
			})
		})
	}
}

// Retry also clears a pull request that a person closed.
func TestRetryRejected(t *testing.T) {
	life(t, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Until(time.Hour, "a review", func() bool { return len(w.Exec.Runs()) == 2 })
		w.Forge.EditPull(2, func(p *forge.Pull) { p.Closed, p.Ended, p.ClosedBy = true, time.Now(), "ada" })
		w.Until(time.Hour, "it is held", func() bool { return held(l) == "#1 pr-rejected" })
		told(t, l, "/v1/retry", `{"ref":"1"}`, "johba/harb#1: rejected pull request #2 forgotten")
		w.Until(2*time.Second, "another session", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, 1)) == 2 })
	})
}

// Review rounds before a retry do not count, neither at once nor later.
func TestRetryRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Slow()
		w.Config.Forge.MaxReviewRounds = 2
		w.Exec.Script = func(job agents.Job, n int) simtest.Script {
			s := w.Work(job, n)
			if job.Kind == agents.KindReview && n <= 4 {
				s.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
			}
			return s
		}
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(12*time.Hour, "a person is asked", func() bool {
			return len(w.Exec.RunsOf(agents.KindReview, 2)) >= 2 && // a status for each second would take long
				(held(l) == "#1 has-pull, #2 label" || held(l) == "#2 label, #1 has-pull")
		})
		rounds := len(w.Exec.RunsOf(agents.KindReview, 2))
		told(t, l, "/v1/retry", `{"ref":"1"}`, "johba/harb#1: review rounds forgotten, #2 label needs-human removed")
		w.Until(3*time.Hour, "two more rounds", func() bool { return len(w.Exec.RunsOf(agents.KindReview, 2)) == rounds+2 })
		w.Until(12*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
	})
}

// An item that closes before the label is written gets no label: on finished work it would block dependent issues.
func TestCancelClosedMeanwhile(t *testing.T) {
	life(t, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Forge.Issue("two", 1)
		w.Forge.Fail(func(context.Context, string) error { return forge.ErrUnavailable })
		if got := tell(t, l, "/v1/cancel", `{"ref":"1"}`); !strings.Contains(got, "[nothing starts on it") {
			t.Errorf("cancel without the forge: got %s", got)
		}
		w.Forge.Edit(1, func(is *forge.Issue) { is.Closed = true })
		w.Forge.Fail(nil)
		w.Until(5*time.Minute, "the next issue", func() bool { return len(w.Exec.Runs()) == 2 })
		time.Sleep(time.Minute)
		if is := w.Forge.Get(1); is.Has(forge.LabelCancelled) {
			t.Errorf("a closed issue got labels %v, want no label cancelled", is.Labels)
		}
	})
}

// A retry undoes a cancel, also for dependent issues: needs-human is removed when the last cancelled blocker is
// retried. Another cancel hands the issue to a person again.
func TestCancelAndRetryIsARoundTrip(t *testing.T) {
	const paused = " (it still waits: everything is paused; to change that: disinto resume)"
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Slow()
		l := w.Start()
		time.Sleep(time.Second)
		told(t, l, "/v1/pause", `{}`, "everything: paused")
		w.Forge.Issue("one")
		w.Forge.Issue("two")
		w.Forge.Issue("three", 1, 2)
		told(t, l, "/v1/cancel", `{"ref":"1"}`, "johba/harb#1: labelled cancelled")
		told(t, l, "/v1/cancel", `{"ref":"2"}`, "johba/harb#2: labelled cancelled")
		handed := func() bool { return slices.Contains(w.Forge.Get(3).Labels, forge.LabelNeedsHuman) }
		w.Until(time.Hour, "the third is handed to a person", handed)
		time.Sleep(5 * time.Minute)
		told(t, l, "/v1/retry", `{"ref":"1"}`, "johba/harb#1: label cancelled removed"+paused)
		time.Sleep(5 * time.Minute)
		if !handed() {
			t.Error("needs-human was removed while a blocker was still cancelled")
		}
		told(t, l, "/v1/retry", `{"ref":"2"}`, "johba/harb#2: label cancelled removed, #3 label needs-human removed"+paused)
		time.Sleep(5 * time.Minute)
		if handed() {
			t.Error("the issue was handed to a person again")
		}
		told(t, l, "/v1/cancel", `{"ref":"2"}`, "johba/harb#2: labelled cancelled")
		w.Until(time.Hour, "the third is handed to a person again", handed)
		time.Sleep(5 * time.Minute)
		told(t, l, "/v1/retry", `{"ref":"2"}`, "johba/harb#2: label cancelled removed, #3 label needs-human removed"+paused)
		told(t, l, "/v1/resume", `{}`, "everything: resumed")
		w.Until(6*time.Hour, "all are merged", func() bool { return w.Forge.Get(3).Closed })
		l.Stop()
	})
}
