package supervisor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

// As long as a plan holds, a new one would be the same: at each call of the forge and every few seconds. The worlds
// have limits of every kind, room that comes and goes, outages, refusals, usage limits, people and reloads.
func TestReusedPlanEqualsFresh(t *testing.T) {
	for seed := range uint64(simtest.Size(60, 2)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playReuse(t, seed) })
		})
	}
}

// playReuse plays some hours of one world.
func playReuse(t *testing.T, seed uint64) {
	w := simtest.New(t)
	d := &dice{rng: rand.New(rand.NewPCG(seed, 3))}
	limited(w, d)
	var memory atomic.Int64
	memory.Store(1 << 40)
	l := w.Start(func(l *simtest.Life) {
		l.Room = func(string) threads.Room { return threads.Room{Memory: memory.Load(), Disk: 1 << 40} }
	})
	var held atomic.Int64
	check := func() {
		differs, holds := l.PlanDiffers()
		if holds {
			held.Add(1)
		}
		if differs != "" && !t.Failed() {
			t.Errorf("world %d: %s", seed, differs)
		}
	}
	w.Forge.Fail(func(context.Context, string) error { check(); return nil })
	for range simtest.Size(120, 30) {
		meddle(w, l, d, &memory, check)
		for range 1 + d.n(120) {
			time.Sleep(5 * time.Second)
			check()
		}
	}
	w.Forge.Fail(nil)
	l.Stop()
	if held.Load() < 1000 {
		t.Errorf("world %d: %d plans held, want more", seed, held.Load())
	}
}

// limited gives a world limits and agents with bad habits.
func limited(w *simtest.World, d *dice) {
	w.Usual()
	w.Config.Factory.MinFreeMemory = 1 << 30
	api, llama := &w.Config.Threads[0], &w.Config.Threads[1]
	api.Budget = agents.Budget{Tokens: 20_000}
	api.Windows, api.Reserve = []threads.Window{{Length: time.Hour, Budget: agents.Budget{Tokens: 5000}}}, 0.3
	llama.Windows = []threads.Window{{Length: time.Hour, Budget: agents.Budget{Tokens: 20_000}}}
	llama.Hold = 4 * time.Minute
	w.Config.Agents[0].Budget = agents.Budget{Tokens: 40_000}
	w.Config.Role("dev").PerIssue.Tokens = 15_000
	w.Config.Roles = append(w.Config.Roles, agents.Role{
		Name: "tidy", On: agents.OnSchedule, Priority: 5, Every: time.Hour, Command: []string{"work"},
		Timeout: time.Hour, Stall: 15 * time.Minute,
	})
	w.Config.Agents[1].Roles = append(w.Config.Agents[1].Roles, "tidy")
	w.Exec.Script = func(job agents.Job, n int) simtest.Script {
		sc := w.Work(job, n)
		sc.Takes = time.Duration(1+d.n(900)) * time.Second
		sc.Turn, sc.Uses = 10*time.Second, agents.Usage{InputTokens: int64(d.n(300))}
		switch d.n(12) {
		case 0:
			sc.Do, sc.Outcome = nil, agents.Outcome{Result: agents.Failed, Reason: "exit status 1"}
		case 1:
			sc.Do, sc.Outcome = nil, agents.Outcome{Result: agents.Limited, Reason: "usage limit"}
		case 2:
			sc.Do, sc.Outcome = nil, agents.Outcome{Result: agents.BackendDown, Reason: "no answer"}
		case 3:
			if job.Kind == agents.KindReview {
				sc.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
			}
		}
		return sc
	}
}

// meddle lets something happen outside of the supervisor, and calls check at each call of the forge.
func meddle(w *simtest.World, l *simtest.Life, d *dice, memory *atomic.Int64, check func()) {
	fail := func(err error, calls ...string) {
		w.Forge.Fail(func(_ context.Context, call string) error {
			check()
			if slices.Contains(calls, call) && d.n(2) == 0 {
				return err
			}
			return nil
		})
	}
	switch d.n(9) {
	case 0, 1:
		w.Forge.Issue("another")
	case 2:
		memory.Store(int64(d.n(2)) << 40)
	case 3:
		fail(forge.ErrUnavailable, "scan", "merge", "claim", "look", "release", "label")
	case 4:
		fail(nil)
	case 5:
		w.Forge.SendBack()
	case 6:
		fail(forge.ErrConflict, "merge", "claim")
	case 7:
		if n := w.Forge.Issue("blocked by the next"); d.n(2) == 0 {
			w.Forge.Issue("after it", n)
		}
	case 8:
		c := *w.Config
		c.Forge.MaxUnreviewed = 1 + d.n(6)
		l.Reload(&c, nil)
		check()
	}
}

// dice are random numbers for the goroutines of a world.
type dice struct {
	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// Twenty threads decide once after each scan in which nothing has changed, not once each.
func TestOncePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		like := w.Config.Threads[1]
		for i := range 18 {
			more := like
			more.Name, more.Agents = fmt.Sprint("more-", i), nil
			w.Config.Threads = append(w.Config.Threads, more)
		}
		w.Usual()
		n := w.Forge.Issue("waits")
		w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = append(is.Labels, forge.LabelBlocked) })
		decisions := 0
		l := w.Start(func(l *simtest.Life) {
			l.Decide = func(s threads.Snapshot) threads.Plan {
				decisions++
				return threads.Decide(s)
			}
		})
		time.Sleep(time.Hour)
		l.Stop()
		if scans := 60 * 60 / 30; decisions > scans+5 {
			t.Errorf("got %d decisions in an hour with a scan every 30 s, want one for each scan", decisions)
		}
	})
}
