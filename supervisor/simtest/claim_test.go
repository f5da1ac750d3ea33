package simtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// unavailable makes the named calls fail while on is set.
func unavailable(on *atomic.Bool, calls ...string) Fault {
	return func(_ context.Context, call string) error {
		if on.Load() && slices.Contains(calls, call) {
			return fmt.Errorf("%s: %w", call, forge.ErrUnavailable)
		}
		return nil
	}
}

// For half an hour the forge answers scans, but not the look after a session. Slot and agent do other work, and the
// issue stays claimed until the look is answered.
func TestLookFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		one, two := w.Forge.Issue("one"), w.Forge.Issue("two")
		w.Config.Threads[1].Slots, w.Config.Threads[1].MaxSessions = 1, 1
		var silent atomic.Bool
		silent.Store(true)
		w.Forge.Fail(unavailable(&silent, "look"))
		began := time.Now()
		l := w.Start()
		time.Sleep(30 * time.Minute)
		if got, want := fmt.Sprint(minutes(w.Exec.RunsOf(agents.KindIssue, one), began)), "[0]"; got != want {
			t.Errorf("got starts of the issue at minutes %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(minutes(w.Exec.RunsOf(agents.KindIssue, two), began)), "[10]"; got != want {
			t.Errorf("got starts of the next issue at minutes %s, want %s", got, want)
		}
		if is := w.Forge.Get(one); !is.Has(forge.LabelInProgress) {
			t.Errorf("released before the look: labels %v, assignees %v", is.Labels, is.Assignees)
		}
		silent.Store(false)
		w.Until(65*time.Second, "the claim is released", func() bool {
			is := w.Forge.Get(one)
			return !is.Has(forge.LabelInProgress)
		})
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		if n := len(w.Exec.RunsOf(agents.KindIssue, one)) + len(w.Exec.RunsOf(agents.KindIssue, two)); n != 2 {
			t.Errorf("got %d sessions on 2 issues, want 2\n%s", n, w.Log.String())
		}
	})
}

// A release that hangs does not hold the slot: the next issue starts at once.
func TestReleaseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Forge.Issue("one")
		two := w.Forge.Issue("two")
		w.Config.Threads[1].Slots, w.Config.Threads[1].MaxSessions = 1, 1
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			s.Takes += 20 * time.Second // so that it does not end at a scan
			return s
		}
		began := time.Now()
		w.Forge.Fail(func(ctx context.Context, call string) error {
			if call == "unassign" {
				<-ctx.Done()
				return forge.ErrUnavailable
			}
			return nil
		})
		l := w.Start()
		time.Sleep(11 * time.Minute)
		runs := w.Exec.RunsOf(agents.KindIssue, two)
		if len(runs) != 1 || runs[0].Begin.Sub(began) > 10*time.Minute+22*time.Second {
			t.Errorf("got sessions %+v on the next issue, want one at 10m22s at the latest", runs)
		}
		w.Forge.Fail(nil)
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		time.Sleep(2 * time.Minute)
		if left := w.Forge.Claimed(); len(left) > 0 {
			t.Errorf("claims left: %v", left)
		}
		l.Stop()
		w.Check()
	})
}

// A scan takes longer than a session, and returns the issue without its pull request. Such facts must not start the
// issue again.
func TestSlowScans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Lag = 5 * time.Second
		w.Config.Forge.MaxUnreviewed = 100
		for i := range w.Config.Threads {
			w.Config.Threads[i].Interval, w.Config.Threads[i].IdleInterval = time.Second, time.Second
		}
		other := w.Config.Threads[1]
		other.Name, other.Agents = "llama-two", []string{"dev-two"}
		w.Config.Threads = append(w.Config.Threads, other)
		a := w.Config.Agents[0]
		a.Name, a.Login, a.Thread, a.Token = "dev-two", "dev-two", other.Name, "token-of-dev-two"
		w.Config.Agents = append(w.Config.Agents, a)
		w.Forge.Tokens["token-of-dev-two"] = "dev-two"
		const issues = 12
		for i := range issues {
			w.Forge.Issue(fmt.Sprint("issue ", i))
		}
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			s.Takes = time.Duration(job.Number%3) * 700 * time.Millisecond
			return s
		}
		l := w.Start()
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		for _, r := range w.Exec.Runs() {
			if n := len(w.Exec.RunsOf(r.Job.Kind, r.Job.Number)); n != 1 {
				t.Errorf("got %[3]d sessions of kind %[1]s on #%[2]d, want 1", r.Job.Kind, r.Job.Number, n)
			}
			if r.Outcome.Result != agents.Done {
				t.Errorf("%s on #%d: got outcome %+v, want done", r.Job.Kind, r.Job.Number, r.Outcome)
			}
		}
	})
}

