// Package fleet moves pinned issues between agents, within one host and between several.
//
// Every host reports on its agents in a file (file.go, describe.go), which `disinto fleet export` prints. One host,
// the hub, reads the others' reports and checks them (read.go). It adds them to the snapshot of threads.Weigh, which
// decides by the same rules within a host and between hosts (hub.go). The supervisor itself makes the moves.
package fleet

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/threads"
)

// Supervisor is the supervisor around a Hub. Its methods may be called from any goroutine, without a lock.
type Supervisor interface {
	// Config returns the configuration in force, nil while there is no valid one, and the id of the state directory.
	Config() (config *threads.Config, instance string)
	// Document describes the present state of this host's agents.
	Document() *Document
	// Rebalance scans the forge, decides with Hub.Weigh, makes the moves unless c.DryRun is set, and passes c to
	// Hub.RecordCycle before the first of them. It returns when each move has been tried. An error means that nothing was
	// decided or noted, because the forge could not be read or ctx is done. The caller may retry.
	Rebalance(ctx context.Context, c *Cycle) error
}

// Hub knows the other hosts, the time of the next cycle, and the results of recent ones. A supervisor that is not a
// fleet's hub has one too, without other hosts. Its methods may be called from any goroutine.
type Hub struct {
	supervisor Supervisor
	read       ReadHost
	log        hclog.Logger
	turn       chan struct{} // 1-buffered: full during a cycle, so that no two move the same issue
	due        chan struct{} // 1-buffered: full when a cycle of the hub is due

	mu       sync.Mutex           // guards the fields below
	readings map[string]Reading   // the newest, by host name
	cycles   []*Cycle             // newest first
	next     time.Time            // when the next cycle is due
	seen     map[string]time.Time // when each agent was first seen
	stuck    int                  // cycles in a row with idle and busy agents, and without moves
}

// NewHub makes a hub. With a nil read it reads no host.
func NewHub(s Supervisor, read ReadHost, log hclog.Logger) *Hub {
	return &Hub{
		supervisor: s, read: read, log: log, turn: make(chan struct{}, 1), due: make(chan struct{}, 1),
		readings: make(map[string]Reading), seen: make(map[string]time.Time),
	}
}

// Wake makes Wait return.
func (h *Hub) Wake() {
	select {
	case h.due <- struct{}{}:
	default:
	}
}

// Wait returns true after a Wake, and false when ctx is done.
func (h *Hub) Wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-h.due:
		return ctx.Err() == nil
	}
}

// Cycle reads the other hosts, with one call to each, and makes the supervisor rebalance. With dry it moves nothing. It
// returns a copy of the cycle when Rebalance has returned. A second call waits for the first.
func (h *Hub) Cycle(ctx context.Context, dry bool) (*Cycle, error) {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c := &Cycle{At: time.Now(), DryRun: dry}
	c.Calls = h.Fetch(ctx)
	if err := h.supervisor.Rebalance(ctx, c); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c.TookMS = time.Since(c.At).Milliseconds()
	return c.clone(), nil
}

// Fetch reads the reports of all other hosts at once, and returns the number of hosts. It logs each host that drops out
// or returns.
func (h *Hub) Fetch(ctx context.Context) (calls int) {
	config, instance := h.supervisor.Config()
	if config == nil || !config.Fleet.Hub || h.read == nil {
		h.recordReadings(nil)
		return 0
	}
	h.recordReadings(FetchAll(ctx, h.read, config.Fleet.Hosts, instance))
	return len(config.Fleet.Hosts)
}

func (h *Hub) recordReadings(readings []Reading) {
	fresh := make(map[string]Reading, len(readings))
	for _, r := range readings {
		fresh[r.Host.Name] = r
	}
	h.mu.Lock()
	was := h.readings
	h.readings = fresh
	h.mu.Unlock()
	for _, r := range readings {
		switch old, had := was[r.Host.Name]; {
		case r.Doc == nil && old.Why != r.Why:
			h.log.Warn(fmt.Sprintf("host %s takes no part: %s", r.Host.Name, r.Why))
		case r.Doc != nil && had && old.Doc == nil:
			h.log.Info(fmt.Sprintf("host %s takes part again", r.Host.Name))
		}
	}
}

// readingLocked returns the newest reading of a host, if it was read since its table last changed.
func (h *Hub) readingLocked(host threads.Host) (r Reading, read bool) {
	r, read = h.readings[host.Name]
	return r, read && r.Host == host
}

// Due reports whether a cycle is due, and sets the time of the next one. The interval starts when this cycle was due,
// not at the tick, so late ticks do not lengthen the mean interval. Every tick calls Due. An agent that Due sees for
// the first time counts as idle from then on.
func (h *Hub) Due(config *threads.Config, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recordSeenLocked(config, now)
	const every = threads.StealEvery
	if !config.Stealing {
		return false
	}
	if h.next.IsZero() || h.next.Sub(now) > every {
		h.next = now.Add(every)
	}
	if now.Before(h.next) {
		return false
	}
	h.next = h.next.Add(every * (1 + now.Sub(h.next)/every))
	return true
}

// recordSeenLocked records when each agent was first seen.
func (h *Hub) recordSeenLocked(config *threads.Config, now time.Time) {
	for i := range config.Agents {
		if name := config.Agents[i].Name; h.seen[name].IsZero() {
			h.seen[name] = now
		}
	}
}

// addIdle marks the agents of a snapshot that never had a session as idle since they were first seen.
func (h *Hub) addIdle(snap *threads.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recordSeenLocked(snap.Config, snap.Now)
	known := make(map[string]*threads.AgentHistory, len(h.seen))
	maps.Copy(known, snap.History.Agents)
	for name, since := range h.seen {
		if a := *snap.History.Agent(name); a.IdleSince.IsZero() {
			a.IdleSince = since
			known[name] = &a
		}
	}
	snap.History.Agents = known
}

// Status returns what is known about the fleet, without asking any host.
func (h *Hub) Status() *Status {
	own := h.supervisor.Document()
	config, _ := h.supervisor.Config()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &Status{Hosts: []HostStatus{{Known: true, ReadAt: own.UpdatedAt, Agents: own.Agents}}, Cycles: []Cycle{}}
	for _, c := range h.cycles {
		s.Cycles = append(s.Cycles, *c.clone())
	}
	if config == nil {
		return s
	}
	s.Hub = config.Fleet.Hub
	if config.Stealing {
		s.NextAt = h.next
	}
	for _, host := range config.Fleet.Hosts {
		d := HostStatus{Name: host.Name, SSH: host.String(), Why: "not read yet", Agents: []Agent{}}
		if r, read := h.readingLocked(host); read {
			d.Known, d.Why, d.ReadAt = r.Doc != nil, r.Why, r.At
			if d.Known {
				d.Agents = r.Doc.Agents
			}
		}
		s.Hosts = append(s.Hosts, d)
	}
	return s
}
