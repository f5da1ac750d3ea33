package simtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// shims keep the commands of services, and their outcomes, while no supervisor runs.
type shims struct {
	m *machine

	mu   sync.Mutex // guards the field below
	runs map[string]*shimmed
}

// shimmed is a command of a service.
type shimmed struct {
	end  context.CancelFunc
	done chan struct{}
	out  agents.Outcome
}

func (s *shims) find(run string) *shimmed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[run]
}

// start returns once the machine has logged the command, so that no test sees a service whose start is not logged yet.
func (s *shims) start(job agents.Job) {
	ctx, end := context.WithCancel(context.Background())
	x := &shimmed{end: end, done: make(chan struct{})}
	s.mu.Lock()
	s.runs[job.RunID] = x
	s.mu.Unlock()
	began := make(chan struct{})
	go func() {
		defer close(x.done)
		x.out = s.m.Run(ctx, job, func(agents.Started) { close(began) })
	}()
	<-began
}

// shimRunner is the runner of one life.
type shimRunner struct {
	*shims
	p *power
}

func (r *shimRunner) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	if job.Command != nil {
		_ = r.p.use("order", func() error { r.start(job); return nil })
	}
	x := r.find(job.RunID)
	if x == nil {
		return agents.Outcome{Result: agents.Lost, Reason: "nothing runs as " + job.RunID}
	}
	if r.p.off.Load() {
		return agents.Outcome{Result: agents.Lost, Reason: "dead"}
	}
	if started != nil {
		started(agents.Started{PID: 50, At: time.Now()})
	}
	select {
	case <-x.done:
	case <-r.p.life.Killed:
	case <-ctx.Done():
		if !r.p.off.Load() {
			x.end()
			<-x.done
		}
	}
	if r.p.use("took", func() error { return nil }) != nil {
		return agents.Outcome{Result: agents.Lost, Reason: "dead"}
	}
	return x.out
}

func (r *shimRunner) Unreported(context.Context, string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.runs)), nil
}

func (r *shimRunner) Forget(run string) {
	_ = r.p.use("forgot", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.runs, run)
		return nil
	})
}

// outlive returns a world with services that outlive their supervisor, and the option for each of its lives.
func outlive(t *testing.T) (*World, *machine, *shims, func(*Life)) {
	w, m := served(t)
	w.Config.Services = append(w.Config.Services, threads.Service{
		Name: "migrate", Command: []string{"prepare", "db"}, Oneshot: true,
	})
	w.Outlive()
	s := &shims{m: m, runs: make(map[string]*shimmed)}
	began := time.Now()
	return w, m, s, func(l *Life) { l.Runner, l.Probe, l.Started = &shimRunner{s, l.power}, m.probe, began }
}

// A supervisor is killed at every step of the start of its services. Each command runs once, and the next supervisor
// brings the services up and can end them.
func TestServicesGoOn(t *testing.T) {
	for call, most := range map[string]int{"synced": 14, "order": 4, "took": 2, "forgot": 2} {
		for n := 1; n <= most; n++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/after=%v", call, n, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { servicesGoOn(t, call, n, after) })
				})
			}
		}
	}
}

func servicesGoOn(t *testing.T, call string, n int, after bool) {
	w, m, s, in := outlive(t)
	l := w.Start(in, KillAt(call, n, after))
	select {
	case <-l.Killed:
	case <-time.After(time.Minute):
		l.Kill() // its other goroutines were slower, and wrote fewer records
	}
	l.Bury()
	time.Sleep(time.Second)
	l = w.Start(in)
	w.Until(time.Minute, "all are usable", func() bool {
		return state(l, "gpu").State == "ready" && state(l, "llama").State == "ready" && state(l, "migrate").State == "done"
	})
	synctest.Wait()
	want := []string{"gpu starts", "llama starts", "prepare db prepares", "prepare prepares"}
	if got := slices.Sorted(slices.Values(m.log())); !slices.Equal(got, want) {
		t.Errorf("got services %q, want each command once\n%s", got, w.Log.String())
	}
	if d := state(l, "llama"); d.Restarts != 0 || d.Fails != 0 || d.PID != 50 || d.Changed {
		t.Errorf("got %+v, want process 50, no restart and no failure", d)
	}
	l.Stop()
	if got := m.log(); !slices.Equal(got[4:], []string{"llama ends", "gpu ends"}) || len(s.runs) > 0 {
		t.Errorf("after the stop: got %q and the runs %v, want two ends and none", got, s.runs)
	}
}

