package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

// pace says when a watched document is read again.
type pace struct {
	rest  time.Duration // least time between two readings: one claim is several events
	slow  time.Duration // longest time between them: there are changes without an event, such as a scan
	clock time.Duration // between two pictures of the same document: ages are shown in seconds
}

var watchPace = pace{rest: 200 * time.Millisecond, slow: 5 * time.Second, clock: time.Second}

// watch shows the document until it is interrupted. On a terminal it is redrawn, also while no supervisor runs, so
// that a restart can be watched. Elsewhere, and as JSON, each new document is printed, until the supervisor ends.
func (q *statusQuery) watch(ctx context.Context, p pace) error {
	t := q.c.terminal()
	redrawn := t.live() && !q.json
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if redrawn {
		_, _ = io.WriteString(t, enterScreen)
		defer func() { _, _ = io.WriteString(t, leaveScreen) }()
		defer q.c.leaveOn(stop)()
	}
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

// at is the time from which ages count: now or, without a supervisor, when the last one wrote its state.
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
	var rested <-chan struct{} // news, once the rest is over
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

// hear sends news for each event of the supervisor, and when the stream of events begins or ends. It connects again
// and again until ctx is done.
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

// redraw shows a document, that of a supervisor which has ended, or why there is none.
func (q *statusQuery) redraw(t *terminal, raw json.RawMessage, at time.Time, err error) error {
	if raw == nil {
		return t.redraw(screen.Clean(err.Error()) + "\n")
	}
	_, height := t.size()
	return q.show(t, raw, at, err != nil, height)
}

// leaveOn calls leave when a person types q or Ctrl-C, until restore. The terminal hands over each key as it is typed,
// so Ctrl-C comes as a key and not as a signal.
func (c *cli) leaveOn(leave func()) (restore func()) {
	f, ok := c.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return func() {}
	}
	go func() { // it ends with the process: a read of a terminal cannot be taken back
		for key := make([]byte, 1); ; {
			if n, err := f.Read(key); err != nil || n == 0 {
				return
			}
			if key[0] == 'q' || key[0] == ctrlC {
				leave()
				return
			}
		}
	}()
	return func() { _ = term.Restore(int(f.Fd()), before) }
}

const ctrlC = 3
