package supervisor

import (
	"context"
	"reflect"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

const (
	// hindsightTime bounds a comparison of two configurations.
	hindsightTime = 4 * time.Second
	// hindsightAge is how long the status shows a comparison.
	hindsightAge = 24 * time.Hour
)

// Hindsight asks how another configuration would have changed the newest day of the journal.
type Hindsight struct {
	Was, Is  *threads.Config
	Past     []ledger.Past   // at most ledger.PastLimit
	Timeline ledger.Timeline // of the last foresightAge
	Facts    forge.Facts     // with the waiting issues
}

// hindsight compares the configuration of the newest reload with the previous one.
type hindsight struct {
	asked chan struct{} // 1-buffered: a comparison is due

	mu      sync.Mutex // guards the fields below
	was, is *threads.Config
	drop    context.CancelFunc // cancels the comparison under way; nil without one
	newest  *control.Hindsight
}

// ask requests a comparison of two configurations. It replaces an earlier request.
func (h *hindsight) ask(was, is *threads.Config) {
	if was == nil || reflect.DeepEqual(was, is) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.was, h.is, h.newest = was, is, nil; h.drop != nil {
		h.drop()
	}
	select {
	case h.asked <- struct{}{}:
	default:
	}
}

// take returns the requested comparison, with a context that bounds it.
func (h *hindsight) take(ctx context.Context) (q Hindsight, within context.Context, over func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	within, h.drop = context.WithTimeout(ctx, hindsightTime)
	return Hindsight{Was: h.was, Is: h.is}, within, h.drop
}

// keep stores a comparison, unless another was requested meanwhile. It reports whether it stored it.
func (h *hindsight) keep(q *Hindsight, found *control.Hindsight) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.Is != h.is {
		return false
	}
	h.newest = found
	return true
}

// document returns the newest comparison; nil if it is older than hindsightAge.
func (h *hindsight) document(now time.Time) *control.Hindsight {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.newest == nil || now.Sub(h.newest.At) > hindsightAge {
		return nil
	}
	return h.newest
}

// keepHindsight makes a comparison after each reload, until ctx is done.
func (s *Supervisor) keepHindsight(ctx context.Context) {
	if s.LookBack == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.hindsight.asked:
			s.safely("the comparison with the configuration before", func() { s.compare(ctx) })
		}
	}
}

// compare compares the newest configuration with the previous one.
func (s *Supervisor) compare(ctx context.Context) {
	q, within, over := s.hindsight.take(ctx)
	defer over()
	now := time.Now()
	q.Past, q.Timeline = s.books.past(), s.books.timeline(now.Add(-foresightAge), now)
	s.view(func(snap threads.Snapshot) { q.Facts = snap.Facts }) // facts are replaced, never changed
	found, err := s.LookBack(within, q)
	if err != nil || ctx.Err() != nil {
		return // the journal has no work yet, or the supervisor stops
	}
	if s.hindsight.keep(&q, found) {
		s.log.Info("configuration reloaded: " + found.Line())
		s.touchStatus()
	}
}
