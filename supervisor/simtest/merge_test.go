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
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// A reviewer closes the pull request instead of objecting. The issue once started again and again: 207
// implementations and 203 reviews in five minutes of machine time. Now the close is a rejection, and after
// max_review_rounds the issue gets the label needs-human.
func TestReviewerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Config.Forge.MaxReviewRounds = Size(5, 2)
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
		w.Until(3*time.Hour, "a person is asked", func() bool {
			is := w.Forge.Get(issue)
			return is.Has(forge.LabelNeedsHuman)
		})
		time.Sleep(Size(2*time.Hour, 10*time.Minute))
		l.Kill() // the count is on the forge
		l.Bury()
		l = w.Start()
		time.Sleep(Size(9*time.Hour, 20*time.Minute))
		rounds := w.Config.Forge.MaxReviewRounds + 1
		if got := len(w.Exec.RunsOf(agents.KindIssue, issue)); got != rounds {
			t.Errorf("got %d implementations in twelve hours, want %d", got, rounds)
		}
		if is := w.Forge.Get(issue); !is.Has(forge.LabelNeedsHuman) {
			t.Errorf("got labels %v, want needs-human", is.Labels)
		}
		w.Forge.SendBack() // agents can do that, too
		time.Sleep(Size(12*time.Hour, 2*time.Hour))
		if got := len(w.Exec.RunsOf(agents.KindIssue, issue)); got != rounds {
			t.Errorf("got %d implementations after the label was removed, want %d", got, rounds)
		}
		w.say(issue, "johba", "/disinto retry")
		time.Sleep(Size(12*time.Hour, 2*time.Hour))
		if got := len(w.Exec.RunsOf(agents.KindIssue, issue)); got != 2*rounds {
			t.Errorf("got %d implementations after a person said retry, want %d", got, 2*rounds)
		}
		answer := func(c Comment) bool { return !strings.HasPrefix(c.Key, "rounds-") }
		comments := slices.DeleteFunc(w.Forge.Comments(), answer)
		if len(comments) != 2 || !strings.Contains(comments[1].Body, fmt.Sprintf("closed by an agent %d times", rounds)) {
			t.Errorf("got comments %v, want two about the rounds", comments)
		}
		l.Stop()
		w.Check()
	})
}

// The state is read again between the scan that led to a merge and the merge.
func TestMergeReadsAgain(t *testing.T) {
	for _, tt := range []struct {
		what   string
		change func(w *World, p *forge.Pull)
	}{
		{"a draft", func(_ *World, p *forge.Pull) { p.Draft = true }},
		{"another base", func(_ *World, p *forge.Pull) { p.Base, p.Retargeted = "evil", time.Now() }},
		{"the approval is dismissed", func(_ *World, p *forge.Pull) {
			p.Reviews = slices.Clone(p.Reviews)
			p.Reviews[0].Dismissed = true
		}},
		{"a person objects", func(_ *World, p *forge.Pull) {
			p.Reviews = append(slices.Clone(p.Reviews), forge.Review{
				ID: 9, Author: "johba", Verdict: forge.ChangesRequested, CommitSHA: p.HeadSHA, Official: true,
				Submitted: time.Now(),
			})
		}},
		{"its reviewer wrote a commit of it", func(_ *World, p *forge.Pull) {
			p.Coders = []string{p.Reviews[0].Author}
		}},
		{"a label", func(_ *World, p *forge.Pull) { p.Labels = []string{forge.LabelNeedsHuman} }},
	} {
		if Skips(tt.what, "another base", "the approval is dismissed", "its reviewer wrote a commit of it", "a label") {
			continue
		}
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Forge.Issue("to do")
				var looks, merges atomic.Int64 // the supervisor asks from several goroutines
				w.Forge.Fail(func(_ context.Context, call string) error {
					pulls := w.Forge.Pulls()
					if call == "merge" {
						merges.Add(1)
					}
					if call == "look" && len(pulls) > 0 && len(pulls[0].Reviews) == 1 {
						if looks.Add(1) == 2 { // the first look judges the review
							w.Forge.EditPull(pulls[0].Number, func(p *forge.Pull) { tt.change(w, p) })
						}
					}
					return nil
				})
				l := w.Start()
				w.Until(time.Hour, "two looks", func() bool { return looks.Load() >= 2 })
				time.Sleep(5 * time.Second)
				if p := w.Forge.Pulls()[0]; merges.Load() > 0 || p.Merged {
					t.Error("merged in spite of the change")
				}
				l.Stop()
				w.Check()
			})
		})
	}
}

