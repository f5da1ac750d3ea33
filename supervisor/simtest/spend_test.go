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

// Agents go in circles on one pull request. Within four hours a comment asks for a person, and nothing starts after
// that.
func TestCirclesEnd(t *testing.T) {
	conflict := func(w *World, pull int64) {
		w.Forge.EditPull(pull, func(p *forge.Pull) { p.Mergeable, p.ConflictSince = forge.MergeNotClean, time.Now() })
	}
	for _, tt := range []struct {
		name    string
		rework  func(w *World, pull int64)
		review  func(w *World, pull int64, agent string)
		reworks int // at most
		reviews int
		label   string
		says    string
	}{
		{
			"every push leaves the conflict",
			func(w *World, pull int64) { w.Forge.Push(pull); conflict(w, pull) },
			func(w *World, pull int64, agent string) { w.Forge.Review(pull, agent, forge.Approved) },
			5, 6, forge.LabelNeedsHuman, "conflict 5 times",
		},
		{
			"an agent and its reviewer never agree",
			func(w *World, pull int64) { w.Forge.Push(pull) },
			func(w *World, pull int64, agent string) { w.Forge.Review(pull, agent, forge.ChangesRequested) },
			5, 6, forge.LabelNeedsHuman, "changes requested 6 times",
		},
		{
			"every verdict is dismissed",
			func(w *World, pull int64) { w.Forge.Push(pull) },
			func(w *World, pull int64, agent string) {
				w.Forge.Review(pull, agent, forge.Approved)
				time.AfterFunc(10*time.Second, func() { // after the end of the session
					w.Forge.EditPull(pull, func(p *forge.Pull) {
						p.Reviews = slices.Clone(p.Reviews)
						p.Reviews[len(p.Reviews)-1].Dismissed = true
					})
				})
			},
			0, 9, forge.LabelNeedsHuman, "reviewed 9 times",
		},
		{
			"every approved head is pushed to",
			func(w *World, pull int64) { w.Forge.Push(pull) },
			func(w *World, pull int64, agent string) {
				w.Forge.Review(pull, agent, forge.Approved)
				w.Forge.Push(pull)
			},
			0, 9, forge.LabelNeedsHuman, "reviewed 9 times",
		},
		{
			"between two heads that were sent back",
			func(w *World, pull int64) {
				w.Forge.EditPull(pull, func(p *forge.Pull) {
					if p.HeadSHA != "bad-1" {
						p.HeadSHA = "bad-1"
					} else {
						p.HeadSHA = "bad-2"
					}
				})
			},
			func(w *World, pull int64, agent string) { w.Forge.Review(pull, agent, forge.ChangesRequested) },
			7, 3, forge.LabelBlocked, "gave up on the rework after 5 attempts",
		},
	} {
		if Skips(tt.name, "an agent and its reviewer never agree", "every verdict is dismissed") {
			continue // TestTooManyRounds shows the first
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Slow()
				w.Config.Forge.MergeAuto = tt.name != "every verdict is dismissed"
				pull := w.Forge.Open(w.Forge.Issue("one"), "dev-coder")
				if tt.says == "conflict 5 times" {
					conflict(w, pull)
				}
				w.Exec.Script = func(job agents.Job, _ int) Script {
					return Script{Takes: time.Minute, Do: func() {
						if job.Kind == agents.KindRework {
							tt.rework(w, pull)
						} else {
							tt.review(w, pull, job.Agent)
						}
					}}
				}
				l := w.Start()
				w.Until(4*time.Hour, "a person is asked", func() bool { return w.Forge.Pulls()[0].Has(tt.label) })
				time.Sleep(Size(20*time.Hour, 20*time.Minute))
				l.Stop()
				w.Check()
				reworks, reviews := len(w.Exec.RunsOf(agents.KindRework, pull)), len(w.Exec.RunsOf(agents.KindReview, pull))
				if reworks > tt.reworks || reviews > tt.reviews {
					t.Errorf("got %d reworks and %d reviews in a day, want at most %d and %d", reworks, reviews, tt.reworks,
						tt.reviews)
				}
				if p := w.Forge.Pulls()[0]; !p.Has(tt.label) {
					t.Errorf("got labels %v, want %s", p.Labels, tt.label)
				}
				if c := w.Forge.Comments(); len(c) != 1 || !strings.Contains(c[0].Body, tt.says) {
					t.Errorf("got comments %v, want one with %q", c, tt.says)
				}
			})
		})
	}
}

