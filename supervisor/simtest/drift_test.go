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

// Drift is looked for soon after the start and early on each day of UTC, with the configuration of the time. The log
// says when it begins and ends, and the status what was found last.
func TestDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		var mu sync.Mutex // guards what follows
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
			t.Errorf("after the start: %+v", d.Drift)
		}
		for day, want := range []bool{false, true} {
			time.Sleep(24 * time.Hour)
			if d := l.Document(); d.Drift.Fits != want {
				t.Errorf("on day %d: %+v", day, d.Drift)
			}
			if d := l.Levels().Document.Drift; d == nil || d.Fits != want {
				t.Errorf("metrics of day %d: %+v", day, d)
			}
		}
		l.Stop()
		w.Check()
		mu.Lock()
		defer mu.Unlock()
		if len(at) != 3 || at[1].Format(time.TimeOnly) != "00:05:00" || at[2].Sub(at[1]) != 24*time.Hour {
			t.Errorf("looked at %v", at)
		}
		if len(were) == 6 && (were[2].Thread("llama").Slots != 2 || were[3].Thread("llama").Slots != 1) {
			t.Errorf("with %d slots, then %d", were[2].Thread("llama").Slots, were[3].Thread("llama").Slots)
		}
		if log := w.Log.String(); strings.Count(log, "no longer fits") != 1 || strings.Count(log, "can be judged") != 1 {
			t.Errorf("the log says %s", log)
		}
	})
}
