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
	"codeberg.org/johba/disinto/threads"
)

// always gives every session of a kind the same script.
func always(w *World, kind agents.Kind, s Script) {
	w.Exec.Script = func(job agents.Job, n int) Script {
		if job.Kind == kind {
			return s
		}
		return w.Work(job, n)
	}
}

// reports is a session without an effect that reports the given result.
func reports(takes time.Duration, result agents.Result, reason string) Script {
	return Script{Takes: takes, Outcome: agents.Outcome{Result: result, Claimed: true, Reason: reason}}
}

// minutes returns the starts of sessions since a time, in full minutes.
func minutes(runs []Run, began time.Time) (list []int) {
	for _, r := range runs {
		list = append(list, int(r.Begin.Sub(began).Minutes()))
	}
	return list
}

// Sessions that fail at once start at 0, 2, 4, 9 and 19 minutes, whichever agent runs them, and also if the
// supervisor is killed in between. Then the issue is blocked, with one comment. Removing the label starts over.
func TestG1_FiveFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := w.Forge.Issue("hopeless")
		always(w, agents.KindIssue, Script{Outcome: agents.Outcome{
			Result: agents.Failed, Reason: "work: exit status 3", ExitCode: 3, Tail: "building\n```\n<!-- disinto:x -->\nboom\n",
		}})
		began := time.Now()
		l := w.Start()
		time.Sleep(6 * time.Minute)
		l.Kill()
		l.Bury()
		l = w.Start()
		time.Sleep(54 * time.Minute)

		runs := w.Exec.RunsOf(agents.KindIssue, issue)
		if got, want := fmt.Sprint(minutes(runs, began)), "[0 2 4 9 19]"; got != want {
			t.Errorf("got starts at minutes %s, want %s", got, want)
		}
		for i, r := range runs {
			if got, want := variable(r.Job, "DISINTO_ATTEMPT"), fmt.Sprint(i+1); got != want {
				t.Errorf("got attempt %s, want %s", got, want)
			}
		}
		if is := w.Forge.Get(issue); !is.Has(forge.LabelBlocked) || !is.Has(forge.LabelBacklog) || len(is.Assignees) > 0 {
			t.Errorf("afterwards: got labels %v, assignees %v, want blocked, backlog, and no assignee", is.Labels, is.Assignees)
		}
		comments := w.Forge.Comments()
		if len(comments) != 1 {
			t.Fatalf("got %d comments, want 1: %v", len(comments), comments)
		}
		want := "Agents gave up on the implementation after 5 attempts. The last one ended with:\n\n" +
			"```text\nwork: exit status 3\n```\n\nThe last lines of its output:\n\n" +
			"````text\nbuilding\n```\n<! -- disinto:x -->\nboom\n````\n\n" +
			"To have it tried again, remove the label `blocked`, or comment `/disinto retry`."
		if comments[0].Body != want {
			t.Errorf("got comment:\n%s\nwant:\n%s", comments[0].Body, want)
		}

		w.Forge.Edit(issue, func(is *forge.Issue) { is.Labels = without(is.Labels, forge.LabelBlocked) })
		began = time.Now()
		time.Sleep(time.Hour)
		l.Stop()
		w.Check()
		again := w.Exec.RunsOf(agents.KindIssue, issue)[len(runs):]
		if len(again) != 5 || variable(again[0].Job, "DISINTO_ATTEMPT") != "1" {
			t.Errorf("after the label was removed: got starts at minutes %v, want five", minutes(again, began))
		}
		if n := len(w.Forge.Comments()); n != 2 {
			t.Errorf("got %d comments after the issue was blocked twice, want 2", n)
		}
	})
}