// A supervisor that is stopped while it starts ends the sessions and services that it has found.
func TestStopWhileAdopting(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, m, s, in := outlive(t)
			w.Forge.Issue("one")
			l := w.Start(in)
			w.Until(2*time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
			time.Sleep(10 * time.Second)
			l.Kill()
			l.Bury()
			l = w.Start(in)
			time.Sleep(after)
			l.Stop()
			if got := m.log(); !slices.Equal(got[4:], []string{"llama ends", "gpu ends"}) || len(s.runs) > 0 {
				t.Errorf("stopped after %s: got services %q and the runs %v, want two ends and none", after, got, s.runs)
			}
			if r := w.Exec.Runs()[0]; r.Outcome.Result != agents.Cancelled {
				t.Errorf("stopped after %s: got session %+v, want it cancelled", after, r.Outcome)
			}
		})
	}
}

// What a service has done counts only while the container's init lives: in the next container it starts anew.
func TestServicesOfNextContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m, s, in := outlive(t)
		l := w.Start(in)
		w.Until(time.Minute, "it is ready", func() bool { return state(l, "llama").State == "ready" })
		l.Kill()
		l.Bury()
		for _, x := range s.runs {
			x.end()
		}
		time.Sleep(2 * time.Second)
		s.runs = make(map[string]*shimmed)
		l = w.Start(in, func(l *Life) { l.Started = time.Now() })
		w.Until(time.Minute, "it is ready", func() bool { return state(l, "llama").State == "ready" })
		got := slices.DeleteFunc(m.log(), func(line string) bool { return strings.HasSuffix(line, "ends") })
		slices.Sort(got)
		want := []string{
			"gpu starts", "gpu starts", "llama starts", "llama starts", "prepare db prepares", "prepare db prepares",
			"prepare prepares", "prepare prepares",
		}
		if !slices.Equal(got, want) || state(l, "llama").Restarts != 0 {
			t.Errorf("got services %q, want everything twice", got)
		}
		l.Stop()
	})
}

// A supervisor that starts with another configuration continues the services as they run: it shows what changed, and
// ends what is gone. Without a valid configuration it waits for one.
func TestServicesUnderNewConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m, _, in := outlive(t)
		l := w.Start(in)
		w.Until(time.Minute, "it is ready", func() bool { return state(l, "llama").State == "ready" })
		l.Kill()
		l.Bury()
		was := *w.Config
		l = w.Start(in, func(l *Life) { l.Config, l.Forge, l.ConfigError = nil, nil, errors.New("no") })
		time.Sleep(time.Minute)
		if got := m.log(); len(got) != 4 {
			t.Errorf("without a configuration: got services %q, want no change", got)
		}
		m.say(health, "503 Service Unavailable")
		l.Reload(&was, newClient(w.Forge, home, home, l.power.use))
		w.Until(20*time.Second, "it is asked", func() bool { return state(l, "llama").State == "silent" })
		if d := state(l, "llama"); d.Changed {
			t.Errorf("got %+v, want no change", d)
		}
		m.say(health, "")
		l.Kill()
		l.Bury()
		w.Config.Services = []threads.Service{{Name: "llama", Command: []string{"llama", "-np", "4"}, ReadyURL: health}}
		l = w.Start(in)
		time.Sleep(time.Second)
		w.Until(20*time.Second, "gpu is gone", func() bool { return len(l.Document().Services) == 1 })
		if d := state(l, "llama"); d.State != "ready" || !d.Changed {
			t.Errorf("got %+v, want ready and changed", d)
		}
		l.Stop()
		if got := m.log(); !slices.Equal(got[4:], []string{"gpu ends", "llama ends"}) {
			t.Errorf("got services %q, want the end of gpu and then of llama", got)
		}
		text, err := os.ReadFile(filepath.Join(w.Dir, "journal.jsonl"))
		if err != nil || !strings.Contains(string(text), `"name":"gpu","life":`) || !strings.Contains(string(text), `"gone":true`) {
			t.Errorf("the journal does not say that gpu is gone: %v", err)
		}
	})
}

// A service that is ended because it hangs has failed, also if its supervisor is killed meanwhile.
func TestHungServiceHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m, _, in := outlive(t)
		m.deaf = map[string]bool{"llama": true}
		l := w.Start(in)
		w.Until(time.Minute, "it is ready", func() bool { return state(l, "llama").State == "ready" })
		m.say(health, "503 Service Unavailable")
		w.Until(5*time.Minute, "it is ended", func() bool { return state(l, "llama").State == "ending" })
		l.Kill()
		l.Bury()
		l = w.Start(in)
		w.Until(time.Minute, "it has failed", func() bool { return state(l, "llama").Fails == 1 })
		m.say(health, "")
		l.Stop()
	})
}
