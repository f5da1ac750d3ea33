package simtest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
)

// The forge does not answer for half an hour. Sessions continue, none starts, and one line is logged. Afterwards,
// sessions that ended meanwhile are judged without a burnt attempt.
func TestForgeDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		Size(w.Usual, w.Minutely)()
		w.Forge.Issue("one")
		w.Forge.Issue("two")
		w.Forge.Issue("three")
		var down atomic.Bool
		var scans atomic.Int64
		w.Forge.Fail(func(_ context.Context, call string) error {
			if down.Load() {
				if call == "scan" {
					scans.Add(1)
				}
				return fmt.Errorf("no route: %w", forge.ErrUnavailable)
			}
			return nil
		})
		l := w.Start()
		time.Sleep(time.Minute)
		if n := len(w.Exec.Runs()); n != 2 {
			t.Fatalf("got %d sessions before the forge went down, want 2", n)
		}
		down.Store(true)
		for range 30 * 12 {
			time.Sleep(5 * time.Second)
			l.Reload(w.Config, nil) // wakes every thread
		}
		// Scans come after 1, 2, 4, ... 32 s, then once a minute, however often threads are woken.
		if n := scans.Load(); n < 30 || n > 40 {
			t.Errorf("got %d scans of a forge that was down for 30 minutes, want 30 to 40", n)
		}
		runs := w.Exec.Runs()
		if len(runs) != 2 || runs[0].Outcome.Result != agents.Done || runs[1].Outcome.Result != agents.Done {
			t.Errorf("while the forge was down: got sessions %+v, want 2 that are done", runs)
		}
		d := l.Document()
		if d.Forge.OK || !strings.Contains(d.Forge.Error, "no route") || len(d.Sessions) != 0 {
			t.Errorf("while the forge is down: got status %+v and %d sessions, want the error, and no session", d.Forge,
				len(d.Sessions))
		}
		if len(d.Queue) != 3 {
			t.Errorf("while the forge is down: got queue %+v, want 3 issues", d.Queue)
		}
		for _, q := range d.Queue {
			if q.Code != threads.NotRead {
				t.Errorf("%s: got code %s, want %s", q.Title, q.Code, threads.NotRead)
			}
		}
		if n := strings.Count(w.Log.String(), "cannot read the forge"); n != 1 {
			t.Errorf("got %d lines about the forge, want 1:\n%s", n, w.Log.String())
		}
		down.Store(false)
		w.Until(65*time.Second, "work continues", func() bool { return len(w.Exec.Runs()) > 2 })
		w.Until(3*time.Hour, "everything is merged", w.Forge.Done)
		l.Stop()
		w.Check()
		for n := range int64(3) {
			if runs := w.Exec.RunsOf(agents.KindIssue, n+1); len(runs) != 1 {
				t.Errorf("issue %d: got %d sessions, want 1", n+1, len(runs))
			}
		}
	})
}

// The forge is down when the supervisor starts. Later it refuses a request for lack of rights.
func TestForgeNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		began := time.Now()
		w.Forge.Fail(func(_ context.Context, call string) error {
			switch since := time.Since(began); {
			case since < 30*time.Minute:
				return fmt.Errorf("%s: connection refused: %w", call, forge.ErrUnavailable)
			case since < 50*time.Minute && call == "prepare":
				return fmt.Errorf("cannot create the label blocked: %w", forge.ErrForbidden)
			}
			return nil
		})
		l := w.Start()
		time.Sleep(30 * time.Minute)
		if d := l.Document(); d.Forge.OK || !strings.Contains(d.Forge.Error, "connection refused") || len(w.Exec.Runs()) > 0 {
			t.Errorf("while the forge is down: got status %+v, want a refused connection, and no session", d.Forge)
		}
		w.Until(62*time.Second, "a session starts", func() bool { return len(w.Exec.Runs()) == 1 })
		time.Sleep(10 * time.Minute)
		if d := l.Document(); d.Forge.OK || !strings.Contains(d.Forge.Error, "cannot create the label") {
			t.Errorf("while the forge refuses: got status %+v, want the refused request", d.Forge)
		}
		time.Sleep(20 * time.Minute)
		if d := l.Document(); !d.Forge.OK || d.Forge.Error != "" {
			t.Errorf("afterwards: got status %+v, want no error", d.Forge)
		}
		l.Stop()
		w.Check()
		if n := strings.Count(w.Log.String(), "the forge is not ready"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, w.Log.String())
		}
	})
}

