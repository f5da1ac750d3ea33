package supervisor

import (
	"context"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// aroundHub is the supervisor as its hub sees it.
type aroundHub struct{ s *Supervisor }

var _ fleet.Supervisor = aroundHub{}

// keepHub runs each cycle that is due, until ctx is done. It reads the other hosts once at the start, for people who
// ask about the fleet before the first cycle.
func (s *Supervisor) keepHub(ctx context.Context) {
	s.hub.Read(ctx)
	for s.hub.Wait(ctx) {
		s.safely("a look for what to move", func() {
			if _, err := s.hub.Cycle(ctx, false); err != nil && ctx.Err() == nil {
				s.log.Warn(text(err))
			}
		})
	}
}

// safely recovers from a panic in a decision outside of ticks as a tick does: it is counted and shown, and ends
// nothing.
func (s *Supervisor) safely(what string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked(what, v, debug.Stack())
		}
	}()
	f()
}

// Fleet returns what this supervisor knows of its fleet, without asking the other hosts. It may be called from any
// goroutine.
func (s *Supervisor) Fleet() *fleet.Status {
	s.init()
	return s.hub.Status()
}

// rebalance runs a cycle besides those that are due, and returns when all its moves have ended or are known to take
// longer.
func (s *Supervisor) rebalance(ctx context.Context, r control.RebalanceRequest, report *fleet.Cycle) error {
	if s.currentConfig().Stealing.PerCycle == 0 {
		return control.Conflict("cannot move anything: [stealing] per_cycle is 0")
	}
	c, err := s.hub.Cycle(ctx, r.DryRun)
	if err == nil {
		*report = *c
	}
	return err
}

// Config implements fleet.Supervisor.
func (a aroundHub) Config() (config *threads.Config, instance string) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.s.config, a.s.instance
}

// Rebalance implements fleet.Supervisor.
func (a aroundHub) Rebalance(ctx context.Context, c *fleet.Cycle) error {
	s := a.s
	s.scan(ctx, c.At) // the facts have to be newer than what the hosts said
	if err := ctx.Err(); err != nil {
		return err
	}
	moves, news, err := s.weigh(c)
	s.tell(news...)
	var all sync.WaitGroup
	for _, m := range moves {
		all.Go(func() { s.do(m) })
	}
	all.Wait()
	return err
}

func (s *Supervisor) weigh(c *fleet.Cycle) (moves []*chore, news []notice, err error) {
	room := s.room()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil || s.scans.err != nil {
		return nil, nil, control.NotNow("cannot look for what to move: the forge could not be read")
	}
	moves, news = s.weighLocked(c, time.Now(), room)
	return moves, news, nil
}

// Document implements fleet.Supervisor.
func (a aroundHub) Document() *fleet.Document {
	s := a.s
	room := s.room()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	d := &fleet.Document{
		Format: fleet.Format, Version: s.Version, Instance: s.instance, UpdatedAt: now,
		Agents: []fleet.Agent{}, Begun: []string{},
	}
	for _, r := range s.history.Select(func(c *threads.ChainHistory) bool { return len(c.Writers) > 0 }) {
		d.Begun = append(d.Begun, r.String())
	}
	if s.config != nil {
		unread := s.scans.err != nil || s.scans.good.IsZero()
		d.Agents = s.hub.Describe(s.snapshotLocked(now, room), unread, s.progressLocked())
	}
	return d
}

// progressLocked returns when a session of each agent last achieved something, as far as the history goes back.
func (s *Supervisor) progressLocked() map[string]time.Time {
	progress := make(map[string]time.Time)
	for i := range s.history.Recent { // newest first
		r := &s.history.Recent[i]
		if progress[r.Agent].IsZero() && (r.Outcome == agents.Done || r.Outcome == agents.Refused) {
			progress[r.Agent] = r.EndedAt
		}
	}
	return progress
}

// keepFleetFile writes fleet-status.json until end is called, which removes it.
func (s *Supervisor) keepFleetFile() (end func()) {
	s.fleetFile = fleet.Keep(filepath.Join(s.StateDir, fleet.FileName), func() (d *fleet.Document) {
		s.safely("telling of the agents", func() { d = aroundHub{s}.Document() })
		return d
	}, s.log)
	return s.fleetFile.End
}
