package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// HostTime is how long the other hosts may take to tell of themselves, all of them together. One that hangs costs the others
// nothing but this.
const HostTime = 10 * time.Second

// fleet is what a supervisor knows of the other hosts of its fleet.
type fleet struct {
	turn chan struct{} // 1-buffered: full while somebody looks, so that two never move the same
	due  chan struct{} // 1-buffered: it is time to look

	// Guarded by the supervisor's mu.
	readings map[string]reading // the newest, by the name of the host
	cycles   []*CycleDocument   // newest first
}

// reading is what a host said when it was asked at a time, or why that says nothing.
type reading struct {
	host threads.Host
	at   time.Time
	doc  *FleetDocument
	err  error
}

// keepHub looks each time that it is due, until ctx is done. Hosts are read once at the beginning, for people who look at the
// fleet before that.
func (s *Supervisor) keepHub(ctx context.Context) {
	s.readHosts(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.fleet.due:
		}
		s.safely("a look for what to move", func() {
			if _, err := s.rebalance(ctx, false); err != nil && ctx.Err() == nil {
				s.log.Warn(text(err))
			}
		})
	}
}

// rebalance reads the other hosts, then the forge, and moves what should change hands; a dry one moves nothing. It returns when
// the moves have ended. One look costs one call to each host.
func (s *Supervisor) rebalance(ctx context.Context, dry bool) (*CycleDocument, error) {
	select {
	case s.fleet.turn <- struct{}{}:
		defer func() { <-s.fleet.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began := time.Now()
	calls := s.readHosts(ctx)
	s.scan(ctx, began) // what is where has to be newer than who is idle
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cycle, moves, err := s.lookNow(began, calls, dry)
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	for _, c := range moves {
		all.Go(func() { s.do(c) })
	}
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	cycle.TookMS = time.Since(began).Milliseconds()
	return cycle.clone(), nil
}

// lookNow looks with what was read since began.
func (s *Supervisor) lookNow(began time.Time, calls int, dry bool) (cycle *CycleDocument, moves []*chore, err error) {
	var news []notice
	defer func() { s.tell(news...) }()
	room := s.room()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil || s.scans.err != nil {
		return nil, nil, control.Refuse(http.StatusServiceUnavailable, "cannot look for what to move: the forge could not be read")
	}
	cycle, moves, news = s.lookLocked(time.Now(), room, dry)
	cycle.At, cycle.Calls = began, calls
	return cycle, moves, nil
}

// safely is what a tick does about a panic, for decisions that no tick makes: it is counted and shown, and ends nothing.
func (s *Supervisor) safely(what string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked(what, v, debug.Stack())
		}
	}()
	f()
}

// readHosts asks all other hosts at once, and returns how many that were.
func (s *Supervisor) readHosts(ctx context.Context) (calls int) {
	s.mu.Lock()
	var hosts []threads.Host
	if s.config != nil && s.config.Fleet.Hub && s.ReadHost != nil {
		hosts = s.config.Fleet.Hosts
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, HostTime)
	defer cancel()
	readings := make([]reading, len(hosts))
	var all sync.WaitGroup
	for i, h := range hosts {
		all.Go(func() { readings[i] = s.readHost(ctx, h) })
	}
	all.Wait()
	s.tell(s.landHosts(readings)...)
	return len(hosts)
}

func (s *Supervisor) readHost(ctx context.Context, h threads.Host) reading {
	r := reading{host: h, at: time.Now()}
	r.doc, r.err = AskHost(ctx, s.ReadHost, h)
	return r
}

// AskHost has a host tell of itself, through read, and judges what it says. The context should end after HostTime.
func AskHost(ctx context.Context, read func(context.Context, threads.Host) ([]byte, error), h threads.Host) (*FleetDocument, error) {
	began := time.Now()
	text, err := read(ctx, h)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("no answer within %s", HostTime)
	case err != nil:
		return nil, errors.New(tame(err.Error()))
	}
	return readExport(text, began, time.Now())
}

// landHosts takes in what all hosts said, and returns what is news about that: which host is not known any more, or is again.
func (s *Supervisor) landHosts(readings []reading) (news []notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.fleet.readings
	s.fleet.readings = make(map[string]reading, len(readings))
	seen := map[string]string{s.instance: "this host"}
	for _, r := range readings {
		if r.doc != nil {
			if other := seen[r.doc.Instance]; other != "" {
				r.doc, r.err = nil, fmt.Errorf("it is the same supervisor as %s", other)
			} else {
				seen[r.doc.Instance] = r.host.Name
			}
		}
		s.fleet.readings[r.host.Name] = r
		switch old, had := was[r.host.Name]; {
		case r.err != nil && (!had || text(old.err) != text(r.err)):
			news = append(news, notice{bad: true, words: fmt.Sprintf("host %s takes no part: %s", r.host.Name, text(r.err))})
		case r.err == nil && had && old.err != nil:
			news = append(news, notice{words: fmt.Sprintf("host %s takes part again", r.host.Name)})
		}
	}
	return news
}

// fleetLocked are the agents of the hosts that are known, and the others with the reason. An account that one of our agents
// has too is nobody's: what is assigned to it could be either's. One that is not among the bots may be a person's, whatever the
// other host says: nothing is taken from people.
func (s *Supervisor) fleetLocked() (fleet []threads.Remote, unknown []string) {
	for _, h := range s.hostsLocked() {
		r := s.fleet.readings[h.Name]
		if r.doc == nil {
			unknown = append(unknown, h.Name+": "+text(r.err))
			continue
		}
		for i := range r.doc.Agents {
			a := &r.doc.Agents[i]
			own := s.config.AgentByLogin(a.Login)
			switch {
			case own != nil:
				unknown = append(unknown, fmt.Sprintf("%s/%s: has the account of %s", h.Name, a.Agent, own.Name))
			case !slices.Contains(s.config.Forge.Bots, a.Login):
				unknown = append(unknown, fmt.Sprintf("%s/%s: its account %s is not in [forge] bots", h.Name, a.Agent, a.Login))
			default:
				fleet = append(fleet, a.remote(h.Name))
			}
		}
	}
	return fleet, unknown
}

