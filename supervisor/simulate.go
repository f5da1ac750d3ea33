package supervisor

import (
	"cmp"
	"context"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

const (
	// simulateTime bounds a simulation, and adviseTime all simulations of an advice together.
	simulateTime, adviseTime = 10 * time.Second, time.Minute
	// simulateDays is the default number of days to simulate, and maxSimulateDays the maximum: the journal drops older
	// sessions.
	simulateDays    = 7
	maxSimulateDays = 30
)

// WhatIf is a person's request for a simulation.
type WhatIf struct {
	Ask      control.SimulateRequest // with Days filled in
	Config   *threads.Config         // in force
	Past     []ledger.Past           // at most ledger.PastLimit
	Timeline ledger.Timeline         // of the same days
	Facts    forge.Facts             // with the waiting issues
}

// simulate answers POST /v1/simulate. It changes nothing.
func (s *Supervisor) simulate(ctx context.Context, ask control.SimulateRequest) (*control.Simulation, error) {
	ask.Days = cmp.Or(ask.Days, simulateDays)
	return playPast(ctx, s, ask, s.Simulate, simulateTime)
}

// advise answers POST /v1/advise. It changes nothing.
func (s *Supervisor) advise(ctx context.Context, ask control.AdviceRequest) (*control.Advice, error) {
	days := cmp.Or(ask.Days, maxSimulateDays)
	return playPast(ctx, s, control.SimulateRequest{Days: days}, s.Advise, adviseTime)
}

// playPast replays the last days. Only one request runs at a time, because it takes a whole processor.
func playPast[T any](
	ctx context.Context, s *Supervisor, ask control.SimulateRequest,
	play func(context.Context, WhatIf) (*T, error), within time.Duration,
) (*T, error) {
	if err := s.noConfig(); err != nil {
		return nil, err
	}
	switch {
	case play == nil:
		return nil, control.NotFound("this supervisor has no simulator")
	case ask.Days < 1 || ask.Days > maxSimulateDays:
		return nil, control.Invalid("cannot simulate %d days: want 1 to %d", ask.Days, maxSimulateDays)
	case !s.simulating.CompareAndSwap(false, true):
		return nil, control.NotNow("not now: another simulation runs, for a minute at most")
	}
	defer s.simulating.Store(false)
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	now := time.Now()
	since := now.Add(-time.Duration(ask.Days) * 24 * time.Hour)
	q := WhatIf{Ask: ask, Config: s.books.config(), Timeline: s.books.timeline(since, now)}
	s.view(func(snap threads.Snapshot) { q.Facts = snap.Facts }) // facts are replaced, never changed
	of := Span{Since: since}
	for _, p := range s.books.past() {
		if of.Fits(&p) {
			q.Past = append(q.Past, p)
		}
	}
	return play(ctx, q)
}