// One agent reports at once that it finds no backend, while another agent on its thread works. This once used 19
// sessions and 969,000 tokens in a minute.
func TestOneAgentFindsNoBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Forge.MaxUnreviewed = 1000
		for range Size(50, 8) {
			w.Forge.Issue("one")
		}
		w.Exec.Script = func(job agents.Job, n int) Script {
			if job.Agent == "dev-qwen" {
				return reports(time.Second, agents.BackendDown, "connection refused")
			}
			s := w.Work(job, n)
			s.Takes = time.Second
			return s
		}
		l := w.Start()
		time.Sleep(time.Minute)
		if a := l.Document().Agents[1]; a.Name != "dev-qwen" || !strings.Contains(a.Why, "connection refused") {
			t.Errorf("got agent %+v, want dev-qwen with the reason", a)
		}
		time.Sleep(Size(8*time.Hour, 80*time.Minute))
		l.Stop()
		w.Check()
		deaf := 0
		for _, r := range w.Exec.Runs() {
			if r.Job.Agent == "dev-qwen" {
				deaf++
			}
			if variable(r.Job, "DISINTO_ATTEMPT") != "1" {
				t.Error("an attempt was burnt")
			}
		}
		if deaf > Size(16, 10) { // 3 at once, then after 5, 10, 20, 40 minutes, and once an hour
			t.Errorf("got %d sessions without a backend, want at most 16 (10 in make test)", deaf)
		}
		if !w.Forge.Done() {
			t.Error("the other agent did not finish the work")
		}
	})
}

// The forge revokes an agent's token during its session. The failure burns no attempt. The agent is held, its token
// is checked every five minutes, other agents continue, and a valid token works again.
func TestTokenRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		for range 5 {
			w.Forge.Issue("one")
		}
		w.Config.Forge.MaxUnreviewed = 100
		w.Config.Agents = slices.DeleteFunc(w.Config.Agents, func(a agents.Agent) bool { return a.Name == "dev-qwen" })
		w.Config.Threads[1].Agents = []string{"dev-coder"}
		var revoked, first atomic.Bool
		var asked atomic.Int64
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call == "whoami" && revoked.Load() {
				asked.Add(1)
				return fmt.Errorf("token: %w", forge.ErrForbidden)
			}
			return nil
		})
		w.Exec.Script = func(job agents.Job, n int) Script {
			if job.Kind == agents.KindIssue && first.CompareAndSwap(false, true) {
				s := reports(10*time.Second, agents.Failed, "push: 401")
				s.Do = func() { revoked.Store(true) }
				return s
			}
			return w.Work(job, n)
		}
		l := w.Start()
		time.Sleep(time.Minute)
		d := l.Document()
		if a := d.Agents[0]; a.State != "held" ||
			a.Why != "the forge refuses the token of dev-coder: set $FORGE_TOKEN_DEV_CODER" {
			t.Errorf("%s: got %s: %s, want held, and how to set the token", a.Name, a.State, a.Why)
		}
		if r := d.Recent[0]; r.Outcome != agents.TokenRejected {
			t.Errorf("got outcome %s: %s, want token-rejected", r.Outcome, r.Reason)
		}
		if q := d.Queue[0]; q.Code != threads.TokenRejected {
			t.Errorf("got code %s: %s, want token-rejected", q.Code, q.Why)
		}
		time.Sleep(59 * time.Minute)
		if n := asked.Load(); n != 12 {
			t.Errorf("got %d checks of the token in an hour, want 12", n)
		}
		if n := len(w.Exec.Runs()); n != 1 {
			t.Errorf("got %d sessions with a revoked token, want 1", n)
		}
		revoked.Store(false)
		time.Sleep(Size(8*time.Hour, 90*time.Minute))
		l.Stop()
		w.Check()
		for _, r := range w.Exec.Runs() {
			if attempt := variable(r.Job, "DISINTO_ATTEMPT"); attempt != "1" {
				t.Errorf("got attempt %s of %s #%d, want 1", attempt, r.Job.Kind, r.Job.Number)
			}
		}
		if !w.Forge.Done() {
			t.Error("the work was not finished")
		}
	})
}

