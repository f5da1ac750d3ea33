package simtest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// The supervisor looks for drift soon after its start and early on each day (UTC), with the configuration of that time.
// The log says when drift starts and ends, and the status has the latest result.
func TestDrift(t *testing.T) {
	OnlyInStorms(t)
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Forge.Issue("one")
		var mu sync.Mutex // guards the variables below
		var at []time.Time
		var were []*threads.Config
		before := time.Now().Add(time.Minute)
		l := w.Start(func(l *Life) {
			l.LookForDrift = func(_ context.Context, q supervisor.Drift) *control.Drift {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, q.At)
				were = append(were, q.Config(before), q.Config(q.At))
				return &control.Drift{At: q.At, Fits: len(at) != 2}
			}
		})
		w.Until(time.Hour, "merged", w.Forge.Done)
		next := slots(w.Config, 1)
		l.Reload(next, nil)
		time.Sleep(time.Minute)
		if d := l.Document(); d.Drift == nil || !d.Drift.Fits {
			t.Errorf("after the start: got drift %+v, want one that fits", d.Drift)
		}
		for day, want := range []bool{false, true} {
			time.Sleep(24 * time.Hour)
			if d := l.Document(); d.Drift.Fits != want {
				t.Errorf("day %d: got drift %+v, want fits = %t", day, d.Drift, want)
			}
			if d := l.Levels().Document.Drift; d == nil || d.Fits != want {
				t.Errorf("day %d: got drift %+v in the metrics, want fits = %t", day, d, want)
			}
		}
		l.Stop()
		w.Check()
		mu.Lock()
		defer mu.Unlock()
		if len(at) != 3 || at[1].Format(time.TimeOnly) != "00:05:00" || at[2].Sub(at[1]) != 24*time.Hour {
			t.Errorf("got looks at %v, want 3, daily at 00:05", at)
		}
		if len(were) == 6 && (were[2].Thread("llama").Slots != 2 || were[3].Thread("llama").Slots != 1) {
			t.Errorf("got %d slots, then %d, want 2, then 1", were[2].Thread("llama").Slots, were[3].Thread("llama").Slots)
		}
		if log := w.Log.String(); strings.Count(log, "no longer fits") != 1 || strings.Count(log, "can be judged") != 1 {
			t.Errorf("want one line each of \"no longer fits\" and \"can be judged\", got log:\n%s", log)
		}
	})
}
