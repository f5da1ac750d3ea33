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

// pace is the timing of a watched document.
type pace struct {
	rest  time.Duration // least time between two reads: one claim causes several events
	slow  time.Duration // longest time between two reads: some changes, such as a scan, cause no event
	clock time.Duration // time between two redraws of the same document: it shows ages in seconds
}

var watchPace = pace{rest: 200 * time.Millisecond, slow: 5 * time.Second, clock: time.Second}

// watch shows the document until it is interrupted. On a terminal it redraws the screen, even while no supervisor runs,
// so that the user can watch a restart. Elsewhere, and as JSON, it prints each new document until the supervisor ends.
func (q *statusQuery) watch(ctx context.Context, p pace) error {
	t := q.c.terminal()
	redrawn := t.live() && !q.json
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if redrawn {
		_, _ = io.WriteString(t, enterScreen)
		defer func() { _, _ = io.WriteString(t, leaveScreen) }()
		defer q.c.onQuit(stop)()
	}
	news := make(chan struct{}, 1)
	go q.followEvents(ctx, p, news)
	var last json.RawMessage
	for {
		raw, at, err := q.read(ctx)
		draw := func() error { return nil }
		switch {
		case ctx.Err() != nil:
			return nil
		case redrawn:
			lost := err
			draw = func() error { return q.redraw(t, raw, q.ageBase(at, lost), lost) }
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

// ageBase returns the time for computing ages: now or, without a supervisor, when the last one saved its state.
func (q *statusQuery) ageBase(read time.Time, lost error) time.Time {
	if lost != nil {
		return read
	}
	return q.c.now()
}

// wait returns when it is time for the next read. Until then it redraws the current document.
func (p pace) wait(ctx context.Context, news <-chan struct{}, draw func() error) error {
	slow := time.NewTimer(p.slow)
	defer slow.Stop()
	clock := time.NewTicker(p.clock)
	defer clock.Stop()
	rest := time.NewTimer(p.rest)
	defer rest.Stop()
	var rested <-chan struct{} // news, after p.rest
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

// followEvents sends to news for each event of the supervisor, and when the stream of events starts or ends. It
// reconnects until ctx is done.
func (q *statusQuery) followEvents(ctx context.Context, p pace, news chan<- struct{}) {
	for ctx.Err() == nil {
		heard := func() {
			select {
			case news <- struct{}{}:
			default:
			}
		}
		q.client.Follow(ctx, heard)
		select {
		case <-ctx.Done():
		case <-time.After(p.slow):
		}
	}
}

// redraw shows a document, which may be the saved one of a supervisor that has ended, or the error if there is none.
func (q *statusQuery) redraw(t *terminal, raw json.RawMessage, at time.Time, err error) error {
	if raw == nil {
		return t.redraw(screen.Clean(err.Error()) + "\n")
	}
	_, height := t.size()
	return q.show(t, raw, at, err != nil, height)
}

// onQuit puts the terminal into raw mode, until restore, and calls leave when the user types q or Ctrl-C. In raw mode
// Ctrl-C arrives as a key and not as a signal.
func (c *cli) onQuit(leave func()) (restore func()) {
	f, ok := c.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return func() {}
	}
	go func() { // ends with the process, because a read from a terminal cannot be cancelled
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
