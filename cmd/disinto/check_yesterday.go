//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/decisions"
)

// yesterdayTime limits the simulations of --yesterday.
const yesterdayTime = 10 * time.Second

// lookBack reports what FILE would have changed on the newest day of the journal. It compares FILE with the
// configuration of the last decision or, if no decisions are kept, with the real events. It reads only files.
func (k *checker) lookBack(ctx context.Context) error {
	config, err := pretended(k.place.configFile(), k.c)
	if err != nil {
		return err
	}
	state := k.place.stateDir(k.c)
	q := supervisor.Hindsight{Is: config}
	if q.Past, q.Timeline, err = leftJournal(state); err != nil {
		return fmt.Errorf("cannot read the journal of the factory: %w", err)
	}
	if was, err := decisions.Newest(state); err == nil {
		q.Was, q.Facts = pretend(was.Config), was.Facts
	}
	ctx, cancel := context.WithTimeout(ctx, yesterdayTime)
	defer cancel()
	found, err := lookBack(ctx, q)
	if err != nil {
		return fmt.Errorf("cannot replay yesterday: %w", err)
	}
	drift := lookForDrift(ctx, supervisor.Drift{
		At: k.c.now(), Past: q.Past, Timeline: q.Timeline, Config: supervisor.ConfigAt(state, config),
	})
	lines := []screen.Finding{
		{About: "yesterday", Text: found.Line()}, {About: "drift", Text: drift.Line(), Note: !drift.Fits},
	}
	document := struct {
		*control.Hindsight
		Drift *control.Drift `json:"drift"`
	}{found, drift}
	return k.c.print(k.json, document, func(v screen.View) string { return v.Findings(lines) })
}