// A session's outcome decides whether and when the next one starts. Each session takes a minute.
func TestOutcomes(t *testing.T) {
	const refusal = "there is no such file; @johba fixes #1"
	tests := []struct {
		name   string
		script func(w *World) Script
		want   string // start minutes of sessions on the issue within half an hour
		result agents.Result
		labels []string // in addition to backlog
	}{
		{"pull request", func(w *World) Script {
			return w.Work(agents.Job{Kind: agents.KindIssue, Number: 1, Agent: "dev-coder"}, 1)
		}, "[0]", agents.Done, nil},
		{
			"pull request, then exit 1", func(w *World) Script {
				s := w.Work(agents.Job{Kind: agents.KindIssue, Number: 1, Agent: "dev-coder"}, 1)
				s.Outcome = agents.Outcome{Result: agents.Failed, ExitCode: 1, Reason: "exit status 1"}
				return s
			}, "[0]", agents.Done, nil,
		},
		{
			"exit 0 and nothing", func(*World) Script { return Script{Takes: time.Minute} },
			"[0 3 6 12 23]", agents.NoProgress,
			[]string{forge.LabelBlocked},
		},
		{
			"says done and did nothing", func(*World) Script {
				return Script{Takes: time.Minute, Outcome: agents.Outcome{Result: agents.Done, Claimed: true}}
			}, "[0 3 6 12 23]", agents.NoProgress, []string{forge.LabelBlocked},
		},
		{
			"stalled", func(*World) Script {
				return Script{Takes: time.Minute, Outcome: agents.Outcome{Result: agents.Stalled, Reason: "silent"}}
			}, "[0 3 6 12 23]", agents.Stalled, []string{forge.LabelBlocked},
		},
		{
			"a comment each time", func(w *World) Script {
				return Script{Takes: time.Minute, Do: func() { w.Forge.Say(1, "dev-coder"); w.Forge.Say(1, "dev-qwen") }}
			}, "[0 2 5 10 19]", agents.Done, nil, // rests 1, 2, 4 and 8 minutes
		},
		{
			"refused", func(*World) Script {
				return Script{Takes: time.Minute, Outcome: agents.Outcome{Result: agents.Refused, Claimed: true, Reason: refusal}}
			}, "[0]", agents.Refused, []string{forge.LabelNeedsHuman},
		},
		{
			"limited for twenty minutes", func(w *World) Script {
				at := time.Now().Add(20 * time.Minute)
				s := reports(time.Minute, agents.Limited, "limit")
				s.Outcome.RetryAt = at
				return s
			}, "[0 20]", agents.Limited, nil,
		},
		{
			"limited until the past", func(*World) Script {
				s := reports(10*time.Minute, agents.Limited, "limit")
				s.Outcome.RetryAt = time.Unix(1, 0)
				return s
			}, "[0 11 23]", agents.Limited, nil,
		},
		{
			"limited without a reset time", func(*World) Script {
				return reports(8*time.Minute, agents.Limited, "limit")
			}, "[0 13 26]", agents.Limited, nil,
		},
		{
			"no backend", func(*World) Script { // three at once, then a probe every five minutes
				return reports(4*time.Minute, agents.BackendDown, "refused")
			}, "[0 4 8 17 26]", agents.BackendDown, nil,
		},
	}
	for _, tt := range tests {
		if Skips(tt.name, "pull request, then exit 1", "says done and did nothing", "a comment each time",
			"limited until the past", "limited without a reset time") {
			continue // each outcome is played once; the table of package ledger has the rest
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Slow()
				issue := w.Forge.Issue("one")
				w.Exec.Script = func(job agents.Job, n int) Script {
					if job.Kind == agents.KindIssue {
						return tt.script(w)
					}
					return w.Work(job, n)
				}
				began := time.Now()
				l := w.Start()
				time.Sleep(30 * time.Minute)
				l.Stop()
				w.Check()
				runs := w.Exec.RunsOf(agents.KindIssue, issue)
				if got := fmt.Sprint(minutes(runs, began)); got != tt.want {
					t.Errorf("got starts at minutes %s, want %s\n%s", got, tt.want, w.Log.String())
				}
				d := l.Document()
				if first := d.Recent[len(d.Recent)-1]; first.Outcome != tt.result || first.Reason == "" {
					t.Errorf("got outcome %s %q, want %s and a reason", first.Outcome, first.Reason, tt.result)
				}
				want := with(tt.labels, forge.LabelBacklog)
				if is := w.Forge.Get(issue); !slices.Equal(is.Labels, want) {
					t.Errorf("got labels %v, want %v", is.Labels, want)
				}
				for _, c := range w.Forge.Comments() {
					if tt.result == agents.Refused && !strings.Contains(c.Body, "```text\n"+refusal+"\n```") {
						t.Errorf("the agent's words are not fenced:\n%s", c.Body)
					}
				}
			})
		})
	}
}

