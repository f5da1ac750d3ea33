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

// A merge that the forge refuses rests, longer after each refusal, and is not retried at every tick. The next pull
// request is merged meanwhile.
func TestMergeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Exec.Script = quickly(w)
		w.Forge.Open(w.Forge.Issue("one"), "dev-qwen")
		w.Forge.Open(w.Forge.Issue("two"), "dev-qwen")
		var calls atomic.Int64
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call != "merge" {
				return nil
			}
			if n := calls.Add(1); n == 1 || n >= 3 && n <= 5 {
				return fmt.Errorf("try again later: %w", forge.ErrConflict)
			}
			return nil
		})
		l := w.Start()
		w.Until(10*time.Minute, "approved", func() bool { return len(w.Forge.Pulls()[1].Reviews) == 1 })
		began := time.Now()
		w.Until(10*time.Minute, "merged", w.Forge.Done)
		// The first pull request rests 15 s, 30 s, 1 min and 2 min.
		if took := time.Since(began); calls.Load() != 6 || took < 3*time.Minute+40*time.Second || took > 4*time.Minute {
			t.Errorf("merged at call %d after %s, want call 6 after 3m40s to 4m", calls.Load(), took)
		}
		var merges []string
		for _, write := range w.Forge.Writes() {
			if strings.HasPrefix(write, "merge") {
				merges = append(merges, write)
			}
		}
		if got := strings.Join(merges, ", "); got != "merge #4, merge #2" {
			t.Errorf("got %s, want the second pull request first", got)
		}
		l.Stop()
		w.Check()
		if n := strings.Count(w.Log.String(), "cannot merge"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, w.Log.String())
		}
	})
}

// A forge also refuses a merge for a moment after a push, so the first refusal is not logged.
func TestMergeRefusedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Exec.Script = quickly(w)
		w.Forge.Open(w.Forge.Issue("one"), "dev-qwen")
		var calls atomic.Int64
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call == "merge" && calls.Add(1) == 1 {
				return fmt.Errorf("try again later: %w", forge.ErrConflict)
			}
			return nil
		})
		l := w.Start()
		w.Until(10*time.Minute, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		if text := w.Log.String(); calls.Load() != 2 || strings.Contains(text, "cannot merge") {
			t.Errorf("got %d calls of merge, want 2 and no log line about a refusal:\n%s", calls.Load(), text)
		}
	})
}

// quickly makes every session take a minute, so that reviews that start together end together.
func quickly(w *World) func(agents.Job, int) Script {
	return func(job agents.Job, n int) Script {
		s := w.Work(job, n)
		s.Takes = time.Minute
		return s
	}
}

// During a merge, no other merge of the repository starts, however often the threads tick.
func TestMergesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Usual()
		w.Exec.Script = quickly(w)
		w.Forge.Open(w.Forge.Issue("one"), "dev-qwen")
		w.Forge.Open(w.Forge.Issue("two"), "dev-qwen")
		var merging, calls atomic.Int64
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call == "merge" {
				calls.Add(1)
				if merging.Add(1) > 1 {
					t.Errorf("%s starts during another one", call)
				}
				time.Sleep(20 * time.Second)
				merging.Add(-1)
			}
			return nil
		})
		l := w.Start()
		w.Until(10*time.Minute, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		if n := calls.Load(); n != 2 {
			t.Errorf("got %d merges of 2 pull requests, want 2", n)
		}
	})
}

// A mark that the forge refuses is not retried at every tick, and never written twice at the same time.
func TestChoreRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Usual()
		w.Forge.Edit(w.Forge.Issue("left over"), func(is *forge.Issue) {
			is.Labels, is.Assignees = with(is.Labels, forge.LabelInProgress), []string{"dev-coder"}
		})
		var tries, at atomic.Int64
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call != "unassign" {
				return nil
			}
			tries.Add(1)
			if at.Add(1) > 1 {
				t.Error("two releases at the same time")
			}
			time.Sleep(20 * time.Second)
			at.Add(-1)
			return forge.ErrForbidden
		})
		l := w.Start()
		time.Sleep(16 * time.Minute) // rests 1, 2, 4 and 8 minutes
		if n := tries.Load(); n < 4 || n > 5 {
			t.Errorf("got %d tries in 16 minutes, want 4 or 5", n)
		}
		w.Forge.Fail(nil)
		w.Until(10*time.Minute, "the claim is released and a session starts", func() bool { return len(w.Exec.Runs()) > 0 })
		l.Stop()
		w.Check()
	})
}

