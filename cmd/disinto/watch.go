package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// watchInterval is how often a watched status is read again. It is a question to the supervisor's memory, and ages
// are shown in seconds.
const watchInterval = time.Second

// watch shows the status until it is interrupted: redrawn on a terminal; elsewhere, and as JSON, printed anew
// whenever it is read.
func (q *statusQuery) watch(ctx context.Context) error {
	t := q.c.terminal()
	redrawn := t.live() && !q.json
	if redrawn {
		_, _ = io.WriteString(t, enterScreen)
		defer func() { _, _ = io.WriteString(t, leaveScreen) }()
	}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		height := 0
		if redrawn {
			_, height = t.size()
		}
		raw, at, err := q.read(ctx)
		switch {
		case raw != nil:
			if err := q.show(t, raw, at, err != nil, height); err != nil {
				return err
			}
		case redrawn:
			// Somebody who watches wants to see it come back.
			if err := t.redraw(clean(err.Error()) + "\n"); err != nil {
				return err
			}
		default:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if !redrawn && !q.json {
			fmt.Fprintln(t)
		}
	}
}
