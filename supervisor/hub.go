package supervisor

import (
	"context"
	"path/filepath"
	"sync"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// aroundHub is the supervisor from the hub's view.
type aroundHub struct{ s *Supervisor }

var _ fleet.Supervisor = aroundHub{}

// keepHub runs each due cycle, until ctx is done. It reads the other hosts once at the start, for people who ask about
// the fleet before the first cycle.
func (s *Supervisor) keepHub(ctx context.Context) {
	s.hub.Fetch(ctx)
	for s.hub.Wait(ctx) {
		s.safely("a look for what to move", func() {
			if _, err := s.hub.Cycle(ctx, false); err != nil && ctx.Err() == nil {
				s.log.Warn(text(err))
			}
		})
	}
}

// rebalanceNow runs an extra cycle, and returns when each of its moves has been tried.
func (s *Supervisor) rebalanceNow(ctx context.Context, r control.RebalanceRequest, report *fleet.Cycle) error {
	if !s.state.config().Stealing {
		return control.Conflict("cannot move anything: [stealing] enabled is false")
	}
	c, err := s.hub.Cycle(ctx, r.DryRun)
	if err == nil {
		*report = *c
	}
	return err
}

// Config implements fleet.Supervisor.
func (a aroundHub) Config() (config *threads.Config, instance string) {
	return a.s.state.config(), a.s.Instance()
}

// Rebalance implements fleet.Supervisor.
func (a aroundHub) Rebalance(ctx context.Context, c *fleet.Cycle) error {
	s := a.s
	s.scanner.scan(ctx, c.At) // the facts must be newer than the hosts' descriptions
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.state.config() == nil || s.state.scanned().err != nil {
		return control.NotNow("cannot look for moves: the forge could not be read")
	}
	var all sync.WaitGroup
	for _, m := range s.planner.weigh(c) {
		s.clerk.startChore(&all, m)
	}
	all.Wait()
	return nil
}

// Document implements fleet.Supervisor.
func (a aroundHub) Document() *fleet.Document {
	return a.s.state.fleetDocument(a.s.hub, a.s.Version, a.s.room())
}

// keepFleetFile writes fleet-status.json until end is called, which removes the file.
func (s *Supervisor) keepFleetFile() (end func()) {
	s.sessions.fleetFile = fleet.StartFile(filepath.Join(s.StateDir, fleet.FileName), func() (d *fleet.Document) {
		s.safely("telling of the agents", func() { d = aroundHub{s}.Document() })
		return d
	}, s.touches.Load, s.log)
	return s.sessions.fleetFile.End
}
