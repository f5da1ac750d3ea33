package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/threads"
)

// R1: a cycle every 300 s happens every 300 s on average, however late the ticks are. An earlier scheduler took 360.4
// s, because it counted from the time of the last actual cycle.
func TestCadence(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const every, cycles = threads.StealEvery, 100
	h := NewHub(nil, nil, nil)
	config := &threads.Config{Stealing: true}
	var first, last time.Time
	now := noon
	for n := 0; n <= cycles; {
		if h.Due(config, now) {
			if last = now; n == 0 {
				first = now
			}
			n++
		}
		now = now.Add(time.Minute + time.Duration(rng.Int64N(int64(200*time.Millisecond))))
	}
	if mean := last.Sub(first) / cycles; (mean - every).Abs() > time.Second {
		t.Errorf("a cycle every %s, want every %s", mean, every)
	}
	h.next = now.Add(time.Hour) // the clock was set back
	if h.Due(config, now); h.next.Sub(now) > every {
		t.Errorf("the next cycle is in %s, want at most the interval", h.next.Sub(now))
	}
}

// fakeSupervisor rebalances without agents: the test sets the findings of a cycle.
type fakeSupervisor struct {
	config    *threads.Config
	rebalance func(*Cycle) error
}

func (f *fakeSupervisor) Config() (*threads.Config, string) { return f.config, "own" }

func (f *fakeSupervisor) Document() *Document { return &Document{Instance: "own"} }

func (f *fakeSupervisor) Rebalance(_ context.Context, c *Cycle) (err error) { return f.rebalance(c) }

// Cycles run one after the other, however many are requested at once. The last twelve are shown, newest first, with
// the results of their moves. The caller gets a copy.
func TestCycles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Int64
		config := &threads.Config{Fleet: threads.Fleet{Hub: true, Hosts: []threads.Host{{Name: "iris"}}}}
		f := &fakeSupervisor{config: config}
		read := func(context.Context, threads.Host) ([]byte, error) { return nil, errors.New("no") }
		h := NewHub(f, read, hclog.NewNullLogger())
		f.rebalance = func(c *Cycle) error {
			if busy.Add(1) != 1 {
				t.Error("two cycles ran at once")
			}
			c.Moves = []Move{{Run: "run", State: MovePending}}
			h.RecordCycle(c)
			time.Sleep(time.Second)
			busy.Add(-1)
			return nil
		}
		got := make([]*Cycle, CycleLimit+3)
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() {
				var err error
				if got[i], err = h.Cycle(t.Context(), i == 0); err != nil {
					t.Error(err)
				}
				h.Status()
			})
		}
		all.Wait()
		h.RecordMoveEnd("run", MoveDone, "why")
		s := h.Status()
		if len(s.Cycles) != CycleLimit || !s.Cycles[0].At.After(s.Cycles[1].At) {
			t.Errorf("got %d cycles, want 12, newest first: %+v", len(s.Cycles), s.Cycles)
		}
		for _, c := range s.Cycles {
			if m := c.Moves[0]; m.State != MoveDone || m.StateWhy != "why" || c.Calls != 1 || c.TookMS != 1000 {
				t.Errorf("cycle %+v, want its move settled", c)
			}
		}
		if m := got[0].Moves[0]; m.State != MovePending {
			t.Errorf("the answer to the caller changed: %+v", m)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if h.Wake(); h.Wait(ctx) {
			t.Error("Wait returned true after the context ended")
		}
		f.rebalance = func(*Cycle) error { return errors.New("no forge") }
		if c, err := h.Cycle(t.Context(), false); c != nil || err == nil || len(h.Status().Cycles) != CycleLimit {
			t.Errorf("got %+v, %v, want an error and no new cycle", c, err)
		}
	})
}

// People are warned once when agents were idle beside busy ones for two cycles in a row, and not because of a dry
// run.
func TestStuck(t *testing.T) {
	h := NewHub(nil, nil, nil)
	idle, busy := []string{"a"}, []string{"b"}
	for i, tt := range []struct {
		c    Cycle
		want bool
	}{
		{Cycle{Idle: idle, Busy: busy}, false},
		{Cycle{Idle: idle, Busy: busy, DryRun: true}, false},
		{Cycle{Idle: idle, Busy: busy}, true},
		{Cycle{Idle: idle, Busy: busy}, false},
		{Cycle{Idle: idle}, false},
		{Cycle{Idle: idle, Busy: busy}, false},
		{Cycle{Idle: idle, Busy: busy, Moves: []Move{{}}}, false},
		{Cycle{Idle: idle, Busy: busy}, false},
		{Cycle{Idle: idle, Busy: busy}, true},
	} {
		if got := h.RecordCycle(&tt.c); got != tt.want {
			t.Errorf("cycle %d: Note = %t", i, got)
		}
	}
}
