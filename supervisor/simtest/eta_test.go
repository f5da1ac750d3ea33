package simtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// seer is a fixed forecast of the requested issues and of the first open ones: each starts an hour after a time that
// the test sets, and is merged an hour later.
type seer struct {
	mu    sync.Mutex
	from  time.Time
	asked int
	most  int // largest number of requested issues
}

func (s *seer) set(from time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from = from
}

func (s *seer) foresee(_ context.Context, q supervisor.Foresight) (*control.Forecast, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &control.Forecast{Items: []control.Expected{}}
	add := func(ref forge.Ref) {
		at := func(minutes int) time.Time { return s.from.Add(time.Duration(minutes) * time.Minute) }
		e := control.Expected{Repo: ref.Repo, Number: ref.Number}
		e.Start, e.Merged = control.Band{Low: at(60), High: at(120)}, control.Band{Low: at(120), High: at(180)}
		if f.Find(e.Repo, e.Number) == nil {
			f.Items = append(f.Items, e)
		}
	}
	for _, ref := range q.Refs {
		add(ref)
	}
	s.most = max(s.most, len(q.Refs))
	s.asked++
	q.View(func(snap threads.Snapshot) {
		n := 0
		for i := range snap.Facts.Issues {
			if is := &snap.Facts.Issues[i]; !is.Closed && n < q.Items {
				add(is.Ref)
				n++
			}
		}
	})
	return f, nil
}

// comments returns the comments with expected times, by issue, and the number of writes.
func (s *seer) comments(w *World) (said map[string]string, writes int) {
	kept, writes := w.Forge.Kept()
	said = make(map[string]string)
	for key, text := range kept {
		if ref, of, _ := strings.Cut(key, " "); strings.HasPrefix(of, forge.ETAKey) {
			said[ref] = text
		}
	}
	return said, writes
}

// TestETA follows an issue from the queue to its merge. Its comment changes only when its state or forecast changes,
// and a restart changes neither. With eta off, the comment never changes.
func TestETA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Factory.ETA = true
		s := &seer{from: time.Now()}
		with := func(l *Life) { l.Foresee = s.foresee }
		hold := func(labels ...string) {
			w.Forge.Edit(1, func(is *forge.Issue) { is.Labels = append(labels, forge.LabelBacklog) })
		}
		w.Forge.Issue("one")
		hold(forge.LabelNeedsHuman)
		l := w.Start(with)
		expect := func(when, words string, writes int) {
			t.Helper()
			time.Sleep(11 * time.Minute)
			said, n := s.comments(w)
			if len(said) != 1 || !strings.Contains(said["#1"], words) || writes > 0 && n != writes {
				t.Errorf("%s: got %d writes, %q, want one comment with %q", when, n, said, words)
			}
		}
		expect("it waits", "expects to start this between 2000-01-01 01:00 and 02:00 UTC, and to merge it between", 1)
		s.set(s.from.Add(15 * time.Minute))
		expect("a quarter later", "between 2000-01-01 01:00 and 02:00", 1)
		s.set(s.from.Add(time.Minute))
		expect("more than a quarter later", "between 2000-01-01 01:15 and 02:20", 2)
		l.Stop()
		l = w.Start(with)
		expect("after a restart", "between 2000-01-01 01:15 and 02:20", 2)
		hold()
		expect("a session runs", "disinto started this at 2000-01-01 00:4", 0)
		w.Until(time.Hour, "it is merged", w.Forge.Done)
		expect("it is merged", "It was merged at 2000-01-01 0", 0)
		_, writes := s.comments(w)
		w.Forge.Edit(1, func(is *forge.Issue) { is.Closed, is.Ended = false, time.Time{} })
		hold(forge.LabelNeedsHuman)
		l.Stop()
		w.Config.Factory.ETA = false
		l = w.Start(with)
		expect("the issue is open again, and eta is off", "It was merged at", writes)
		l.Stop()
		w.Check()
	})
}

// TestETABounds checks that of 100 issues only the first 60 get a comment, with at most 6 writes a minute, even if
// every forecast changes every minute. While the forge is down, three minutes have at most 12 attempts.
func TestETABounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Factory.ETA = true
		for i := range 100 {
			n := w.Forge.Issue(fmt.Sprint("issue ", i))
			w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = append(is.Labels, forge.LabelNeedsHuman) })
		}
		s := &seer{from: time.Now()}
		began, refused := time.Now(), atomic.Int64{}
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call != "keep" || time.Since(began) > 3*time.Minute {
				return nil
			}
			refused.Add(1)
			return fmt.Errorf("no route: %w", forge.ErrUnavailable)
		})
		l := w.Start(func(l *Life) { l.Foresee = s.foresee })
		time.Sleep(3*time.Minute + time.Second)
		if said, n := s.comments(w); n > 0 || refused.Load() == 0 || refused.Load() > 12 {
			t.Errorf("got %d comments while the forge was down: %q, in %d tries, want none in at most 12", n, said,
				refused.Load())
		}
		before := 0
		for i := range 11 {
			s.set(began.Add(time.Duration(i) * time.Hour))
			time.Sleep(time.Minute)
			said, n := s.comments(w)
			if n-before > 6 || n-before == 0 || len(said) > 60 {
				t.Errorf("minute %d: got %d writes and %d issues with a comment, want 1 to 6 and at most 60", i, n-before,
					len(said))
			}
			before = n
		}
		if said, _ := s.comments(w); len(said) != 60 || said["#1"] == "" || said["#60"] == "" {
			t.Errorf("got %d issues with a comment, want the first 60", len(said))
		}
		l.Stop()
		w.Check()
	})
}