// A forge that stops during a merge leaves the pull request open, with all its commits in the base. The supervisor
// once took it for superseded, which waits for a person for ever.
func TestHalfMerge(t *testing.T) {
	for _, noted := range []bool{true, false} { // whether the forge closed the issue
		synctest.Test(t, func(t *testing.T) {
			w := New(t)
			issue := w.Forge.Issue("to do")
			w.Forge.Fail(func(_ context.Context, call string) error {
				if call != "merge" {
					return nil
				}
				w.Forge.EditPull(w.Forge.Pulls()[0].Number, func(p *forge.Pull) { p.Contained = true })
				if noted {
					w.Forge.Edit(issue, func(is *forge.Issue) { is.Closed, is.Ended = true, time.Now() })
				}
				return fmt.Errorf("the forge stopped: %w", forge.ErrUnavailable)
			})
			l := w.Start()
			w.Until(time.Hour, "closed", func() bool { p := w.Forge.Pulls(); return len(p) > 0 && p[0].Closed })
			time.Sleep(time.Hour)
			comments := w.Forge.Comments()
			if !w.Forge.Get(issue).Closed || len(comments) != 1 || !strings.Contains(comments[0].Body, "it is merged") {
				t.Errorf("got closed = %v and comments %v, want closed and one comment", w.Forge.Get(issue).Closed, comments)
			}
			if n := len(w.Exec.Runs()); n != 2 {
				t.Errorf("got %d sessions, want an implementation and a review", n)
			}
			if log := w.Log.String(); !strings.Contains(log, "its commits are in main") {
				t.Errorf("the log lacks the reason:\n%s", log)
			}
			l.Stop()
			w.Check()
		})
	}
}

// An approval by an agent's account counts only if it comes from a review session in the journal. Otherwise the head
// is reviewed, and the log says why.
func TestApprovalOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := w.Forge.Issue("to do")
		w.Exec.Script = func(job agents.Job, n int) Script {
			script := w.Work(job, n)
			if job.Kind == agents.KindIssue { // with the token of another agent
				script.Do = func() { w.Forge.Review(w.Forge.Open(issue, job.Agent), "review-opus", forge.Approved) }
			}
			return script
		}
		l := w.Start()
		w.Until(time.Hour, "merged", func() bool { p := w.Forge.Pulls(); return len(p) > 0 && p[0].Merged })
		if n := len(w.Exec.RunsOf(agents.KindReview, w.Forge.Pulls()[0].Number)); n != 1 {
			t.Errorf("got %d reviews, want 1", n)
		}
		if log := w.Log.String(); !strings.Contains(log, "running review (approved outside a review session)") {
			t.Errorf("the log lacks the reason:\n%s", log)
		}
		l.Stop()
		w.Check()
	})
}

