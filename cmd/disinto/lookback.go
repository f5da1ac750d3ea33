//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/hindsight"
	"codeberg.org/johba/disinto/threads/sim"
)

// lookBackRuns is the largest number of simulations of a day under each configuration.
const lookBackRuns = 20

// errNoWork is the error for a journal without work that a simulation can replay.
var errNoWork = errors.New("the journal has no work on an issue yet")

// lookBack replays the newest day of a journal under two configurations, until ctx is done.
func lookBack(ctx context.Context, q supervisor.Hindsight) (*control.Hindsight, error) {
	y := hindsight.NewYesterday(sim.Journal{Past: q.Past, Timeline: q.Timeline}, &q.Facts, q.Was, q.Is)
	if y == nil {
		return nil, errNoWork
	}
	enough := func() bool { return ctx.Err() != nil }
	for seed := range uint64(lookBackRuns) {
		if !y.Run(seed, enough) {
			break
		}
	}
	d := y.Difference()
	return &control.Hindsight{
		At: time.Now(), From: d.From, Until: d.Until, Whole: d.Whole, Runs: d.Runs, Few: d.Few, Lived: d.Lived,
		Merged: control.Compared{Was: d.Was.Merged, Is: d.Is.Merged, Differs: d.Merged},
		Wait:   control.Compared{Was: d.Was.Wait.Seconds(), Is: d.Is.Wait.Seconds(), Differs: d.Wait},
		USD:    control.Compared{Was: d.Was.USD, Is: d.Is.USD, Differs: d.USD}, Unknown: d.Unknown,
	}, nil
}
