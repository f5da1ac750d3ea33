package simtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// tricks are what an agent may do in a rework instead of pushing to the pull request that was sent back, to have its
// next work counted from zero.
var tricks = []struct {
	name string
	do   func(f *Forge, job agents.Job, issue int64)
}{
	{"another for the same issue", func(f *Forge, job agents.Job, issue int64) { f.OpenMore(job.Agent, issue) }},
	{"another that names the pull request", func(f *Forge, job agents.Job, _ int64) { f.OpenMore(job.Agent, job.Number) }},
	{"another without a reference", func(f *Forge, job agents.Job, _ int64) { f.OpenMore(job.Agent) }},
	{"closed and opened anew", func(f *Forge, job agents.Job, issue int64) {
		f.Drop(job.Number, job.Agent)
		f.OpenMore(job.Agent, issue)
	}},
	{"closed", func(f *Forge, job agents.Job, _ int64) { f.Drop(job.Number, job.Agent) }},
	{"forty at once", func(f *Forge, job agents.Job, issue int64) {
		for range 20 {
			f.OpenMore(job.Agent, issue)
			f.OpenMore(job.Agent)
		}
	}},
	{"the issue closed and opened again", func(f *Forge, job agents.Job, issue int64) {
		f.Drop(job.Number, job.Agent)
		f.Edit(issue, func(is *forge.Issue) { is.Closed, is.Ended = true, time.Now() })
		time.AfterFunc(10*time.Minute, func() {
			f.Edit(issue, func(is *forge.Issue) { is.Closed, is.Ended, is.Reopened = false, time.Time{}, time.Now() })
		})
	}},
}

// An agent answers each request for changes with what costs it nothing, and its reviewer sends everything back.
// Whatever label asks for a person, an agent takes it off within a minute; after six hours the supervisor restarts. In
// 20 minutes these were 117, 219, 219, 117, 41, 347 and 6 sessions, each "attempt 1 of 5", and as many in any other 20
// minutes. Now the most of them has 28 in a day.
func TestPullRequestsAreFree(t *testing.T) {
	for _, tt := range tricks {
		if Skips(tt.name, "another for the same issue", "another without a reference", "closed") {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Slow()
				issue := w.Forge.Issue("one")
				w.Exec.Script = func(job agents.Job, _ int) Script {
					return Script{Takes: 10 * time.Second, Do: func() {
						switch job.Kind {
						case agents.KindIssue:
							w.Forge.Open(issue, job.Agent)
						case agents.KindReview:
							w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested)
						case agents.KindRework:
							tt.do(w.Forge, job, issue)
						}
					}}
				}
				l := w.Start()
				for hour := range 24 {
					for range 60 {
						time.Sleep(time.Minute)
						w.Forge.SendBack()
					}
					if hour == 6 {
						l.Kill()
						l.Bury()
						l = w.Start()
					}
				}
				before := len(w.Exec.Runs())
				if most := w.Config.Forge.MaxSessions(); before > most {
					t.Errorf("got %d sessions in a day, want at most %d", before, most)
				}
				w.Forge.Command(issue, "johba", "/disinto retry")
				w.Until(time.Hour, "another session after a person's retry", func() bool { return len(w.Exec.Runs()) > before })
				t.Logf("%d sessions in a day", before)
				l.Stop()
				w.Check()
			})
		})
	}
}

