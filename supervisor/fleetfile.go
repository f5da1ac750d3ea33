package supervisor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// FleetFile is where in a state directory a supervisor tells of its agents.
const FleetFile = "fleet-status.json"

// fleetRest is the time between two looks for what is new in it. A look is one decision, and decisions are made more often.
const fleetRest = 5 * time.Second

// fleetFile writes that file.
type fleetFile struct {
	mu      sync.Mutex // keeps versions in their order, so it is held while one is made and written; taken before the supervisor's
	written []byte     // what stands in the file, without its times
	at      time.Time
}

// write replaces the file, unless it is new and says just that. A reader sees the old one or the new. Where that fails, as
// on a full disk, there is none: the hub must not believe the old one. It tells nobody: the journal has the same disk.
func (f *fleetFile) write(s *Supervisor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var d *FleetDocument
	s.safely("telling of the agents", func() { d = s.fleetDocument() })
	if d == nil {
		f.remove(s)
		return
	}
	news, err := json.Marshal(d.steady())
	if err == nil && bytes.Equal(news, f.written) && d.UpdatedAt.Sub(f.at) < FleetPulse-time.Second {
		return
	}
	text, err := json.Marshal(d)
	path := filepath.Join(s.StateDir, FleetFile)
	if err == nil {
		err = os.WriteFile(path+".new", append(text, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		f.remove(s)
		return
	}
	f.written, f.at = news, d.UpdatedAt
}

// steady is the document without what is another each time that it is made.
func (d *FleetDocument) steady() *FleetDocument {
	c := *d
	c.UpdatedAt = time.Time{}
	c.Agents = slices.Clone(d.Agents)
	for i := range c.Agents {
		c.Agents[i].UpdatedAt = time.Time{}
	}
	return &c
}

func (f *fleetFile) remove(s *Supervisor) {
	f.written = nil
	path := filepath.Join(s.StateDir, FleetFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cannot remove " + path + ": " + text(err))
	}
}

// keepFleetFile writes the file soon after something changed, and every FleetPulse. It returns how to take it away: of a
// supervisor that has ended nobody is idle.
func (s *Supervisor) keepFleetFile() (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for look := time.NewTicker(fleetRest); ; {
			s.fleetFile.write(s)
			select {
			case <-stop:
				look.Stop()
				return
			case <-look.C:
			}
		}
	}()
	return func() {
		close(stop)
		<-done
		s.fleetFile.mu.Lock()
		defer s.fleetFile.mu.Unlock()
		s.fleetFile.remove(s)
	}
}

// fleetDocument is what there is to tell of our own agents.
func (s *Supervisor) fleetDocument() *FleetDocument {
	room := s.room()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	d := &FleetDocument{Format: FleetFormat, Version: s.Version, Instance: s.instance, UpdatedAt: now, Agents: []FleetAgent{}, Begun: []string{}}
	for _, r := range sorted(s.history.Writers, forge.Ref.Compare) {
		d.Begun = append(d.Begun, r.String())
	}
	if s.config == nil {
		return d
	}
	snap := s.snapshotLocked(now, room)
	config := *s.config
	config.Stealing.PerCycle = 0 // only what everybody has to do is asked
	snap.Config, snap.Fleet = &config, nil
	snap.History.IdleSince = s.idleSinceLocked(now)
	balance := threads.Weigh(snap)
	for i := range balance.Loads {
		d.Agents = append(d.Agents, s.fleetAgentLocked(&balance.Loads[i], now))
	}
	return d
}

func (s *Supervisor) fleetAgentLocked(l *threads.Load, now time.Time) FleetAgent {
	a := s.config.Agent(l.Agent)
	f := FleetAgent{
		Agent: a.Name, Login: a.Login, Roles: []FleetRole{}, Thread: a.Thread, Backend: s.config.Thread(a.Thread).Backend,
		Skills: append([]string{}, a.Skills...), State: l.State, PendingCount: l.Pending, UpdatedAt: now,
	}
	for _, name := range a.Roles {
		role := s.config.Role(name)
		f.Role = cmp.Or(f.Role, name)
		f.Roles = append(f.Roles, FleetRole{role.Name, role.On, role.Label})
	}
	if l.Why != nil {
		f.StateWhy = l.Why.Text()
	}
	if s.scans.err != nil || s.scans.good.IsZero() {
		f.State, f.StateWhy = threads.LoadGated, "its supervisor has not read the forge"
	}
	for _, x := range s.sessions {
		if x.Agent == a.Name {
			f.Active = x.Item.Ref.String()
		}
	}
	if f.State == threads.LoadIdle && f.Active == "" {
		f.Idle, f.IdleSince = true, l.IdleSince
	}
	achieved := func(r control.RecentDocument) bool {
		return r.Agent == a.Name && (r.Outcome == agents.Done || r.Outcome == agents.Refused)
	}
	if i := slices.IndexFunc(s.history.recent, achieved); i >= 0 {
		f.LastProgressAt = s.history.recent[i].EndedAt
	}
	return f
}

// idleSinceLocked is since when each agent has been idle: since its last session, or since it was first seen.
func (s *Supervisor) idleSinceLocked(now time.Time) map[string]time.Time {
	b := &s.balancing
	if b.seen == nil {
		b.seen = make(map[string]time.Time)
	}
	for i := range s.config.Agents {
		if name := s.config.Agents[i].Name; b.seen[name].IsZero() {
			b.seen[name] = now
		}
	}
	since := maps.Clone(b.seen)
	maps.Copy(since, s.history.IdleSince)
	return since
}
