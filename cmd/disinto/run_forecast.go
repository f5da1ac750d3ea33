//go:build linux

package main

import (
	"context"
	"slices"
	"time"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// A forecast has forecastRuns runs, or fewer if they take long, but at least leastRuns.
const (
	forecastRuns = 40
	leastRuns    = 8
)

// forecast simulates the factory from now on many times, each time with another random seed.
func forecast(ctx context.Context, q supervisor.Foresight) (*control.Forecast, error) {
	began := time.Now()
	model := sim.Learn(sim.Journal{Past: q.Past, Timeline: q.Timeline})
	var f *sim.Forecast
	answer := &control.Forecast{Sessions: len(q.Past), Items: []control.Expected{}}
	q.View(func(s threads.Snapshot) {
		f, answer.At = sim.NewForecast(s, model), s.Now
	})
	refs := slices.Clone(q.Refs)
	if q.Items > 0 {
		for _, ref := range f.Front(q.Items) {
			if !slices.Contains(refs, ref) {
				refs = append(refs, ref)
			}
		}
	}
	if len(refs) == 0 {
		return answer, nil
	}
	near := f.Near(refs)
	var runs []sim.Outcome
	for len(runs) < leastRuns || len(runs) < forecastRuns && time.Since(began) < q.Time {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		runs = append(runs, near.Run(uint64(len(runs))))
	}
	answer.Until, answer.Runs = near.Until(runs), len(runs)
	for _, e := range near.Expect(runs) {
		answer.Items = append(answer.Items, control.Expected{
			Repo: e.Ref.Repo, Number: e.Ref.Number, Code: e.Code, Start: control.Band(e.Start), Merged: control.Band(e.Merged),
		})
	}
	return answer, nil
}
