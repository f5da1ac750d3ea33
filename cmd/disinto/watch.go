package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// watchInterval is how often a watched status is read again. It is a question to the supervisor's memory, and ages
// are shown in seconds.
const watchInterval = time.Second

// watch shows the status until it is interrupted: redrawn on a terminal; elsewhere, and as JSON, printed whenever it
// is another one. On a terminal it stays when the supervisor goes: who watches wants to see it come back.
func (q *statusQuery) watch(ctx context.Context, every time.Duration) error {
	t := q.c.terminal()
	redrawn := t.live() && !q.json
	if redrawn {
		_, _ = io.WriteString(t, enterScreen)
		defer func() { _, _ = io.WriteString(t, leaveScreen) }()
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last json.RawMessage
	for {
		raw, at, err := q.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case redrawn:
			err = q.redraw(t, raw, at, err)
		case err == nil && !bytes.Equal(raw, last):
			if last != nil && !q.json {
				fmt.Fprintln(t)
			}
			last, err = raw, q.show(t, raw, at, false, 0)
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// redraw shows what there is to show: a status, that of a supervisor which is gone, or why there is none.
func (q *statusQuery) redraw(t *terminal, raw json.RawMessage, at time.Time, err error) error {
	if raw == nil {
		return t.redraw(clean(err.Error()) + "\n")
	}
	_, height := t.size()
	return q.show(t, raw, at, err != nil, height)
}