// A usage limit parks its thread, but not the item or another thread. Afterwards one session tries, and the others
// follow a minute later.
func TestG3_UsageLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		for i := range 4 {
			w.Forge.Issue(fmt.Sprint("issue ", i))
		}
		w.Config.Forge.MaxUnreviewed = 10
		began := time.Now()
		w.Exec.Script = func(job agents.Job, n int) Script {
			if job.Kind == agents.KindIssue && time.Since(began) < 30*time.Minute {
				return Script{Takes: time.Minute, Outcome: agents.Outcome{
					Result: agents.Limited, Claimed: true, Reason: "weekly limit", RetryAt: began.Add(time.Hour),
				}}
			}
			return w.Work(job, n)
		}
		review := w.Forge.Open(w.Forge.Issue("reviewed"), "johba")
		l := w.Start()
		time.Sleep(30 * time.Minute)
		llama := l.Document().Threads[1]
		if !llama.ParkedUntil.Equal(began.Add(time.Hour)) || llama.ParkedWhy != "weekly limit" {
			t.Errorf("got parked until %s: %s, want an hour after the start: weekly limit", llama.ParkedUntil, llama.ParkedWhy)
		}
		for _, q := range l.Document().Queue {
			if q.Kind == agents.KindIssue && q.Code != threads.ThreadPark && q.Code != threads.PeoplesPull {
				t.Errorf("%s: got code %s, want parked or peoples-pull", q.Title, q.Code)
			}
		}
		if n := len(w.Exec.RunsOf(agents.KindReview, review)); n == 0 {
			t.Error("the other thread started nothing")
		}
		time.Sleep(30*time.Minute + 30*time.Second)
		llama = l.Document().Threads[1]
		if !strings.HasPrefix(llama.ParkedWhy, "weekly limit, dev-") || !strings.HasSuffix(llama.ParkedWhy, " tries it") {
			t.Errorf("while one session tries: got parked until %s: %q, want the agent that tries", llama.ParkedUntil,
				llama.ParkedWhy)
		}
		time.Sleep(9 * time.Minute)
		l.Stop()
		w.Check()
		var starts []string
		for _, r := range w.Exec.Runs() {
			if r.Job.Kind == agents.KindIssue {
				at := r.Begin.Sub(began).Truncate(10 * time.Second)
				starts = append(starts, at.String()+" attempt "+variable(r.Job, "DISINTO_ATTEMPT"))
			}
		}
		want := "0s attempt 1, 0s attempt 1, 1h0m0s attempt 1, 1h1m0s attempt 1"
		if got := strings.Join(starts, ", "); got != want {
			t.Errorf("got sessions: %s\nwant: %s", got, want)
		}
	})
}

// A dead backend with fifty issues gets three starts, then one every five minutes until it is back.
func TestG2_Breaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		for i := range Size(50, 15) {
			w.Forge.Issue(fmt.Sprint("issue ", i))
		}
		w.Slow()
		w.Config.Threads[1].Slots, w.Config.Threads[1].MaxSessions = 1, 1
		w.Config.Forge.MaxUnreviewed = 100
		var back atomic.Bool
		w.Exec.Script = func(job agents.Job, n int) Script {
			if job.Kind == agents.KindIssue && !back.Load() {
				return reports(time.Second, agents.BackendDown, "connection refused")
			}
			return w.Work(job, n)
		}
		began := time.Now()
		l := w.Start()
		time.Sleep(31 * time.Minute)
		if got, want := fmt.Sprint(minutes(w.Exec.Runs(), began)), "[0 0 0 5 10 15 20 25 30]"; got != want {
			t.Errorf("got starts at minutes %s, want %s", got, want)
		}
		back.Store(true)
		w.Until(6*time.Minute, "the breaker is closed", func() bool { return len(w.Exec.Runs()) > 9 })
		time.Sleep(10 * time.Minute)
		if d := l.Document(); !d.Threads[1].ParkedUntil.IsZero() {
			t.Errorf("got thread %+v, want it not parked", d.Threads[1])
		}
		l.Stop()
		w.Check()
		for _, r := range w.Exec.Runs() {
			if variable(r.Job, "DISINTO_ATTEMPT") != "1" {
				t.Error("a dead backend burnt an attempt")
			}
		}
	})
}

