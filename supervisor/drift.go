package supervisor

import (
	"context"
	"sync/atomic"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/decisions"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

const (
	// driftTime bounds one judgement of the newest days.
	driftTime = 20 * time.Second
	// driftFirst is the delay of the first judgement after a start. Later ones come driftLate after midnight, UTC.
	driftFirst = 2 * time.Minute
	driftLate  = 5 * time.Minute
)

// Drift is the question whether the newest days before At went as earlier days predict.
type Drift struct {
	At       time.Time
	Past     []ledger.Past   // at most ledger.PastLimit
	Timeline ledger.Timeline // of the last foresightAge
	// Config returns the configuration in force at a time.
	Config func(time.Time) *threads.Config
}

// drift has the newest judgement.
type drift struct {
	newest atomic.Pointer[control.Drift]
}

// keepDrift looks for drift soon after the start, and once a day, until ctx is done.
func (s *Supervisor) keepDrift(ctx context.Context) {
	if s.LookForDrift == nil {
		return
	}
	const day = 24 * time.Hour
	for rest := driftFirst; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
		s.safely("the look for drift", func() { s.judge(ctx) })
		now := time.Now().UTC()
		rest = now.Truncate(day).Add(day + driftLate).Sub(now)
	}
}

// judge looks for drift, and logs its start and end.
func (s *Supervisor) judge(ctx context.Context) {
	config := s.books.config()
	if config == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, driftTime)
	defer cancel()
	now := time.Now()
	found := s.LookForDrift(ctx, Drift{
		At: now, Past: s.books.past(), Timeline: s.books.timeline(now.Add(-foresightAge), now),
		Config: ConfigAt(s.StateDir, config),
	})
	switch was := s.drift.newest.Swap(found); {
	case !found.Fits:
		s.log.Warn(found.Line())
	case was != nil && !was.Fits:
		s.log.Info(found.Line())
	}
	s.touchStatus()
}

// ConfigAt returns a function that finds the configuration of a time in a state directory's record of decisions. For a
// time without a decision it returns otherwise.
func ConfigAt(stateDir string, otherwise *threads.Config) func(time.Time) *threads.Config {
	return func(at time.Time) *threads.Config {
		if s, err := decisions.Last(stateDir, at); err == nil {
			return s.Config
		}
		return otherwise
	}
}
