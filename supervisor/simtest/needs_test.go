package simtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// chained returns a world with services that need each other: db <- mid <- top.
func chained(t *testing.T) (*World, *machine) {
	w := New(t)
	w.Config.Services = []threads.Service{
		{Name: "db", Command: []string{"db"}},
		{Name: "mid", Command: []string{"mid"}, Needs: []string{"db"}},
		{Name: "top", Command: []string{"top"}, Needs: []string{"mid"}},
	}
	return w, newMachine(w)
}

// A service without a check can be used after it has run for a time, so one that fails at once never starts what
// needs it. When it dies later, what needs it keeps running and says so.
func TestServiceNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := chained(t)
		w.Config.Services[0].ReadyAfter = 5 * time.Second
		l := w.Start(m.in)
		for range 3 {
			w.Until(10*time.Second, "db starts", func() bool { return state(l, "db").PID != 0 })
			time.Sleep(3 * time.Second)
			m.fail("db")
			synctest.Wait()
		}
		why := "waits for db, which failed (db: exit status 1) and rests"
		if got := state(l, "mid"); got.State != "waiting" || got.Why != why {
			t.Errorf("beside a service that fails at once: got %+v, want waiting for it", got)
		}
		w.Until(20*time.Second, "all run", func() bool { return state(l, "top").State == "ready" })
		m.fail("db")
		synctest.Wait()
		why = "db, which it needs, failed (db: exit status 1) and rests"
		if got := state(l, "mid"); got.State != "ready" || got.Why != why {
			t.Errorf("after the end of what it needs: got %+v, want ready, and the reason", got)
		}
		if got := state(l, "top"); got.Why != "" {
			t.Errorf("got %+v, want nothing about a service that it does not need itself", got)
		}
		want := "service db failed: db: exit status 1; next try in 8s; mid, which needs it, keeps running"
		if !strings.Contains(w.Log.String(), want) {
			t.Errorf("want %q in the log:\n%s", want, w.Log.String())
		}
		l.Stop()
	})
}

// A oneshot runs once, and what needs it starts when it has ended with 0. A service with restart = "on-failure" stays
// ended after 0, and one with "never" after any end, which needs a person.
func TestServiceOneshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Services = []threads.Service{
			{Name: "app", Command: []string{"app"}, Needs: []string{"migrate"}, Restart: threads.RestartNever},
			{Name: "job", Command: []string{"job"}, Restart: threads.RestartOnFailure},
			{Name: "migrate", Command: []string{"migrate"}, Oneshot: true},
		}
		m := newMachine(w)
		l := w.Start(m.in)
		time.Sleep(time.Minute)
		if got := state(l, "app"); got.Why != "waits for migrate, which has not ended yet" {
			t.Errorf("before the oneshot has ended: got %+v, want waiting", got)
		}
		m.fail("migrate")
		synctest.Wait()
		w.Until(2*time.Second, "it is tried again", func() bool { return state(l, "migrate").PID != 0 })
		done := agents.Outcome{Result: agents.Done}
		m.end("migrate", done)
		w.Until(2*time.Second, "app is ready", func() bool { return state(l, "app").State == "ready" })
		m.end("job", done)
		m.fail("app")
		time.Sleep(time.Hour)
		for service, want := range map[string]string{"migrate": "done", "job": "ended", "app": "ended"} {
			if got := state(l, service); got.State != want || got.NeedsPerson != (service == "app") || got.PID != 0 {
				t.Errorf("an hour later: got %+v, want %s", got, want)
			}
		}
		const alarm = "service app failed and is not started again: app: exit status 1; see disinto logs app"
		if !slices.Contains(l.Document().Problems, alarm) {
			t.Errorf("got problems %q, want %q", l.Document().Problems, alarm)
		}
		order(l, "start", "app")
		w.Until(2*time.Second, "a person starts it", func() bool { return state(l, "app").State == "ready" })
		l.Stop()
		want := []string{
			"job starts", "migrate starts", "migrate ends", "migrate starts", "migrate ends", "app starts", "job ends",
			"app ends", "app starts", "app ends",
		}
		got := m.log()
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A person stops one service, which stays stopped, and starts it again.
func TestServiceStopAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := chained(t)
		l := w.Start(m.in)
		w.Until(10*time.Second, "all run", func() bool { return state(l, "top").State == "ready" })
		for _, tt := range []struct{ verb, service, want string }{
			{"start", "mid", `"note":"it runs already"`},
			{"stop", "mid", `"did":["stopped"],"note":"process 50 is being ended; top, which needs it, keeps running"`},
			{"stop", "mi", "no service has that name, did you mean mid?"},
		} {
			if got := order(l, tt.verb, tt.service); !strings.Contains(got, tt.want) {
				t.Errorf("%s %s: got %s, want %s", tt.verb, tt.service, got, tt.want)
			}
		}
		time.Sleep(time.Hour)
		if got := state(l, "mid"); got.State != "stopped" || got.NeedsPerson || got.PID != 0 {
			t.Errorf("an hour after its stop: got %+v, want stopped", got)
		}
		if got := order(l, "stop", "mid"); !strings.Contains(got, `"note":"stopped already"`) {
			t.Errorf("a second stop: got %s", got)
		}
		order(l, "stop", "db")
		time.Sleep(2 * time.Second)
		if got := order(l, "start", "mid"); !strings.Contains(got, `"did":["started"]`) ||
			!strings.Contains(got, "it waits for db, which was stopped by hand (disinto start db)") {
			t.Errorf("start: got %s, want started, and what it waits for", got)
		}
		order(l, "start", "db")
		w.Until(3*time.Second, "both run", func() bool { return state(l, "mid").State == "ready" })
		l.Stop()
	})
}

// Stubborn dependants leave the service below them its share of a stop: each is asked to end, and has time for it.
func TestServiceStopShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := chained(t)
		m.deaf = map[string]bool{"db": true, "mid": true, "top": true}
		var mu sync.Mutex // guards times
		times := make(map[string]time.Time)
		l := w.Start(m.in, func(l *Life) {
			run := l.Runner
			l.Runner = runner(func(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
				context.AfterFunc(ctx, func() {
					mu.Lock()
					defer mu.Unlock()
					times[job.Service] = time.Now()
				})
				return run.Run(ctx, job, started)
			})
		})
		w.Until(10*time.Second, "all run", func() bool { return state(l, "top").State == "ready" })
		begin := time.Now()
		l.Stop()
		took := time.Since(begin)
		ends := func(line string) bool { return strings.HasSuffix(line, " ends") } // just when the next one is asked to
		want := []string{
			"db starts", "mid starts", "top starts", "top is asked to end", "mid is asked to end", "db is asked to end",
		}
		if got := m.log(); len(got) != 9 || !slices.Equal(slices.DeleteFunc(got, ends), want) {
			t.Errorf("got %q, want %q and three ends", got, want)
		}
		mu.Lock()
		defer mu.Unlock()
		share := took / 3
		if times["mid"].Sub(times["top"]) < share*8/10 || times["db"].Sub(times["mid"]) < share*8/10 ||
			begin.Add(took).Sub(times["db"]) < share*8/10 {
			t.Errorf("got orders to end at %v, in a stop of %s, want equal shares", times, took)
		}
	})
}

// runner is a function that runs services.
type runner func(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome

func (f runner) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	return f(ctx, job, started)
}

// Unreported returns none.
func (runner) Unreported(context.Context, string) ([]string, error) { return nil, nil }
