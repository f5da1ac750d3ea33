package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// HandoverVersion is the newest meaning of a Handover. An image understands those up to its own.
const HandoverVersion = 1

// Handover is what a supervisor tells the next image of its program, beside what stands in the journal: the sessions
// that go on. It holds no secret; configuration and tokens are read again.
type Handover struct {
	Version  int                    `json:"version"`
	Started  time.Time              `json:"started"`  // the first image
	Upgrades int                    `json:"upgrades"` // which one the next image is, from 1
	Upkeep   control.UpkeepDocument `json:"upkeep"`
	Sessions []HandedSession        `json:"sessions"` // by run id
}

// HandedSession is a session whose program runs.
type HandedSession struct {
	Session  threads.Session `json:"session"`
	Login    string          `json:"login"`   // of its agent
	Breaker  time.Duration   `json:"breaker"` // the thread's breaker_interval
	Grace    time.Duration   `json:"grace"`
	Reserved time.Time       `json:"reserved"`
	PID      int             `json:"pid"`
	Stop     threads.Reason  `json:"stop,omitzero"` // why it is being ended
}

// Runs are the run ids of the sessions, sorted.
func (h *Handover) Runs() []string {
	var runs []string
	for i := range h.Sessions {
		runs = append(runs, h.Sessions[i].Session.RunID)
	}
	return runs
}

// Only leaves out every session that is not among runs.
func (h *Handover) Only(runs []string) {
	other := func(s HandedSession) bool { return !slices.Contains(runs, s.Session.RunID) }
	h.Sessions = slices.DeleteFunc(h.Sessions, other)
}

// ErrNotQuiet is the error, wrapped, of a hand-over that has to wait for something under way.
var ErrNotQuiet = errors.New("cannot hand over now")

const (
	// quietTime is how long a hand-over waits for what is under way: one call of the forge that takes all its time.
	quietTime = callTimeout + 5*time.Second
	// quietRest is the time between two looks meanwhile.
	quietRest = 20 * time.Millisecond
)

// Handover is what HandOver would tell, while everything goes on: to find out whether another image understands it.
func (s *Supervisor) Handover() Handover {
	h, _ := s.books.handover()
	h.Upkeep = s.problems.upkeep()
	return h
}

// HandOver begins nothing more, waits until nothing but programs of sessions is under way, and calls replace while
// nothing can be journalled. replace does not return when the program was replaced. When it does, all goes on as
// before; an error that wraps ErrNotQuiet has it called again. held is the lock of the state directory.
func (s *Supervisor) HandOver(ctx context.Context, replace func(h Handover, held *os.File) error) error {
	s.init()
	if err := s.gate.hand(); err != nil {
		return err
	}
	s.books.close(true)
	defer func() {
		s.books.close(false)
		s.gate.handed()
		s.kicks.all(time.Time{})
	}()
	late := time.NewTimer(quietTime)
	defer late.Stop()
	for {
		err := s.tryHandOver(replace)
		if !errors.Is(err, ErrNotQuiet) {
			return err
		}
		select {
		case <-late.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-s.until.Done():
			return errStopping
		case <-time.After(quietRest):
		}
	}
}

// tryHandOver holds the journal's lock, with which nothing that counts can happen any more.
func (s *Supervisor) tryHandOver(replace func(h Handover, held *os.File) error) error {
	owed, resume := s.journal.Still()
	defer resume()
	if owed {
		return fmt.Errorf("%w: the journal cannot be written", ErrNotQuiet)
	}
	h, why := s.books.handover()
	if s.gate.busy() {
		why = "a command is being done"
	}
	if why != "" {
		return fmt.Errorf("%w: %s", ErrNotQuiet, why)
	}
	if s.until.Err() != nil {
		return errStopping
	}
	h.Upkeep = s.problems.upkeep()
	return replace(h, s.held)
}

