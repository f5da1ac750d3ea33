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
)

// A reload writes to the log and the status what it would have changed. The next reload ends an unfinished comparison
// without a result. A reload without changes is not compared.
func TestHindsight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Forge.Issue("one")
		var mu sync.Mutex // guards the variables below
		var list []supervisor.Hindsight
		slow := true
		asked := func() []supervisor.Hindsight {
			mu.Lock()
			defer mu.Unlock()
			return list
		}
		be := func(is bool) {
			mu.Lock()
			defer mu.Unlock()
			slow = is
		}
		l := w.Start(func(l *Life) {
			l.LookBack = func(ctx context.Context, q supervisor.Hindsight) (*control.Hindsight, error) {
				mu.Lock()
				list = append(list, q)
				runs, wait := len(list), slow
				mu.Unlock()
				began := time.Now()
				if wait {
					<-ctx.Done()
				}
				return &control.Hindsight{
					At: time.Now(), Whole: true, From: began, Until: began, Runs: runs,
					Merged: control.Compared{Was: 28, Is: 31, Differs: 1},
				}, nil
			}
		})
		w.Until(time.Hour, "merged", w.Forge.Done)
		w.Forge.Issue("two")
		time.Sleep(time.Minute)
		l.Reload(w.Config, nil)
		time.Sleep(10 * time.Second)
		if d := l.Document(); len(asked()) != 0 || d.Reload != nil {
			t.Errorf("without changes: got %d comparisons and result %+v, want none", len(asked()), d.Reload)
		}
		first, second := slots(w.Config, 1), slots(w.Config, 3)
		l.Reload(first, nil)
		time.Sleep(time.Second)
		be(false)
		l.Reload(second, nil)
		time.Sleep(time.Second)
		got := asked()
		if len(got) != 2 || got[0].Was != w.Config || got[0].Is != first || got[1].Was != first || got[1].Is != second {
			t.Fatalf("got %d comparisons, want 2", len(got))
		}
		if q := got[1]; len(q.Past) < 2 || len(q.Timeline.Merges) != 1 || len(q.Facts.Issues) != 1 {
			t.Errorf("got %d sessions, %d merges and %d issues to compare", len(q.Past), len(q.Timeline.Merges),
				len(q.Facts.Issues))
		}
		const line = "yesterday with this file: 31 merged instead of 28"
		if d := l.Document(); d.Reload == nil || d.Reload.Runs != 2 || d.Reload.Line() != line {
			t.Errorf("got status %+v, want 2 runs and the line %q", d.Reload, line)
		}
		if n := strings.Count(w.Log.String(), line); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, w.Log.String())
		}
		be(true)
		began := time.Now()
		l.Reload(first, nil)
		w.Until(6*time.Second, "the comparison is over", func() bool { return l.Document().Reload != nil })
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("got the result after %s, want at most 5s", took)
		}
		if Storms() {
			time.Sleep(25 * time.Hour)
			if d := l.Document(); d.Reload != nil {
				t.Error("the status still has the comparison after more than a day")
			}
		}
		l.Reload(second, nil)
		if took := l.Stop(); took > time.Second {
			t.Errorf("Stop during a comparison took %s, want at most 1s", took)
		}
		w.Check()
	})
}
