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

// yesterdayTime is how long the answer of --yesterday may take.
const yesterdayTime = 10 * time.Second

// lookBack says what the file would have changed about the newest day, from the state directory alone. It is compared
// with the configuration that was decided with last or, where no decision is kept, with what happened.
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
		return fmt.Errorf("cannot play yesterday: %w", err)
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