// A review session without a verdict, or that fails, does not validate an earlier approval by its account.
func TestApprovalBeforeSession(t *testing.T) {
	for _, does := range []struct {
		name   string
		script func() Script
	}{
		{"says nothing", func() Script { return reports(time.Minute, agents.Done, "") }},
		{"fails", func() Script { return reports(time.Minute, agents.Failed, "crashed") }},
	} {
		t.Run(does.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				issue := w.Forge.Issue("to do")
				w.Exec.Script = func(job agents.Job, n int) Script {
					if job.Kind == agents.KindReview {
						return does.script()
					}
					script := w.Work(job, n)
					script.Do = func() {
						for _, login := range []string{"review-opus", "review-sonnet"} {
							w.Forge.Review(w.Forge.Open(issue, job.Agent), login, forge.Approved)
						}
					}
					return script
				}
				l := w.Start()
				time.Sleep(Size(6*time.Hour, time.Hour))
				p := w.Forge.Pulls()
				if len(p) != 1 || p[0].Merged {
					t.Errorf("got pull requests %+v, want one that is not merged", p)
				}
				if n := len(w.Exec.RunsOf(agents.KindReview, p[0].Number)); n == 0 {
					t.Error("no session reviewed it")
				}
				l.Stop()
				w.Check()
			})
		})
	}
}

// A merge that the forge refuses is a reason with the forge's words: in why, in status, and for a person where only a
// person can help. It survives a restart, and a retry by hand tries at once.
func TestRefusedMergeIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Usual()
		w.Forge.Issue("one")
		var refusal atomic.Pointer[forge.Refusal]
		refusal.Store(&forge.Refusal{Cause: forge.RefusedLate, Words: "Please try again later"})
		var tries atomic.Int64
		w.Forge.Fail(func(_ context.Context, call string) error {
			if no := refusal.Load(); call == "merge" && no != nil {
				tries.Add(1)
				return no
			}
			return nil
		})
		l := w.Start()
		waits := func(code threads.Code, needsPerson bool) func() bool {
			return func() bool {
				d := l.Document()
				return slices.ContainsFunc(d.Queue, func(q control.QueueDocument) bool {
					return q.Code == code && q.NeedsPerson == needsPerson && strings.Contains(q.Why, refusal.Load().Words)
				})
			}
		}
		w.Until(time.Hour, "waits for the forge", waits(threads.MergeAgain, false))
		w.Until(20*time.Minute, "a person is told", waits(threads.MergeRefused, true))
		refusal.Store(&forge.Refusal{Cause: forge.RefusedRule, Words: "Changed protected files"})
		w.Until(20*time.Minute, "a person is told", waits(threads.MergeRefused, true))
		before := tries.Load()
		time.Sleep(time.Hour)
		if n := tries.Load() - before; n < 5 || n > 7 {
			t.Errorf("got %d tries in an hour, want one in ten minutes", n)
		}
		l.Kill()
		l.Bury()
		l = w.Start()
		time.Sleep(time.Minute)
		if !waits(threads.MergeRefused, true)() {
			t.Errorf("after a restart: got the queue %+v", l.Document().Queue)
		}
		refusal.Store(nil)
		w.Forge.Command(2, "johba", "/disinto retry")
		w.Until(time.Minute, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
	})
}

// Where the forge merges only branches with the newest commit of main, each pull request is brought up to date once, in
// merge order. Its approval carries over, unless the update changed what it does: then it is reviewed once more.
func TestOutdatedPullsMerge(t *testing.T) {
	for _, overlaps := range []bool{false, true} {
		t.Run(fmt.Sprint("overlaps=", overlaps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Usual()
				w.Exec.Script = quickly(w)
				w.Forge.Strict(overlaps)
				const pulls = 4
				for n := range pulls {
					w.Forge.Open(w.Forge.Issue(fmt.Sprint("issue ", n)), "dev-qwen")
				}
				l := w.Start()
				w.Until(6*time.Hour, "merged", w.Forge.Done)
				l.Stop()
				w.Check()
				var updates, reviews int
				for _, write := range w.Forge.Writes() {
					if strings.HasPrefix(write, "update") {
						updates++
					}
				}
				for _, r := range w.Exec.Runs() {
					if r.Job.Kind == agents.KindReview {
						reviews++
					}
				}
				want := pulls
				if overlaps {
					want += pulls - 1
				}
				if updates != pulls-1 || reviews != want {
					t.Errorf("got %d updates and %d reviews, want %d and %d\n%s", updates, reviews, pulls-1, want, w.Log.String())
				}
			})
		})
	}
}