// A scan that never answers delays only new work, by minutes.
func TestHangingForge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		var hang atomic.Bool
		w.Forge.Fail(func(ctx context.Context, call string) error {
			if hang.Load() && call == "scan" {
				<-ctx.Done()
				return fmt.Errorf("%w: %w", forge.ErrUnavailable, ctx.Err())
			}
			return nil
		})
		l := w.Start()
		time.Sleep(time.Minute)
		hang.Store(true)
		time.Sleep(time.Hour)
		// Only scans hang: the session was judged, and its claim released.
		if left := w.Forge.Claimed(); len(left) > 0 {
			t.Errorf("claims left while scans hang: %v", left)
		}
		if runs := w.Exec.Runs(); len(runs) != 1 || runs[0].Outcome.Result != agents.Done {
			t.Errorf("while scans hang: got sessions %+v, want one that is done", runs)
		}
		if d := l.Document(); d.Forge.OK || d.Forge.Error == "" {
			t.Errorf("while scans hang: got status %+v, want an error", d.Forge)
		}
		hang.Store(false)
		w.Until(3*time.Minute+10*time.Minute, "merged", w.Forge.Done)
		if took := l.Stop(); took > time.Second {
			t.Errorf("Stop of an idle supervisor took %s, want at most 1s", took)
		}
		w.Check()
	})
}

// A stop does not wait for a scan that hangs, and the last status has no error of the forge.
func TestStopWhileForgeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Fail(func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return fmt.Errorf("%w: %w", forge.ErrUnavailable, ctx.Err())
		})
		l := w.Start()
		time.Sleep(time.Second)
		if took := l.Stop(); took > time.Second {
			t.Errorf("Stop took %s, want at most 1s", took)
		}
		if d := l.Document(); d.Forge.Error != "" {
			t.Errorf("got the error %s in the last status, want none", d.Forge.Error)
		}
	})
}

// The scheduler panics whenever the thread llama has a start. The other thread continues, and the stack is logged
// once.
func TestPanicInTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		pull := w.Forge.Open(w.Forge.Issue("reviewed"), "dev-qwen")
		w.Forge.Issue("never started")
		var panics atomic.Int64
		l := w.Start(func(l *Life) {
			l.Decide = func(s threads.Snapshot) threads.Plan {
				plan := threads.Decide(s)
				for _, start := range plan.Starts {
					// The first plan starts the reviewer.
					if start.Thread == "llama" && len(s.Sessions) > 0 && panics.Add(1) > 0 {
						panic("planned")
					}
				}
				return threads.Plan{Starts: only(plan.Starts, "anthropic"), Merges: plan.Merges, Holds: plan.Holds}
			}
		})
		time.Sleep(20 * time.Minute)
		if runs := w.Exec.RunsOf(agents.KindReview, pull); len(runs) != 1 || runs[0].Outcome.Result != agents.Done {
			t.Errorf("got reviews %+v, want one that is done", runs)
		}
		d := l.Document()
		l.Stop()
		if panics.Load() < 2 || len(d.Problems) != 1 || !strings.Contains(d.Problems[0], "panicked, last: planned") {
			t.Errorf("got %d panics and problems %v, want at least 2, and one problem", panics.Load(), d.Problems)
		}
		if n := strings.Count(w.Log.String(), "panicked: planned"); n != 1 {
			t.Errorf("logged %d times, want once", n)
		}
		if !strings.Contains(w.Log.String(), "faults_test.go") {
			t.Error("the log has no stack")
		}
	})
}

func only(starts []threads.Start, thread string) (list []threads.Start) {
	for _, s := range starts {
		if s.Thread == thread {
			list = append(list, s)
		}
	}
	return list
}

// The client panics in a scan. The threads that wait for the scan continue, and the next scan works.
func TestPanicInScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		var scans atomic.Int64
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call == "scan" && scans.Add(1) == 3 {
				panic("scan")
			}
			return nil
		})
		l := w.Start()
		w.Until(time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		if !strings.Contains(w.Log.String(), "panicked: scan") {
			t.Errorf("the log lacks the panic:\n%s", w.Log.String())
		}
	})
}

