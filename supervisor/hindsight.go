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
	// hindsightTime is how long a comparison of two configurations may take.
	hindsightTime = 4 * time.Second
	// hindsightAge is how long the status tells of it.
	hindsightAge = 24 * time.Hour
)

// Hindsight asks what a configuration would have changed about the newest day of the journal.
type Hindsight struct {
	Was, Is  *threads.Config
	Past     []ledger.Past   // at most ledger.PastLimit
	Timeline ledger.Timeline // of as many days
	Facts    forge.Facts     // with the issues that wait
}

// hindsight compares the configuration of the newest reload with the one before.
type hindsight struct {
	asked chan struct{} // there is something to compare, with room for one

	mu      sync.Mutex // guards what follows
	was, is *threads.Config
	drop    context.CancelFunc // ends the comparison under way; nil without one
	newest  *control.Hindsight
}

// ask has two configurations compared, instead of any two before them.
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

// take returns what is to be compared, until ctx is done.
func (h *hindsight) take(ctx context.Context) (q Hindsight, within context.Context, over func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	within, h.drop = context.WithTimeout(ctx, hindsightTime)
	return Hindsight{Was: h.was, Is: h.is}, within, h.drop
}

// keep keeps a comparison, unless another was asked for meanwhile. It reports whether it did.
func (h *hindsight) keep(q *Hindsight, found *control.Hindsight) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.Is != h.is {
		return false
	}
	h.newest = found
	return true
}

// document is the newest comparison; nil where there is none of this day.
func (h *hindsight) document(now time.Time) *control.Hindsight {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.newest == nil || now.Sub(h.newest.At) > hindsightAge {
		return nil
	}
	return h.newest
}

// keepHindsight says after each reload what it would have changed, until ctx is done.
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

// compare compares the newest configuration with the one before it.
func (s *Supervisor) compare(ctx context.Context) {
	q, within, over := s.hindsight.take(ctx)
	defer over()
	now := time.Now()
	q.Past, q.Timeline = s.books.past(), s.books.timeline(now.Add(-foresightAge), now)
	s.view(func(snap threads.Snapshot) { q.Facts = snap.Facts }) // which is replaced, never changed
	found, err := s.LookBack(within, q)
	if err != nil || ctx.Err() != nil {
		return // the journal tells of no work yet, or all ends
	}
	if s.hindsight.keep(&q, found) {
		s.log.Info("configuration reloaded: " + found.Line())
		s.touchStatus()
	}
}
