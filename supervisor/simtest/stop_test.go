package simtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// SIGTERM ends every session within the grace, and releases every claim.
func TestStop(t *testing.T) {
	hang := func(ctx context.Context, call string) error {
		if call == "unassign" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	tests := []struct {
		name     string
		stubborn bool
		fault    Fault
		min, max time.Duration
		released bool
	}{
		{"sessions that obey", false, nil, 100 * time.Millisecond, time.Second, true},
		{"sessions that ignore TERM", true, nil, 7 * time.Second, 8 * time.Second, true},
		{"a forge that hangs, sessions that obey", false, hang, 2 * time.Second, 2*time.Second + 200*time.Millisecond, false},
		{
			"a forge that hangs, sessions that ignore TERM", true, hang,
			9 * time.Second, 9*time.Second + 100*time.Millisecond, false,
		},
	}
	for _, tt := range tests {
		if Skips(tt.name, "a forge that hangs, sessions that obey") {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Forge.Issue("one")
				w.Forge.Issue("two")
				w.Exec.Script = func(job agents.Job, n int) Script {
					s := w.Work(job, n)
					s.Stubborn = tt.stubborn
					return s
				}
				l := w.Start()
				time.Sleep(time.Minute)
				w.Forge.Fail(tt.fault)
				if took := l.Stop(); took < tt.min || took > tt.max {
					t.Errorf("Stop took %s, want %s to %s", took, tt.min, tt.max)
				}
				w.Check()
				if left := w.Forge.Claimed(); len(left) == 0 != tt.released {
					t.Errorf("claims left: %v", left)
				}
				for _, r := range w.Exec.Runs() {
					if r.End.IsZero() || r.Outcome.Result != agents.Cancelled {
						t.Errorf("session of #%d: got %+v, want cancelled", r.Job.Number, r.Outcome)
					}
				}
				// The next supervisor starts the stopped work again, at once and without a burnt attempt.
				w.Forge.Fail(nil)
				l = w.Start()
				w.Until(2*time.Second, "both are started again", func() bool { return len(w.Exec.Runs()) == 4 })
				for _, r := range w.Exec.Runs() {
					if variable(r.Job, "DISINTO_ATTEMPT") != "1" {
						t.Error("the stop burnt an attempt")
					}
				}
				w.Until(2*time.Hour, "merged", w.Forge.Done)
				l.Stop()
				w.Check()
			})
		})
	}
}

// A session that cannot be ended does not delay the supervisor's stop beyond its limit.
func TestStopWithUndead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		always(w, agents.KindIssue, Script{Takes: time.Hour, Undead: true})
		l := w.Start()
		time.Sleep(time.Minute)
		if took := l.Stop(); took != 9*time.Second {
			t.Errorf("Stop took %s, want 9s", took)
		}
		w.Check()
		time.Sleep(2 * time.Hour) // its late end has no effect
	})
}

// The supervisor stops during the look after a session. Without an answer the session counts as lost, and burns no
// attempt.
func TestStopWhileJudging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		always(w, agents.KindIssue, Script{Takes: time.Minute})
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call == "look" {
				return forge.ErrUnavailable
			}
			return nil
		})
		l := w.Start()
		time.Sleep(2 * time.Minute)
		if took := l.Stop(); took > time.Second {
			t.Errorf("Stop took %s, want at most 1s", took)
		}
		w.Forge.Fail(nil)
		w.Exec.Script = w.Work
		l = w.Start()
		time.Sleep(time.Minute)
		runs := w.Exec.RunsOf(agents.KindIssue, 1)
		if len(runs) != 2 || variable(runs[1].Job, "DISINTO_ATTEMPT") != "1" {
			t.Errorf("after the restart: got sessions %+v, want a second one at attempt 1", runs)
		}
		if recent := l.Document().Recent; len(recent) != 1 || recent[0].Outcome != agents.Lost {
			t.Errorf("got recent sessions %+v, want one lost", recent)
		}
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
	})
}

// Nothing is started while the supervisor stops.
func TestNoStartWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		w.Forge.Issue("two")
		w.Forge.Issue("three")
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			s.Stubborn = job.Number == 2
			return s
		}
		l := w.Start()
		time.Sleep(time.Minute)
		l.Stop()
		if n := len(w.Exec.Runs()); n != 2 {
			t.Errorf("got %d sessions, want the 2 from before the stop", n)
		}
	})
}

// Two threads compete for the same work. The executor checks that no item, agent or slot is taken twice.
func TestManyThreadsOneQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		other := w.Config.Threads[1]
		other.Name, other.Agents = "llama-two", []string{"dev-two-a", "dev-two-b"}
		w.Config.Threads = append(w.Config.Threads, other)
		w.Exec.Sticky = append(w.Exec.Sticky, other.Name)
		w.Config.Forge.MaxUnreviewed = 100
		for i, name := range other.Agents {
			a := w.Config.Agents[i]
			a.Name, a.Login, a.Thread, a.Token = name, name, other.Name, agents.Secret("token-of-"+name)
			w.Config.Agents = append(w.Config.Agents, a)
			w.Forge.Tokens[a.Token.Reveal()] = name
		}
		issues := Size(40, 12)
		for i := range issues {
			w.Forge.Issue(fmt.Sprint("issue ", i))
		}
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			s.Takes = time.Duration(job.Number%7) * 10 * time.Second
			if job.Kind == agents.KindReview {
				s.Takes = time.Second
			}
			return s
		}
		l := w.Start()
		w.Until(5*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		for i := range int64(issues) {
			if n := len(w.Exec.RunsOf(agents.KindIssue, i+1)); n != 1 {
				t.Errorf("issue %d: got %d implementations, want 1", i+1, n)
			}
		}
		used := make(map[string]bool)
		for _, r := range w.Exec.Runs() {
			used[r.Job.Agent] = true
		}
		if len(used) != 6 {
			t.Errorf("got sessions of the agents %v, want all 6", used)
		}
	})
}

