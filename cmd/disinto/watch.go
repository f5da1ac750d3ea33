package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

// pace is when a watched status is read again.
type pace struct {
	rest  time.Duration // the least time between two readings: one claim is several events
	slow  time.Duration // the longest, for what no event tells, such as a scan
	clock time.Duration // between two pictures of the same status: ages are shown in seconds
}

var watchPace = pace{rest: 200 * time.Millisecond, slow: 5 * time.Second, clock: time.Second}

// watch shows the status until it is interrupted, and reads it again when something happened: redrawn on a terminal;
// elsewhere, and as JSON, printed whenever it is another one. On a terminal it stays when the supervisor goes: who watches
// wants to see it come back.
func (q *statusQuery) watch(ctx context.Context, p pace) error {
	t := q.c.terminal()
	redrawn := t.live() && !q.json
	if redrawn {
		_, _ = io.WriteString(t, enterScreen)
		defer func() { _, _ = io.WriteString(t, leaveScreen) }()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	news := make(chan struct{}, 1)
	go q.hear(ctx, p, news)
	var last json.RawMessage
	for {
		raw, at, err := q.read(ctx)
		draw := func() error { return nil }
		switch {
		case ctx.Err() != nil:
			return nil
		case redrawn:
			lost := err
			draw = func() error { return q.redraw(t, raw, q.at(at, lost), lost) }
			err = draw()
		case err == nil && !bytes.Equal(raw, last):
			if last != nil && !q.json {
				fmt.Fprintln(t)
			}
			last, err = raw, q.show(t, raw, at, false, 0)
		}
		if err != nil {
			return err
		}
		if err := p.wait(ctx, news, draw); err != nil {
			return err
		}
	}
}

// at is the time by which ages are shown: now, or when a supervisor that is gone wrote its state.
func (q *statusQuery) at(read time.Time, lost error) time.Time {
	if lost != nil {
		return read
	}
	return q.c.now()
}

// wait returns when it is time to read again. Meanwhile it draws what there is.
func (p pace) wait(ctx context.Context, news <-chan struct{}, draw func() error) error {
	slow := time.NewTimer(p.slow)
	defer slow.Stop()
	clock := time.NewTicker(p.clock)
	defer clock.Stop()
	rest := time.NewTimer(p.rest)
	defer rest.Stop()
	rested := (<-chan struct{})(nil) // news, once it is time for them
	for {
		select {
		case <-rest.C:
			rested = news
		case <-rested:
			return nil
		case <-slow.C:
			return nil
		case <-ctx.Done():
			return nil
		case <-clock.C:
			if err := draw(); err != nil {
				return err
			}
		}
	}
}

// hear sends news for each event of the supervisor, and when it begins or ends to tell any. Without a supervisor it asks
// for one again and again.
func (q *statusQuery) hear(ctx context.Context, p pace, news chan<- struct{}) {
	for ctx.Err() == nil {
		heard := func() {
			select {
			case news <- struct{}{}:
			default:
			}
		}
		q.client.Hear(ctx, heard)
		select {
		case <-ctx.Done():
		case <-time.After(p.slow):
		}
	}
}

// redraw shows what there is to show: a status, that of a supervisor which is gone, or why there is none.
func (q *statusQuery) redraw(t *terminal, raw json.RawMessage, at time.Time, err error) error {
	if raw == nil {
		return t.redraw(screen.Clean(err.Error()) + "\n")
	}
	_, height := t.size()
	return q.show(t, raw, at, err != nil, height)
}
