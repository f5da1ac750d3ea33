package simtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// At every moment, status and why give the same reason for each item, and status has every open item: beside writes of
// ours that no scan has shown, in an outage, and after commands. They differed for a second after each write.
func TestStatusAndWhyTellOneStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		objectOnce(w)
		w.Usual()
		work := w.Exec.Script
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := work(job, n)
			s.Takes /= 40
			return s
		}
		w.Forge.Latency, w.Forge.Lag = 300*time.Millisecond, 100*time.Millisecond
		w.Forge.Issue("two")
		w.Forge.Issue("three", 1)
		w.Forge.Issue("four")
		w.Forge.Edit(w.Forge.Issue("five"), func(is *forge.Issue) { is.Labels = append(is.Labels, forge.LabelNeedsHuman) })
		var down atomic.Bool
		w.Forge.Fail(func(_ context.Context, call string) error {
			if down.Load() {
				return fmt.Errorf("%s: connection refused: %w", call, forge.ErrUnavailable)
			}
			return nil
		})
		l := w.Start()
		w.Until(time.Minute, "a session", func() bool { return len(w.Exec.Runs()) > 0 })
		for i := range 4 * 150 {
			time.Sleep(250 * time.Millisecond)
			if i%(4*21) == 0 { // each time in the midst of other work
				down.Store(!down.Load() && i > 0)
			}
			compare(t, l, int64(4+len(w.Forge.Pulls())))
		}
		if n := len(w.Exec.Runs()); n < 8 {
			t.Errorf("got %d sessions, want at least 8, so that something was compared", n)
		}
		l.Stop()
	})
}

// compare compares status and why of each item up to a number.
func compare(t *testing.T, l *Life, last int64) {
	t.Helper()
	synctest.Wait()
	at, d := time.Now(), l.Document()
	for n := int64(1); n <= last; n++ {
		r := httptest.NewRecorder()
		l.Handler().ServeHTTP(r, httptest.NewRequest("GET", fmt.Sprintf("/v1/why?ref=%d", n), nil))
		var ex threads.Explanation
		if err := json.Unmarshal(r.Body.Bytes(), &ex); err != nil {
			t.Fatalf("why %d: %v in the answer %s", n, err, r.Body)
		}
		// It asked the forge about an item that was not read, or is closed.
		if !time.Now().Equal(at) || r.Code != 200 || ex.Code == threads.Closed {
			synctest.Wait()
			at, d = time.Now(), l.Document()
			continue
		}
		said := ""
		for _, q := range append(d.Queue, d.Unqueued...) {
			if q.Number == n {
				said = q.Why
			}
		}
		for _, x := range d.Sessions {
			if x.Number == n {
				said = x.Agent + " works on it"
			}
		}
		if said == "" || !strings.Contains(ex.Verdict, said) {
			t.Errorf("%s: #%d: status says %q, why %q", at.Format(time.TimeOnly), n, said, ex.Verdict)
		}
	}
}

// A supervisor that starts while the forge does not answer shows what waited before, with its date. It showed only
// what needed a person.
func TestRestartInAnOutageKeepsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		w.Forge.Issue("two", 1)
		l := w.Start()
		w.Until(time.Hour, "it waits", func() bool { return len(l.Document().Queue) == 1 })
		w.Forge.Fail(func(context.Context, string) error { return forge.ErrUnavailable })
		for range 2 {
			l.Stop()
			l = w.Start()
			time.Sleep(10 * time.Minute)
			d := l.Document()
			if len(d.Queue) != 2 || strings.Count(d.Queue[0].Why+d.Queue[1].Why, "the forge is not read") != 2 {
				t.Fatalf("got %+v, want both issues with what was known", d.Queue)
			}
			compare(t, l, 2)
		}
		w.Forge.Fail(nil)
		w.Until(time.Hour, "all are merged", w.Forge.Done)
		l.Stop()
	})
}