// begunLocked is who has begun which issue, here and on the hosts that are known.
func (s *Supervisor) begunLocked() map[forge.Ref][]string {
	begun := maps.Clone(s.history.Writers)
	for _, h := range s.hostsLocked() {
		if d := s.fleet.readings[h.Name].doc; d != nil {
			for _, said := range d.Begun {
				if r, err := forge.ParseRef(said, ""); err == nil {
					begun[r] = append(slices.Clone(begun[r]), h.Name)
				}
			}
		}
	}
	return begun
}

// hostsLocked are the hosts of the configuration that were read since they are in it.
func (s *Supervisor) hostsLocked() []threads.Host {
	return slices.DeleteFunc(slices.Clone(s.config.Fleet.Hosts), func(h threads.Host) bool {
		r, read := s.fleet.readings[h.Name]
		return !read || r.host != h
	})
}

// Fleet says what this supervisor knows of its fleet. It asks nobody.
func (s *Supervisor) Fleet() *FleetStatus {
	s.init()
	own := s.fleetDocument()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &FleetStatus{Hosts: []HostDocument{{Known: true, ReadAt: own.UpdatedAt, Agents: own.Agents}}, Cycles: []CycleDocument{}}
	for _, c := range s.fleet.cycles {
		f.Cycles = append(f.Cycles, *c.clone())
	}
	if s.config == nil {
		return f
	}
	f.Hub = s.config.Fleet.Hub
	if s.config.Stealing.PerCycle > 0 {
		f.NextAt = s.balancing.next
	}
	read := s.hostsLocked()
	for _, h := range s.config.Fleet.Hosts {
		d := HostDocument{Name: h.Name, SSH: h.String(), Why: "not read yet", Agents: []FleetAgent{}}
		if slices.Contains(read, h) {
			r := s.fleet.readings[h.Name]
			d.Known, d.Why, d.ReadAt = r.doc != nil, text(r.err), r.at
			if d.Known {
				d.Agents = r.doc.Agents
			}
		}
		f.Hosts = append(f.Hosts, d)
	}
	return f
}

// RebalanceRequest asks for a look now.
type RebalanceRequest struct {
	DryRun bool `json:"dry_run"`
}

// RebalanceNow looks at once, beside the usual looks, and returns when all moves have ended or are known to take longer.
func (s *Supervisor) RebalanceNow(ctx context.Context, r RebalanceRequest) (*CycleDocument, error) {
	leave, err := s.enterCommand()
	if err != nil {
		return nil, err
	}
	defer leave()
	s.mu.Lock()
	off := s.config.Stealing.PerCycle == 0
	s.mu.Unlock()
	if off {
		return nil, control.Refuse(http.StatusConflict, "cannot move anything: [stealing] per_cycle is 0")
	}
	return s.rebalance(ctx, r.DryRun)
}

// clone is a copy that later changes of a move do not reach.
func (c *CycleDocument) clone() *CycleDocument {
	d := *c
	d.Moves = slices.Clone(c.Moves)
	return &d
}

// settleLocked notes how a move is, in the look that it was decided in.
func (f *fleet) settleLocked(run string, state MoveState, why string) {
	for _, c := range f.cycles {
		for i := range c.Moves {
			if c.Moves[i].run == run {
				c.Moves[i].State, c.Moves[i].StateWhy = state, why
			}
		}
	}
}

// noteCycleLocked keeps a look for people.
func (f *fleet) noteCycleLocked(c *CycleDocument) {
	f.cycles = slices.Insert(f.cycles, 0, c)
	f.cycles = f.cycles[:min(len(f.cycles), CycleLimit)]
}

// cycleDocument is a look, in the words of the status.
func cycleDocument(now time.Time, b *threads.Balance) *CycleDocument {
	c := &CycleDocument{
		At: now, Idle: append([]string{}, b.Idle...), Busy: append([]string{}, b.Busy...),
		Moves: []MoveDocument{}, Stays: []StayDocument{}, Unknown: []string{},
	}
	loads := make(map[string]*threads.Load)
	for i := range b.Loads {
		loads[b.Loads[i].Agent] = &b.Loads[i]
	}
	for i := range b.Moves {
		m := &b.Moves[i]
		why := fmt.Sprintf("%s idle for %s, %s has %d waiting", m.To, now.Sub(loads[m.To].IdleSince).Round(time.Second), m.From, loads[m.From].Pending)
		c.Moves = append(c.Moves, MoveDocument{
			Repo: m.Ref.Repo, Number: m.Ref.Number, Title: m.Title, Priority: m.Priority, From: m.From, To: m.To, Why: why, State: MovePlanned,
		})
	}
	for i := range b.Stays {
		st := &b.Stays[i]
		c.Stays = append(c.Stays, StayDocument{
			Repo: st.Ref.Repo, Number: st.Ref.Number, Title: st.Title, Agent: st.Agent, Code: st.Reason.Code, Why: st.Reason.Text(),
		})
	}
	return c
}

// wakeHub has the hub look.
func (s *Supervisor) wakeHub() {
	select {
	case s.fleet.due <- struct{}{}:
	default:
	}
}
