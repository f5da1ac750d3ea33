package supervisor

import (
	"context"
	"net/url"
	"sync/atomic"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

const (
	// forecastTime is how long the runs of a forecast may take that a person asks for.
	forecastTime = 200 * time.Millisecond
	// foresightAge is as old as merges are that a forecast learns from: a journal remembers no older sessions.
	foresightAge = 30 * 24 * time.Hour
	// outlookRest is the time between two forecasts of the queue, outlookAge is how old one may become while nothing
	// changes, and outlookItems is how much of the queue they tell.
	outlookRest  = time.Minute
	outlookAge   = 10 * time.Minute
	outlookItems = 10
)

// Foresight is a forecast that is asked for.
type Foresight struct {
	Refs     []forge.Ref
	Items    int             // not 0: what runs too, and so many items of the front of the queue
	Time     time.Duration   // of the runs
	Past     []ledger.Past   // at most ledger.PastLimit
	Timeline ledger.Timeline // of as many days
	// View runs f on a snapshot of this moment, whose maps f must not keep.
	View func(f func(threads.Snapshot))
}

// outlook is the newest forecast of the queue.
type outlook struct {
	newest atomic.Pointer[control.Forecast]
}

// forecast answers GET /v1/forecast: of one item, or without ?ref= the newest of what runs and waits.
func (s *Supervisor) forecast(ctx context.Context, query url.Values) (*control.Forecast, error) {
	if err := s.noConfig(); err != nil {
		return nil, err
	}
	if s.Foresee == nil {
		return nil, control.NotFound("this supervisor makes no forecasts")
	}
	said := query.Get("ref")
	if said == "" {
		if f := s.outlook.newest.Load(); f != nil {
			return f, nil
		}
		return nil, control.NotNow("not now: the first forecast is made a minute after the start")
	}
	item, err := s.item("", said)
	if err != nil {
		return nil, err
	}
	why, err := s.whyItem(item)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	f := &control.Forecast{At: now, Items: []control.Expected{}}
	if why.Code != threads.Closed {
		f, err = s.foresee(ctx, Foresight{Refs: []forge.Ref{item}, Time: forecastTime})
	}
	if err == nil {
		f.Why = &why
	}
	return f, err
}

// foresee has a forecast made from this moment on, by what the journal remembers. It needs a configuration.
func (s *Supervisor) foresee(ctx context.Context, q Foresight) (*control.Forecast, error) {
	now := time.Now()
	q.Past, q.Timeline, q.View = s.books.past(), s.books.timeline(now.Add(-foresightAge), now), s.view
	return s.Foresee(ctx, q)
}

// keepOutlook makes forecasts of the queue: one a minute, and one in ten while nothing changes.
func (s *Supervisor) keepOutlook(ctx context.Context) {
	if s.Foresee == nil {
		return
	}
	seen, last := int64(-1), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(outlookRest):
		}
		touches, now := s.touches.Load(), time.Now()
		if s.books.config() != nil && (touches != seen || now.Sub(last) >= outlookAge) {
			seen, last = touches, now
			s.safely("a forecast", func() { s.lookAhead(ctx) })
		}
	}
}

// lookAhead makes a forecast of the queue.
func (s *Supervisor) lookAhead(ctx context.Context) {
	f, err := s.foresee(ctx, Foresight{Items: outlookItems, Time: forecastTime})
	if err != nil {
		return // there is nothing to tell
	}
	s.outlook.newest.Store(f)
}