// A claim that never reached the forge is forgotten. The supervisor does not mistake the label of another host's
// later claim for its own.
func TestClaimNeverArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := w.Forge.Issue("one")
		var down atomic.Bool
		down.Store(true)
		w.Forge.Fail(unavailable(&down, "claim", "unassign"))
		l := w.Start()
		time.Sleep(5 * time.Second)
		w.Forge.Edit(issue, func(is *forge.Issue) { is.Labels = with(is.Labels, forge.LabelInProgress) })
		time.Sleep(15 * time.Second)
		down.Store(false)
		time.Sleep(30 * time.Second)
		w.Forge.Edit(issue, func(is *forge.Issue) { is.Assignees = []string{"dev-elsewhere"} })
		time.Sleep(20 * time.Minute)
		l.Stop()
		w.Check()
		if writes := w.Forge.Writes(); len(writes) > 0 {
			t.Errorf("got our writes %q, want none", writes)
		}
		is := w.Forge.Get(issue)
		theirs := is.Has(forge.LabelInProgress) && slices.Equal(is.Assignees, []string{"dev-elsewhere"})
		if !theirs || len(w.Exec.Runs()) > 0 {
			t.Errorf("got labels %v, assignees %v and %d sessions, want the other host's claim and none", is.Labels,
				is.Assignees, len(w.Exec.Runs()))
		}
	})
}

// Another host writes the label of its claim a moment after our release. It has a minute to write the assignee.
func TestHalfWrittenClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Usual()
		issue := w.Forge.Issue("one")
		always(w, agents.KindIssue, reports(time.Minute, agents.Failed, "no"))
		l := w.Start()
		time.Sleep(time.Minute)
		for !slices.Contains(w.Forge.Writes(), "release #1 dev-coder") {
			time.Sleep(time.Millisecond)
		}
		w.Forge.Edit(issue, func(is *forge.Issue) { is.Labels = with(is.Labels, forge.LabelInProgress) })
		time.Sleep(50 * time.Second)
		if is := w.Forge.Get(issue); !is.Has(forge.LabelInProgress) {
			t.Error("the label was removed within 50 s")
		}
		time.Sleep(20 * time.Second)
		if is := w.Forge.Get(issue); is.Has(forge.LabelInProgress) {
			t.Error("the label without an assignee is still there after 70 s")
		}
		l.Stop()
		w.Check()
	})
}

// If the end of a session leads to a skip label, the claim stays until that label is written. Otherwise another
// supervisor could claim the issue in between.
func TestLabelBeforeRelease(t *testing.T) {
	for _, tt := range []struct {
		label string
		ends  Script
	}{
		{forge.LabelNeedsHuman, reports(time.Minute, agents.Refused, "too vague")},
		{forge.LabelBlocked, reports(time.Minute, agents.Failed, "tests fail")},
		{forge.LabelNeedsAnswer, speaks(agents.Question, "Which one?")},
	} {
		t.Run(tt.label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				issue := w.Forge.Issue("one")
				always(w, agents.KindIssue, tt.ends)
				l := w.Start()
				w.Until(2*time.Hour, "labelled and released", func() bool {
					return w.labelled(issue, tt.label) && !w.labelled(issue, forge.LabelInProgress)
				})
				l.Stop()
				w.Check()
				writes := w.Forge.Writes()
				label := slices.Index(writes, fmt.Sprintf("label #%d %s", issue, tt.label))
				release := slices.IndexFunc(writes[max(label, 0):], func(words string) bool {
					return strings.HasPrefix(words, fmt.Sprintf("release #%d ", issue))
				})
				if label < 0 || release < 0 {
					t.Errorf("got writes %q, want a release after the label", writes)
				}
			})
		})
	}
}