// People change an issue while an agent works on it.
func TestF4_PeopleInterfere(t *testing.T) {
	tests := []struct {
		name   string
		edit   func(*forge.Issue)
		result agents.Result
		reason string
		runs   int // sessions up to a quarter of an hour later
	}{
		{"closed", func(is *forge.Issue) { is.Closed = true }, agents.Cancelled, "closed on the forge", 1},
		{
			"taken by a person", func(is *forge.Issue) {
				is.Assignees = []string{"johba"}
				is.Labels = without(is.Labels, forge.LabelInProgress)
			},
			agents.Cancelled, "assigned to johba", 1,
		},
		{"agent taken off", func(is *forge.Issue) { is.Assignees = nil }, agents.Cancelled, "assigned to nobody", 2},
		{
			"cancelled", func(is *forge.Issue) { is.Labels = with(is.Labels, forge.LabelCancelled) },
			agents.Cancelled, "labelled cancelled", 1,
		},
		{"title changed", func(is *forge.Issue) { is.Title = "other" }, agents.Done, "opened #2", 1},
	}
	for _, tt := range tests {
		if Skips(tt.name, "taken by a person", "cancelled", "title changed") {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Usual()
				issue := w.Forge.Issue("one")
				l := w.Start()
				time.Sleep(5*time.Minute + 3*time.Second) // between two scans of an idle thread
				w.Forge.Edit(issue, tt.edit)
				time.Sleep(15 * time.Minute)
				d := l.Document()
				l.Stop()
				w.Check()
				runs := w.Exec.RunsOf(agents.KindIssue, issue)
				if len(runs) != tt.runs {
					t.Errorf("got %d sessions, want %d", len(runs), tt.runs)
				}
				cancelled := runs[0].End.Sub(runs[0].Begin)
				if tt.result == agents.Cancelled && cancelled > 5*time.Minute+9*time.Second {
					t.Errorf("got a session of %s, want at most 5m9s", cancelled)
				}
				if tt.runs == 2 && runs[1].Begin.Sub(runs[0].End) < time.Minute {
					t.Errorf("started again after %s, want at least 1m", runs[1].Begin.Sub(runs[0].End))
				}
				first := d.Recent[len(d.Recent)-1]
				if first.Outcome != tt.result || first.Reason != tt.reason {
					t.Errorf("got outcome %s: %s; want %s: %s", first.Outcome, first.Reason, tt.result, tt.reason)
				}
				is := w.Forge.Get(issue)
				if claimed := is.Has(forge.LabelInProgress) || slices.Contains(is.Assignees, "dev-coder"); tt.runs == 1 && claimed {
					t.Errorf("claim left: %v %v", is.Labels, is.Assignees)
				}
			})
		})
	}
}