// The client panics once in each call of a session or a mark. Nothing is lost, and the work is done.
func TestPanicInCall(t *testing.T) {
	for _, name := range Size([]string{"claim", "look", "release", "merge"}, []string{"claim", "merge"}) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Forge.Issue("one")
				var calls atomic.Int64
				w.Forge.Fail(func(_ context.Context, call string) error {
					if call == name && calls.Add(1) == 1 {
						panic("in " + name)
					}
					return nil
				})
				l := w.Start()
				w.Until(time.Hour, "merged", w.Forge.Done)
				l.Stop()
				w.Check()
				if calls.Load() == 0 || !strings.Contains(w.Log.String(), "panicked: in "+name) {
					t.Errorf("the log lacks the panic:\n%s", w.Log.String())
				}
			})
		})
	}
}

// panicking is an executor whose first run panics.
type panicking struct {
	supervisor.Executor
	runs atomic.Int64
}

func (p *panicking) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	if p.runs.Add(1) == 1 {
		panic("in the program")
	}
	return p.Executor.Run(ctx, job, started)
}

// The executor panics, and so does the code that makes a session's environment. Each panic costs the session an
// attempt. Slot, agent and claim are free afterwards, and the next attempt does the work.
func TestSessionPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		var made atomic.Int64
		l := w.Start(func(l *Life) {
			l.ForgeAPI = func(string, string) string {
				if made.Add(1) == 1 {
					panic("in the environment")
				}
				return ""
			}
			l.Executor = &panicking{Executor: l.Executor}
		})
		w.Until(3*time.Hour, "merged", w.Forge.Done)
		d := l.Document()
		if len(d.Problems) != 1 || !strings.Contains(d.Problems[0], "2 passes or calls panicked") {
			t.Errorf("got problems %q, want one that counts 2 panics", d.Problems)
		}
		failed := 0
		for _, r := range d.Recent {
			if r.Outcome == agents.Failed && strings.Contains(r.Reason, "internal error") {
				failed++
			}
		}
		if failed != 2 {
			t.Errorf("got %d failed sessions, want 2: %+v", failed, d.Recent)
		}
		for _, words := range []string{"panicked: in the program", "panicked: in the environment"} {
			if n := strings.Count(w.Log.String(), words); n != 1 {
				t.Errorf("%q was logged %d times, want once", words, n)
			}
		}
		l.Stop()
		w.Check()
	})
}

// Another host claims the first issue just before us. The agent starts the next one at the same moment, on the same
// facts, and the log has no error.
func TestLostRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		for _, title := range []string{"one", "two", "three", "four"} {
			w.Forge.Issue(title)
		}
		var claims, scans atomic.Int64
		w.Forge.Fail(func(_ context.Context, call string) error {
			switch {
			case call == "scan":
				scans.Add(1)
			case call == "claim" && claims.Add(1) <= 2:
				return fmt.Errorf("%w: it is claimed by dev on another host", forge.ErrTaken)
			}
			return nil
		})
		l := w.Start()
		time.Sleep(2 * time.Second)
		if runs := w.Exec.Runs(); len(runs) != 2 || scans.Load() != 1 {
			t.Errorf("got %d sessions after %d scans, want 2 after 1:\n%s", len(runs), scans.Load(), w.Log.String())
		}
		if log := w.Log.String(); !strings.Contains(log, "goes to another: ") || strings.Contains(log, "[WARN]") ||
			strings.Contains(log, "[ERROR]") {
			t.Errorf("got log, want a line about the lost race, and no warning:\n%s", log)
		}
		w.Until(5*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
	})
}

// A repository that is deleted and made anew has no labels, and perhaps not our account: the forge is prepared again.
func TestPreparedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		var prepared atomic.Int32 // calls come from many goroutines
		deleted := time.Now().Add(10 * time.Minute)
		w.Forge.Fail(func(_ context.Context, call string) error {
			since := time.Since(deleted)
			switch {
			case call == "prepare":
				prepared.Add(1)
				if since > 0 && since < 20*time.Minute {
					return fmt.Errorf("cannot write to o/r: %w", forge.ErrForbidden)
				}
			case call == "scan" && since > 0 && since < 10*time.Minute:
				return fmt.Errorf("o/r: %w", forge.ErrNotFound)
			}
			return nil
		})
		l := w.Start()
		time.Sleep(25 * time.Minute)
		if got := l.Document().Forge.Error; prepared.Load() < 2 || !strings.Contains(got, "cannot write to o/r") {
			t.Errorf("prepared %d times; the forge's error is %q", prepared.Load(), got)
		}
		time.Sleep(10 * time.Minute)
		if got := l.Document().Forge.Error; got != "" {
			t.Errorf("afterwards the forge's error is %q", got)
		}
		l.Stop()
	})
}