// A scheduled role runs when it is due, claims nothing, and waits for its next due time after a failure.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Roles = append(w.Config.Roles, agents.Role{
			Name: "watch", On: agents.OnSchedule, Every: 20 * time.Minute, Priority: 5, Command: []string{"watch"},
		})
		w.Config.Agents[3].Roles = append(w.Config.Agents[3].Roles, "watch")
		always(w, agents.KindSchedule, Script{
			Takes: 4 * time.Minute, Outcome: agents.Outcome{Result: agents.Failed, Reason: "exit status 1"},
		})
		began := time.Now()
		l := w.Start()
		time.Sleep(35 * time.Minute)
		l.Kill() // the journal has its last run
		l.Bury()
		l = w.Start()
		time.Sleep(70 * time.Minute)
		l.Stop()
		w.Check()
		// The third failure in a row rests for 40 minutes.
		if got, want := fmt.Sprint(minutes(w.Exec.Runs(), began)), "[0 24 48 92]"; got != want {
			t.Errorf("got runs at minutes %s, want %s", got, want)
		}
		if writes := w.Forge.Writes(); len(writes) > 0 {
			t.Errorf("got writes %v, want none", writes)
		}
		job := w.Exec.Runs()[0].Job
		if !strings.HasSuffix(job.Dir, "/work/review-sonnet/johba_harb_watch") {
			t.Errorf("got workspace %s, want the agent's folder for the role", job.Dir)
		}
	})
}

// A session gets its folders, its log, its result file and its own token.
func TestJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Roles[0].Command = []string{"dev-agent.sh", "{{.Number}}"}
		w.Config.Threads[0].BaseURL, w.Config.Threads[1].BaseURL = "http://api", "http://llama/v1"
		w.Config.Secrets = append(w.Config.Secrets, agents.SecretVar{Name: "HIDDEN", Value: "hidden-value"})
		w.Forge.Issue("one")
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			if job.Kind == agents.KindReview && len(w.Forge.Pulls()[0].Reviews) == 0 {
				s.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
			}
			return s
		}
		l := w.Start(func(l *Life) { l.Environ = []string{"PATH=/bin", "HIDDEN=hidden-value", "LANG=C"} })
		w.Until(time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		issue, rework := w.Exec.RunsOf(agents.KindIssue, 1)[0].Job, w.Exec.RunsOf(agents.KindRework, 2)[0].Job
		if got := strings.Join(issue.Command, " "); got != "dev-agent.sh 1" {
			t.Errorf("got command %q, want dev-agent.sh 1", got)
		}
		place := func(kind, name string) string { return w.Dir + "/" + kind + "/dev-coder/" + name }
		if issue.Dir != place("work", "johba_harb_1") || rework.Dir != issue.Dir {
			t.Errorf("got workspaces %s and %s, want one folder for the chain", issue.Dir, rework.Dir)
		}
		if issue.LogPath != place("logs", issue.RunID+".log") || issue.ResultPath != place("results", issue.RunID+".json") {
			t.Errorf("got log %s and result %s, want the agent's folders and the run id", issue.LogPath, issue.ResultPath)
		}
		for name, want := range map[string]string{
			"FORGE_TOKEN": "token-of-dev-coder", "FORGE_URL": "http://forge", "DISINTO_KIND": "issue", "DISINTO_NUMBER": "1",
			"DISINTO_SLOT": "0", "DISINTO_THREAD": "llama", "DISINTO_BACKEND": "local", "DISINTO_WORKSPACE": issue.Dir,
			"DISINTO_RESULT": issue.ResultPath, "HOME": w.Dir + "/home/dev-coder", "LANG": "C", "HIDDEN": "",
			"DISINTO_RUN_ID": issue.RunID,
		} {
			if got := variable(issue, name); got != want {
				t.Errorf("got %s = %q, want %q", name, got, want)
			}
		}
		if issue.BackendURL != "http://llama/v1" || w.Exec.RunsOf(agents.KindReview, 2)[0].Job.BackendURL != "" {
			t.Errorf("got backend %q for local work and %q for an API",
				issue.BackendURL, w.Exec.RunsOf(agents.KindReview, 2)[0].Job.BackendURL)
		}
		if issue.Timeout != 2*time.Hour || issue.Stall != 15*time.Minute || issue.Grace != 7*time.Second {
			t.Errorf("got limits of %+v, want 2h, 15m and 7s", issue)
		}
	})
}