// handover returns the sessions to hand over, and what is under way beside them; empty when nothing is.
func (b *books) handover() (h Handover, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h = Handover{Version: HandoverVersion, Started: b.life.started, Upgrades: b.life.upgrades + 1}
	for _, run := range slices.Sorted(maps.Keys(b.sessions)) {
		x := b.sessions[run]
		if !x.works() {
			why = x.tag + " begins"
			continue
		}
		h.Sessions = append(h.Sessions, HandedSession{
			Session: x.Session, Login: x.agent.Login, Breaker: x.thread.BreakerInterval,
			Grace: x.config.Factory.StopGrace, Reserved: x.reserved, PID: x.pid, Stop: x.stop,
		})
	}
	for r := range b.busy {
		why = "the forge has not said yet what became of " + r.String()
	}
	return h, why
}

// inherit puts the sessions of the last image into the table, and reports whether there was one. That image left
// nothing else behind that would have to be ended.
func (s *Supervisor) inherit() bool {
	h := s.Inherited
	if h == nil {
		return false
	}
	s.problems.inherit(h.Upkeep)
	for _, x := range s.books.inherit(h) {
		s.running.Go(func() { s.resume(x) })
	}
	s.log.Info(fmt.Sprintf("disinto %s goes on with %d sessions of the image before it", s.Version, len(h.Sessions)))
	return true
}

func (b *books) inherit(h *Handover) (list []*session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.life = life{started: h.Started, upgrades: h.Upgrades, upgraded: time.Now()}
	for i := range h.Sessions {
		x := inherited(&h.Sessions[i], b.cfg, b.base)
		b.sessions[x.RunID] = x
		list = append(list, x)
	}
	return list
}

// inherited is a session of the last image. What the configuration says now of its agent, role and thread is nearly
// always what it was started with; what it no longer says was handed over.
func inherited(h *HandedSession, cfg *threads.Config, base context.Context) *session {
	x := &session{
		Session: h.Session, config: cfg, reserved: h.Reserved, stop: h.Stop, pid: h.PID,
		tag: tag(cfg, h.Session.Agent, h.Session.Item.Ref), atWork: make(chan struct{}), gone: make(chan struct{}),
	}
	close(x.atWork)
	if x.config == nil {
		x.config = &threads.Config{Factory: threads.Factory{StopGrace: h.Grace}}
	}
	if a := x.config.Agent(x.Agent); a != nil {
		x.agent = *a
	}
	if r := x.config.Role(x.Role); r != nil {
		x.role = *r
	}
	if t := x.config.Thread(x.Thread); t != nil {
		x.thread = *t
	}
	x.agent.Name, x.agent.Login, x.thread.Name, x.thread.BreakerInterval = x.Agent, h.Login, x.Thread, h.Breaker
	x.ctx, x.cancel = context.WithCancelCause(base)
	if x.State == threads.Stopping {
		x.cancel(stopped{x.stop})
	}
	return x
}

// resume is the rest of a session whose program the last image started.
func (s *Supervisor) resume(x *session) {
	defer close(x.gone)
	defer x.cancel(nil)
	s.conclude(x, s.Executor.Run(x.ctx, agents.Job{RunID: x.RunID}, nil), true)
}

// inherits reports whether a run goes on after the image in which it began.
func (s *Supervisor) inherits(run string) bool {
	return s.Inherited != nil && slices.Contains(s.Inherited.Runs(), run)
}

// replace has the program replaced. There is no answer when that worked: the connection ends.
func (s *Supervisor) replace(ctx context.Context, r control.UpgradeRequest) (report control.Report, err error) {
	if s.Upgrade == nil {
		return report, control.Conflict("cannot upgrade this one: only disinto run can be replaced")
	}
	err = s.Upgrade(ctx, r.Binary)
	if no := (*control.Refusal)(nil); errors.Is(err, ErrNotQuiet) || errors.As(err, &no) {
		return report, err
	}
	return report, control.Conflict("%s", err)
}
