package supervisor

import (
	"context"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

const (
	// simulateTime is how long a simulation may take.
	simulateTime = 10 * time.Second
	// simulateDays is how many days are simulated where the request does not say, and maxSimulateDays at most: older
	// sessions are forgotten.
	simulateDays    = 7
	maxSimulateDays = 30
)

// WhatIf is a simulation that a person asks for.
type WhatIf struct {
	Ask      control.SimulateRequest // with Days filled in
	Config   *threads.Config         // in force
	Past     []ledger.Past           // at most ledger.PastLimit
	Timeline ledger.Timeline         // of these days
}

// simulate answers POST /v1/simulate. It changes nothing. One runs at a time, because it takes a whole processor.
func (s *Supervisor) simulate(ctx context.Context, ask control.SimulateRequest) (*control.Simulation, error) {
	s.init()
	if err := s.noConfig(); err != nil {
		return nil, err
	}
	if ask.Days == 0 {
		ask.Days = simulateDays
	}
	switch {
	case s.Simulate == nil:
		return nil, control.NotFound("this supervisor has no simulator")
	case ask.Days < 1 || ask.Days > maxSimulateDays:
		return nil, control.Invalid("cannot simulate %d days: want 1 to %d", ask.Days, maxSimulateDays)
	case !s.simulating.CompareAndSwap(false, true):
		return nil, control.NotNow("not now: another simulation runs, for 10 seconds at most")
	}
	defer s.simulating.Store(false)
	ctx, cancel := context.WithTimeout(ctx, simulateTime)
	defer cancel()
	now := time.Now()
	since := now.Add(-time.Duration(ask.Days) * 24 * time.Hour)
	q := WhatIf{Ask: ask, Config: s.books.config(), Timeline: s.books.timeline(since, now)}
	of := Span{Since: since}
	for _, p := range s.books.past() {
		if of.Fits(&p) {
			q.Past = append(q.Past, p)
		}
	}
	return s.Simulate(ctx, q)
}
