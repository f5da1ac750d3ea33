package simtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// In the worst case every merge puts all other pull requests in conflict. Rework must still end: each merge shortens
// the queue by one, no conflicting pull request is merged, and no attempt is burnt.
func TestConflictsAfterEachMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queue = 6
		w := New(t)
		w.Slow()
		w.Config.Forge.MaxUnreviewed = queue
		for i := range queue {
			w.Forge.Open(w.Forge.Issue("work"), []string{"dev-coder", "dev-qwen"}[i%2])
		}
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			if job.Kind == agents.KindRework {
				s.Do = func() { w.Forge.Push(job.Number); w.Forge.EditPull(job.Number, clean) }
			}
			return s
		}
		w.Forge.Fail(func(_ context.Context, call string) error {
			if before := len(open(w.Forge.Pulls())); call == "merge" {
				time.AfterFunc(w.Forge.Latency/2+time.Millisecond, func() { // merged, but not answered yet
					for _, p := range open(w.Forge.Pulls()) {
						if len(open(w.Forge.Pulls())) < before {
							w.Forge.EditPull(p.Number, func(p *forge.Pull) {
								p.Mergeable, p.ConflictSince = forge.MergeNotClean, time.Now()
							})
						}
					}
				})
			}
			return nil
		})
		l := w.Start()
		w.Until(48*time.Hour, "all are merged", w.Forge.Done)
		l.Stop()
		w.Check()
		rework := 0
		for _, r := range w.Exec.Runs() {
			if r.Job.Kind == agents.KindRework {
				rework++
			}
			if variable(r.Job, "DISINTO_ATTEMPT") != "1" {
				t.Errorf("%s #%d: got attempt %s, want 1", r.Job.Kind, r.Job.Number, variable(r.Job, "DISINTO_ATTEMPT"))
			}
		}
		if most := queue * (queue - 1) / 2; rework < queue-1 || rework > most {
			t.Errorf("got %d reworks for %d pull requests, want at most %d", rework, queue, most)
		}
		t.Logf("%d pull requests, %d reworks, %d sessions", queue, rework, len(w.Exec.Runs()))
	})
}

func clean(p *forge.Pull) { p.Mergeable, p.ConflictSince = forge.MergeClean, time.Time{} }

func open(pulls []forge.Pull) []forge.Pull {
	return slices.DeleteFunc(slices.Clone(pulls), func(p forge.Pull) bool { return p.Closed })
}

// Events between a pull request and its merge, and the sessions that follow.
func TestWayToMerge(t *testing.T) {
	tests := []struct {
		name string
		at   time.Duration // time of the event: the review runs from 10 to 15 minutes
		what func(w *World, l *Life, pull int64)
		want string // the sessions, as kind:agent:outcome
	}{
		{
			"a push during the review", 12 * time.Minute, func(w *World, _ *Life, pull int64) { w.Forge.Push(pull) },
			"[issue:dev-coder:done review:review-opus:cancelled review:review-sonnet:done]",
		},
		{
			"a person approves during the review", 12 * time.Minute,
			func(w *World, _ *Life, pull int64) { w.Forge.Review(pull, "johba", forge.Approved) },
			"[issue:dev-coder:done review:review-opus:done]",
		},
		{
			"a person objects, and takes it back", 12 * time.Minute, func(w *World, _ *Life, pull int64) {
				w.Forge.Review(pull, "johba", forge.ChangesRequested)
				time.AfterFunc(time.Hour, func() { w.Forge.Review(pull, "johba", forge.Approved) })
			},
			"[issue:dev-coder:done review:review-opus:done rework:dev-coder:done review:review-sonnet:done]",
		},
		{
			"the author is gone when changes are requested", 12 * time.Minute, func(w *World, l *Life, pull int64) {
				next := *w.Config
				next.Agents = withoutAgent(w.Config.Agents, "dev-coder")
				next.Threads = slices.Clone(w.Config.Threads)
				next.Threads[1].Agents = []string{"dev-qwen"}
				l.Reload(&next, nil)
				w.Forge.Review(pull, "johba", forge.ChangesRequested)
				time.AfterFunc(time.Hour, func() { w.Forge.Review(pull, "johba", forge.Approved) })
			},
			"[issue:dev-coder:done review:review-opus:done rework:dev-qwen:done review:review-sonnet:done]",
		},
		{
			"a second pull request for the same issue", 12 * time.Minute, func(w *World, _ *Life, pull int64) {
				w.Forge.EditPull(pull, func(p *forge.Pull) { p.Closed = true }) // so that Open makes another one
				w.Forge.Open(1, "dev-qwen")
				w.Forge.EditPull(pull, func(p *forge.Pull) { p.Closed = false })
				second := w.Forge.Pulls()[1].Number
				time.AfterFunc(time.Hour, func() { // the supervisor leaves it to people, and comments each reason once
					if p := w.Forge.Pulls()[1]; p.Closed || len(w.Forge.Comments()) != 2 {
						w.T.Errorf("got closed = %v and comments %v, want open and two comments", p.Closed, w.Forge.Comments())
					}
					w.Forge.EditPull(second, func(p *forge.Pull) { p.Closed = true })
				})
			},
			"[issue:dev-coder:done review:review-opus:done]",
		},
	}
	for _, tt := range tests {
		if Skips(tt.name, "a person approves during the review", "the author is gone when changes are requested") {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Slow()
				w.Forge.Issue("one")
				l := w.Start()
				time.Sleep(tt.at)
				tt.what(w, l, w.Forge.Pulls()[0].Number)
				w.Until(4*time.Hour, "merged", func() bool { return w.Forge.Done() && len(open(w.Forge.Pulls())) == 0 })
				time.Sleep(time.Minute)
				l.Stop()
				w.Check()
				var got []string
				for _, r := range w.Exec.Runs() {
					got = append(got, fmt.Sprintf("%s:%s:%s", r.Job.Kind, r.Job.Agent, r.Outcome.Result))
				}
				if fmt.Sprint(got) != tt.want {
					t.Errorf("got sessions\n%s, want\n%s\n%s", got, tt.want, w.Log.String())
				}
				if left := w.Forge.Claimed(); len(left) > 0 {
					t.Errorf("claims left: %v", left)
				}
			})
		})
	}
}
