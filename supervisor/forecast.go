package supervisor

import (
	"context"
	"net/url"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

const (
	// forecastTime bounds the simulation runs of a forecast that a person requests.
	forecastTime = 200 * time.Millisecond
	// foresightAge is the age of the oldest merges from which a forecast learns: a journal keeps no older sessions.
	foresightAge = 30 * 24 * time.Hour
	// outlookRest is the time between two forecasts of the queue. outlookAge is the maximum age of a forecast while
	// nothing changes. outlookItems is the number of queued items in it.
	outlookRest  = time.Minute
	outlookAge   = 10 * time.Minute
	outlookItems = 10
)

// forecast answers GET /v1/forecast: for one item, or without ?ref= the newest forecast of the running and waiting
// items.
func (h *history) forecast(ctx context.Context, query url.Values) (*control.Forecast, error) {
	if err := h.noConfig(); err != nil {
		return nil, err
	}
	if h.simulate == nil {
		return nil, control.NotFound("this supervisor makes no forecasts")
	}
	said := query.Get("ref")
	if said == "" {
		if f := h.outlook.Load(); f != nil {
			return f, nil
		}
		return nil, control.NotNow("not now: the first forecast is made a minute after the start")
	}
	item, err := h.item("", said)
	if err != nil {
		return nil, err
	}
	why, err := h.whyItem(ctx, item.String(), item)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	f := &control.Forecast{At: now, Items: []control.Expected{}}
	if why.Code != threads.Closed {
		f, err = h.foresee(ctx, Foresight{Refs: []forge.Ref{item}, Time: forecastTime})
	}
	if err == nil {
		f.Why = &why
	}
	return f, err
}

// foresee makes a forecast from now on, from the journal's past. It needs a configuration.
func (h *history) foresee(ctx context.Context, q Foresight) (*control.Forecast, error) {
	now := time.Now()
	q.Past, q.Timeline, q.View = h.state.past(), h.state.timeline(now.Add(-foresightAge), now), h.view
	return h.simulate(ctx, q)
}

// keepOutlook makes a forecast of the queue every minute, and every ten minutes while nothing changes.
func (h *history) keepOutlook(ctx context.Context) {
	if h.simulate == nil {
		return
	}
	seen, last := int64(-1), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(outlookRest):
		}
		touches, now := h.touches.Load(), time.Now()
		if h.state.config() != nil && (touches != seen || now.Sub(last) >= outlookAge) {
			seen, last = touches, now
			h.safely("a forecast", func() { h.lookAhead(ctx) })
		}
	}
}

// lookAhead makes a forecast of the queue.
func (h *history) lookAhead(ctx context.Context) {
	f, err := h.foresee(ctx, Foresight{Items: outlookItems, Time: forecastTime})
	if err != nil {
		return // no forecast is possible now
	}
	h.outlook.Store(f)
}