// A person and a stranger push every minute, over a restart as well. The person's pull request is reviewed six times
// an hour, the stranger's only after a person labels it.
func TestPeoplePushAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Config.Forge.MergeAuto = false
		ours, theirs := w.Forge.Open(w.Forge.Issue("one"), "johba"), w.Forge.Open(w.Forge.Issue("two"), "mallory")
		w.Forge.EditPull(theirs, func(p *forge.Pull) { p.Stranger = true })
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			s.Takes = 10 * time.Second
			return s
		}
		began := time.Now()
		push := func(during time.Duration) {
			for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(time.Minute) {
				w.Forge.Push(ours)
				w.Forge.Push(theirs)
			}
		}
		part := Size(90*time.Minute, 35*time.Minute)
		l := w.Start()
		push(part)
		for _, q := range l.Document().Queue {
			want := map[int64]threads.Code{ours: threads.ReviewLimit, theirs: threads.Uninvited}[q.Number]
			if want != "" && q.Code != want {
				t.Errorf("#%d: got code %s: %s, want %s", q.Number, q.Code, q.Why, want)
			}
		}
		l.Kill()
		l.Bury()
		l = w.Start()
		push(part)
		w.Forge.EditPull(theirs, func(p *forge.Pull) { p.Labels = with(p.Labels, forge.LabelReview) })
		push(time.Hour)
		l.Stop()
		w.Check()
		for from := range 3 * 60 {
			n := 0
			for _, r := range w.Exec.RunsOf(agents.KindReview, ours) {
				if at := r.Begin.Sub(began) - time.Duration(from)*time.Minute; at >= 0 && at < time.Hour {
					n++
				}
			}
			if n > 6 {
				t.Errorf("got %d reviews in the hour from minute %d on, want at most 6", n, from)
			}
		}
		if n := len(w.Exec.RunsOf(agents.KindReview, ours)); n < Size(20, 10) {
			t.Errorf("got %d reviews of the person's pull request in four hours, want at least 20 (10 of 12 in make test)", n)
		}
		runs := w.Exec.RunsOf(agents.KindReview, theirs)
		if len(runs) != 6 || runs[0].Begin.Sub(began) < 2*part {
			t.Errorf("got %d reviews of the stranger's pull request, want 6 in the hour after the label", len(runs))
		}
	})
}

// An issue is deleted or transferred during a session. The session ends, the issue gets no other one, and the agent
// does other work.
func TestIssueGoesAway(t *testing.T) {
	for name, during := range map[string]time.Duration{"in the session": 5 * time.Minute, "at its end": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Slow()
				gone := w.Forge.Issue("one")
				always(w, agents.KindIssue, Script{Takes: 10 * time.Minute})
				l := w.Start()
				time.Sleep(during)
				w.Forge.Delete(gone)
				time.Sleep(5 * time.Minute)
				d := l.Document()
				if n := len(d.Sessions) + len(d.Queue); n != 0 {
					t.Errorf("got sessions %+v and queue %+v, want none", d.Sessions, d.Queue)
				}
				if r := d.Recent; len(r) != 1 || r[0].Outcome != agents.Cancelled || r[0].Reason == "" {
					t.Errorf("got recent sessions %+v, want one cancelled", r)
				}
				w.Exec.Script = w.Work
				other := w.Forge.Issue("two")
				time.Sleep(Size(24*time.Hour, time.Hour))
				l.Stop()
				w.Check()
				if n := len(w.Exec.RunsOf(agents.KindIssue, gone)); n != 1 {
					t.Errorf("got %d sessions on a deleted issue, want 1", n)
				}
				if !w.Forge.Get(other).Closed {
					t.Error("the other issue is not done")
				}
			})
		})
	}
}

// An issue's blocker is reopened after the start of its session. The session continues, as its work is not lost.
// After a failure, the issue waits until the blocker is closed again.
func TestBlockerReopened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		first := w.Forge.Issue("one")
		second := w.Forge.Issue("two", first)
		w.Forge.Edit(first, func(is *forge.Issue) { is.Closed, is.Ended = true, time.Now() })
		w.Exec.Script = func(job agents.Job, n int) Script {
			if job.Number == second {
				return reports(10*time.Minute, agents.Failed, "tests fail")
			}
			return w.Work(job, n)
		}
		l := w.Start()
		time.Sleep(5 * time.Minute)
		w.Forge.Edit(first, func(is *forge.Issue) {
			is.Closed, is.Ended, is.Reopened, is.Assignees = false, time.Time{}, time.Now(), []string{"johba"}
		})
		time.Sleep(Size(24*time.Hour, time.Hour))
		runs := w.Exec.RunsOf(agents.KindIssue, second)
		if len(runs) != 1 || runs[0].End.Sub(runs[0].Begin) < 10*time.Minute {
			t.Errorf("got sessions %v while the blocker was open, want one of 10 minutes", runs)
		}
		if i := slices.IndexFunc(l.Document().Queue,
			func(q control.QueueDocument) bool { return q.Number == second }); i < 0 ||
			l.Document().Queue[i].Code != threads.BlockerOpen {
			t.Errorf("got queue %+v, want #%d blocked", l.Document().Queue, second)
		}
		w.Exec.Script = w.Work
		w.Forge.Edit(first, func(is *forge.Issue) { is.Closed, is.Ended = true, time.Now() })
		time.Sleep(time.Hour)
		l.Stop()
		w.Check()
		if runs := w.Exec.RunsOf(agents.KindIssue, second); len(runs) != 2 ||
			variable(runs[1].Job, "DISINTO_ATTEMPT") != "2" {
			t.Errorf("got %d sessions after the blocker was closed again, want 2", len(runs))
		}
	})
}