// An agent opens a pull request outside its session, and then a second one for its issue. Each gets one comment with
// what a person can do, and is reviewed after that.
func TestUnaskedPullRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Minutely()
		w.Config.Forge.MergeAuto = false
		issue := w.Forge.Issue("one")
		l := w.Start()
		w.Until(20*time.Minute, "a review", func() bool { return len(w.Exec.Runs()) == 2 })
		author := w.Exec.Runs()[0].Job.Agent
		first, outside := w.Forge.Pulls()[0].Number, w.Forge.OpenMore(author)
		second := w.Forge.OpenMore(author, issue)
		time.Sleep(time.Hour)
		var got []string
		for _, c := range w.Forge.Comments() {
			got = append(got, c.Ref.Short()+" "+c.Key)
		}
		if want := []string{Ref(outside).Short() + " unasked"}; !slices.Contains(got, want[0]) || len(got) > 2 {
			t.Errorf("got comments %v, want %v", got, want)
		}
		if n := len(w.Exec.RunsOf(agents.KindReview, outside)); n != 0 {
			t.Errorf("got %d reviews of a pull request that nobody asked for, want none", n)
		}
		if n := len(w.Exec.RunsOf(agents.KindReview, second)); n != 1 {
			t.Errorf("got %d reviews of the one handed in last, want 1", n)
		}
		if got := len(w.Exec.RunsOf(agents.KindReview, first)); got > 1 {
			t.Errorf("got %d reviews of the first one, want only the one before the second was opened", got)
		}
		w.Forge.EditPull(outside, func(p *forge.Pull) { p.Labels = with(p.Labels, forge.LabelReview) })
		w.Until(time.Hour, "a review that a person asked for", func() bool {
			return len(w.Exec.RunsOf(agents.KindReview, outside)) == 1
		})
		l.Stop()
		w.Check()
	})
}

// A planner files the same issue eleven times. One is worked on, also after the first one is merged and a restart; each
// other one gets one comment, and is begun when a person says so.
func TestFiledTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Minutely()
		w.Config.Forge.MaxUnreviewed = 100
		l := w.Start()
		var filed []int64
		for range 11 {
			n := w.Forge.Issue("Add a health check")
			w.Forge.Edit(n, func(is *forge.Issue) { is.Author = "dev-coder" })
			filed = append(filed, n)
		}
		time.Sleep(6 * time.Hour)
		l.Kill()
		l.Bury()
		l = w.Start()
		time.Sleep(6 * time.Hour)
		if !w.Forge.Get(filed[0]).Closed {
			t.Error("the first one is not done")
		}
		for _, n := range filed[1:] {
			if got := len(w.Exec.RunsOf(agents.KindIssue, n)); got != 0 || !w.labelled(n, forge.LabelNeedsHuman) {
				t.Errorf("#%d has %d sessions and the labels %v, want none, and needs-human", n, got, w.Forge.Get(n).Labels)
			}
		}
		if n := len(w.Forge.Comments()); n != 10 {
			t.Errorf("got %d comments, want one on each duplicate", n)
		}
		w.Forge.Edit(filed[1], func(is *forge.Issue) { is.Labels = without(is.Labels, forge.LabelNeedsHuman) })
		w.Forge.Command(filed[2], "johba", "/disinto retry")
		for _, n := range filed[1:3] {
			w.Until(3*time.Hour, "a session that a person asked for", func() bool {
				return len(w.Exec.RunsOf(agents.KindIssue, n)) == 1
			})
		}
		l.Stop()
		w.Check()
	})
}

// An agent files an issue after the other. What it opens has max_sessions_per_day sessions a day, over restarts; the
// next day continues; people's issues never wait.
func TestOpenersDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Config.Forge.MaxSessionsDay, w.Config.Forge.MaxUnreviewed = 7, 100
		for i := range 10 {
			w.Forge.Edit(w.Forge.Issue(fmt.Sprintf("mine %d", i)), func(is *forge.Issue) { is.Author = "dev-coder" })
		}
		l := w.Start() // at midnight
		time.Sleep(12 * time.Hour)
		l.Kill()
		l.Bury()
		l = w.Start()
		theirs := w.Forge.Issue("a person's")
		time.Sleep(11 * time.Hour)
		if n := len(w.Exec.Runs()); n != 7+2 {
			t.Errorf("got %d sessions on the first day, want 7 and 2 on a person's issue", n)
		}
		if !w.Forge.Get(theirs).Closed {
			t.Error("a person's issue waited")
		}
		why := w.say(1, "johba", "/disinto why")
		for _, q := range l.Document().Queue {
			if q.Code == threads.OpenerLimit {
				why = q.Why
			}
		}
		const want = "what dev-coder opened had 7 of 7 sessions today until 2000-01-02T00:00:00Z"
		if !strings.Contains(why, want) {
			t.Errorf("got the reason %q, want %q", why, want)
		}
		time.Sleep(24 * time.Hour)
		if n := len(w.Exec.Runs()); n != 2*7+2 {
			t.Errorf("got %d sessions after two days, want 16", n)
		}
		l.Stop()
		w.Check()
	})
}
