//go:build linux

package main

import (
	"context"
	"time"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/hindsight"
	"codeberg.org/johba/disinto/threads/sim"
)

// lookForDrift compares the newest days of a journal with the simulator's expectations, until ctx is done.
func lookForDrift(ctx context.Context, q supervisor.Drift) *control.Drift {
	config := func(at time.Time) *threads.Config { return pretend(q.Config(at)) }
	journal := sim.Journal{Past: q.Past, Timeline: q.Timeline}
	d := hindsight.LookForDrift(journal, q.At, config, func() bool { return ctx.Err() != nil })
	found := &control.Drift{
		At: q.At, Fits: d.Fits(), Misses: d.Misses, Days: []control.DriftDay{}, Changes: []control.DriftChange{},
	}
	for _, f := range d.Days {
		found.Days = append(found.Days, control.DriftDay{
			Day: f.Begin.Format(time.DateOnly), Issues: f.Issues, Misses: f.Misses, Half: waitOf(f.Half, f.RealHalf),
			Most: waitOf(f.Most, f.RealMost),
		})
	}
	for _, c := range d.Changes {
		found.Changes = append(found.Changes, control.DriftChange{
			Kind: string(c.Kind), What: c.What, Was: c.Was, Is: c.Is, Times: c.Times,
		})
	}
	return found
}

func waitOf(b hindsight.Band, real time.Duration) control.DriftWait {
	return control.DriftWait{
		Low: b.Low.Seconds(), Middle: b.Middle.Seconds(), High: b.High.Seconds(), Real: real.Seconds(),
	}
}
