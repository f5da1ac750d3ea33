//go:build linux

package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// A forecast is made of at most forecastRuns runs and, where they take long, of leastRuns or more.
const (
	forecastRuns = 40
	leastRuns    = 8
)

// foresee plays the factory on from this moment many times, each time with other luck.
func foresee(ctx context.Context, q supervisor.Foresight) (*control.Forecast, error) {
	began := time.Now()
	model := sim.Learn(sim.Journal{Past: q.Past, Timeline: q.Timeline})
	var f *sim.Forecast
	answer := &control.Forecast{Sessions: len(q.Past), Items: []control.Expected{}}
	q.View(func(s threads.Snapshot) {
		f, answer.At = sim.NewForecast(s, model), s.Now
	})
	refs := q.Refs
	if len(refs) == 0 {
		refs = f.Front(q.Items)
	}
	if answer.Until = answer.At; len(refs) == 0 {
		return answer, nil
	}
	workers := runtime.GOMAXPROCS(0)
	if q.Quietly {
		workers = 1
	}
	near := f.Near(refs)
	enough := func(runs int) bool {
		return runs >= forecastRuns || runs >= leastRuns && time.Since(began) > q.Time || ctx.Err() != nil
	}
	runs := playOn(workers, enough, near.Run)
	for i := range runs {
		if runs[i].Until.After(answer.Until) {
			answer.Until = runs[i].Until
		}
	}
	answer.Runs = len(runs)
	for _, e := range near.Expect(runs) {
		answer.Items = append(answer.Items, control.Expected{
			Repo: e.Ref.Repo, Number: e.Ref.Number, Code: e.Code, Start: control.Band(e.Start), Merged: control.Band(e.Merged),
		})
	}
	return answer, ctx.Err()
}

// playOn plays run after run, several at once, until there are enough. They are sorted by their seeds.
func playOn(workers int, enough func(runs int) bool, play func(seed uint64) sim.Outcome) []sim.Outcome {
	var begun atomic.Int64
	var group sync.WaitGroup
	var mu sync.Mutex
	played := make(map[uint64]sim.Outcome)
	for range workers {
		group.Go(func() {
			for {
				seed := begun.Add(1) - 1
				if enough(int(seed)) {
					return
				}
				outcome := play(uint64(seed))
				mu.Lock()
				played[uint64(seed)] = outcome
				mu.Unlock()
			}
		})
	}
	group.Wait()
	runs := make([]sim.Outcome, 0, len(played))
	for seed := range uint64(begun.Load()) {
		if outcome, done := played[seed]; done {
			runs = append(runs, outcome)
		}
	}
	return runs
}