// An agent refuses an issue. After a person has answered and removed the label, work starts again. A second refusal
// is commented like the first.
func TestRefusedAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := w.Forge.Issue("one")
		always(w, agents.KindIssue, reports(time.Minute, agents.Refused, "too vague"))
		l := w.Start()
		for i := range 2 {
			time.Sleep(10 * time.Minute)
			if n, c := len(w.Exec.Runs()), len(w.Forge.Comments()); n != i+1 || c != i+1 {
				t.Errorf("got %d sessions and %d comments, want %d of each", n, c, i+1)
			}
			w.Forge.Edit(issue, func(is *forge.Issue) { is.Labels = without(is.Labels, forge.LabelNeedsHuman) })
		}
		l.Stop()
		w.Check()
	})
}

// After max_review_rounds, a pull request is labelled needs-human once. Removing the label, as agents can, changes
// nothing. After a person's retry it gets as many rounds again.
func TestTooManyRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Config.Forge.MaxReviewRounds = 2
		pull := w.Forge.Open(w.Forge.Issue("one"), "dev-qwen")
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			if job.Kind == agents.KindReview {
				s.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
			}
			return s
		}
		l := w.Start()
		for i := range 2 {
			time.Sleep(time.Hour)
			p := w.Forge.Pulls()[0]
			rework, c := len(w.Exec.RunsOf(agents.KindRework, pull)), w.Forge.about("rounds-")
			if !p.Has(forge.LabelNeedsHuman) || rework != 2*(i+1) || c != i+1 {
				t.Errorf("got labels %v after %d reworks, and %d comments, want needs-human, %d, and %d", p.Labels, rework, c,
					2*(i+1), i+1)
			}
			w.Forge.SendBack()
			time.Sleep(time.Hour)
			again := len(w.Exec.RunsOf(agents.KindRework, pull)) - rework
			if labels := w.Forge.Pulls()[0].Labels; again != 0 || len(labels) > 0 {
				t.Errorf("got %d more reworks and labels %v after the label was removed, want none", again, labels)
			}
			if i == 0 {
				w.say(pull, "johba", "/disinto retry")
			}
		}
		l.Stop()
		w.Check()
	})
}

// about counts the supervisor's comments whose keys begin with a word.
func (f *Forge) about(key string) (n int) {
	for _, c := range f.Comments() {
		if strings.HasPrefix(c.Key, key) {
			n++
		}
	}
	return n
}

// What the forge keeps refusing is a problem for a person, not only a line of the log.
func TestFailingChoreIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Usual()
		n := w.Forge.Issue("one")
		w.Exec.Script = func(agents.Job, int) Script {
			return Script{Takes: time.Second, Outcome: agents.Outcome{Result: agents.Refused, Reason: "no", Claimed: true}}
		}
		var refuses atomic.Bool
		refuses.Store(true)
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call == "label" && refuses.Load() {
				return fmt.Errorf("cannot label it: %w", forge.ErrForbidden)
			}
			return nil
		})
		l := w.Start()
		want := fmt.Sprintf("%s: cannot label needs-human, tried again: cannot label it: ", Ref(n))
		shown := func() bool {
			return slices.ContainsFunc(l.Document().Problems, func(s string) bool { return strings.HasPrefix(s, want) })
		}
		w.Until(15*time.Minute, "the failing chore is shown", shown)
		refuses.Store(false)
		w.Until(15*time.Minute, "it is done and no longer shown", func() bool { return !shown() })
		l.Stop()
		w.Check()
	})
}