// The merge of a session's own pull request closes its issue. That does not stop the session, and its outcome is done.
func TestOwnMergeIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Exec.Script = func(agents.Job, int) Script { return Script{Takes: 10 * time.Minute} }
		issue := w.Forge.Issue("one")
		l := w.Start()
		time.Sleep(3 * time.Minute)
		pull := w.Forge.Open(issue, "dev-coder")
		time.Sleep(time.Second)
		w.Forge.EditPull(pull, func(p *forge.Pull) { p.Merged, p.Closed, p.Ended = true, true, time.Now() })
		w.Forge.Edit(issue, func(is *forge.Issue) { is.Closed = true })
		time.Sleep(5 * time.Minute)
		if d := l.Document(); len(d.Recent) > 0 {
			t.Errorf("the session was stopped: %+v", d.Recent)
		}
		time.Sleep(3 * time.Minute)
		recent := l.Document().Recent
		if len(recent) != 1 || recent[0].Outcome != agents.Done || recent[0].Reason != "merged #2" {
			t.Errorf("got recent sessions %+v, want done\n%s", recent, w.Log.String())
		}
		l.Stop()
		w.Check()
	})
}

// The error of a claim decides what rests: the item, the agent, or the item for ten seconds. The forge fails for 110
// s.
func TestClaimFails(t *testing.T) {
	tests := []struct {
		name string
		err  error
		at   time.Duration // start of the first session
		held bool          // the agents are held in the repository, not the item
	}{
		{"taken", forge.ErrTaken, 2 * time.Minute, false},
		{"gone", forge.ErrNotFound, 2 * time.Minute, false},
		{"unavailable", forge.ErrUnavailable, 110 * time.Second, false},
		{"forbidden", forge.ErrForbidden, 5 * time.Minute, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Usual()
				w.Forge.Issue("one")
				began := time.Now()
				w.Forge.Fail(func(_ context.Context, call string) error {
					if call == "claim" && time.Since(began) < 110*time.Second {
						return fmt.Errorf("claim: %w", tt.err)
					}
					return nil
				})
				l := w.Start()
				time.Sleep(30 * time.Second)
				held := l.Document()
				time.Sleep(6 * time.Minute)
				l.Kill()
				l.Bury()
				w.Check()
				got := held.Queue[0].Code == threads.NoAccess
				if got != tt.held || got && !strings.Contains(held.Queue[0].Why, "forbidden") || held.Agents[0].State != "idle" {
					t.Errorf("got queue %+v, agents %+v, want held=%v", held.Queue, held.Agents, tt.held)
				}
				runs := w.Exec.Runs()
				if len(runs) == 0 {
					t.Fatalf("the issue never started\n%s", w.Log.String())
				}
				if wrong := slices.Contains(w.Forge.Writes(), "release #1 dev-coder"); wrong && tt.err == forge.ErrTaken {
					t.Error("another host's claim was released")
				}
				at, attempt := runs[0].Begin.Sub(began), variable(runs[0].Job, "DISINTO_ATTEMPT")
				if at < tt.at || at > tt.at+2*time.Second || attempt != "1" {
					t.Errorf("got a start after %s, attempt %s; want after %s, attempt 1\n%s", at, attempt, tt.at, w.Log.String())
				}
			})
		})
	}
}

// No agent starts under another agent's account.
func TestWrongIdentity(t *testing.T) {
	tests := []struct {
		name, login, why string
	}{
		{
			"another account's", "dev-bot",
			`the token of dev-coder logs in as dev-bot: set $FORGE_TOKEN_DEV_CODER, or forge_user = "dev-bot"`,
		},
		{"no account's", "", "the forge refuses the token of dev-coder: set $FORGE_TOKEN_DEV_CODER"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Forge.Tokens["token-of-dev-coder"] = tt.login
				w.Forge.Issue("one")
				w.Forge.Issue("two")
				l := w.Start()
				time.Sleep(time.Minute)
				if a := l.Document().Agents[0]; a.State != "held" || a.Why != tt.why {
					t.Errorf("%s: got %s: %s\nwant held: %s", a.Name, a.State, a.Why, tt.why)
				}
				time.Sleep(20 * time.Minute)
				l.Stop()
				w.Check()
				for _, r := range w.Exec.Runs() {
					if r.Job.Agent == "dev-coder" {
						t.Errorf("dev-coder ran %s, want no session", r.Job.RunID)
					}
				}
				if len(w.Exec.RunsOf(agents.KindIssue, 1)) != 1 {
					t.Error("the other agent did not take the work")
				}
			})
		})
	}
}
