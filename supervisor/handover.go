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

// Handover is what a supervisor tells the next image of its program, beside what stands in the journal: the sessions that
// go on. It holds no secret; configuration and tokens are read again.
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
	h.Sessions = slices.DeleteFunc(h.Sessions, func(s HandedSession) bool { return !slices.Contains(runs, s.Session.RunID) })
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
	s.mu.Lock()
	defer s.mu.Unlock()
	h, _ := s.handoverLocked()
	return h
}

// HandOver begins nothing more, waits until nothing but programs of sessions is under way, and calls replace while
// nothing can be journalled. replace does not return when the program was replaced. When it does, all goes on as before;
// an error that wraps ErrNotQuiet has it called again. held is the lock of the state directory.
func (s *Supervisor) HandOver(ctx context.Context, replace func(h Handover, held *os.File) error) error {
	if err := s.quieten(); err != nil {
		return err
	}
	defer s.goOn()
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
			return control.NotNow("not now: the supervisor stops")
		case <-time.After(quietRest):
		}
	}
}

// quieten keeps everything from beginning until goOn.
func (s *Supervisor) quieten() error {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.looping:
		return control.NotNow("not now: the supervisor is still starting")
	case s.until.Err() != nil:
		return control.NotNow("not now: the supervisor stops")
	case s.handing:
		return control.NotNow("not now: an upgrade is under way")
	}
	s.handing = true
	return nil
}

func (s *Supervisor) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handing = false
	for name := range s.kicks {
		s.kickLocked(name, time.Time{})
	}
}

// tryHandOver holds the journal's lock, with which nothing that counts can happen any more.
func (s *Supervisor) tryHandOver(replace func(h Handover, held *os.File) error) error {
	owed, resume := s.journal.Still()
	defer resume()
	if owed {
		return fmt.Errorf("%w: the journal cannot be written", ErrNotQuiet)
	}
	s.mu.Lock()
	h, why := s.handoverLocked()
	s.mu.Unlock()
	if why != "" {
		return fmt.Errorf("%w: %s", ErrNotQuiet, why)
	}
	if s.until.Err() != nil {
		return control.NotNow("not now: the supervisor stops")
	}
	return replace(h, s.held)
}

// handoverLocked is what there is to hand over, and what is under way beside it.
func (s *Supervisor) handoverLocked() (h Handover, why string) {
	h = Handover{
		Version: HandoverVersion, Started: s.started, Upgrades: s.upgrades + 1,
		Upkeep: control.UpkeepDocument{Violations: s.upkeep.violations, Repairs: s.upkeep.repairs},
	}
	for _, run := range slices.Sorted(maps.Keys(s.sessions)) {
		x := s.sessions[run]
		if !x.works() {
			why = x.tag + " begins"
			continue
		}
		h.Sessions = append(h.Sessions, HandedSession{
			Session: x.Session, Login: x.agent.Login, Breaker: x.thread.BreakerInterval,
			Grace: x.config.Factory.StopGrace, Reserved: x.reserved, PID: x.pid, Stop: x.stop,
		})
	}
	if s.entered > 0 {
		why = "a command is being done"
	}
	for r := range s.busy {
		why = "the forge has not said yet what became of " + r.String()
	}
	return h, why
}

// works reports whether the session's program has been started.
func (x *session) works() bool {
	select {
	case <-x.atWork:
		return true
	default:
		return false
	}
}

// inherit puts the sessions of the last image into the table, and reports whether there was one. Nothing is left behind by
// that one which would have to be ended.
func (s *Supervisor) inherit() bool {
	h := s.Inherited
	if h == nil {
		return false
	}
	s.mu.Lock()
	s.started, s.upgrades, s.upgraded = h.Started, h.Upgrades, time.Now()
	s.upkeep.violations, s.upkeep.repairs = h.Upkeep.Violations, h.Upkeep.Repairs
	for i := range h.Sessions {
		x := s.inheritedLocked(&h.Sessions[i])
		s.sessions[x.RunID] = x
		s.running.Add(1)
		go s.resume(x)
	}
	s.mu.Unlock()
	s.log.Info(fmt.Sprintf("disinto %s goes on with %d sessions of the image before it", s.Version, len(h.Sessions)))
	return true
}

// inherits reports whether a run goes on after the image in which it began.
func (s *Supervisor) inherits(run string) bool {
	return s.Inherited != nil && slices.Contains(s.Inherited.Runs(), run)
}

// inheritedLocked is a session of the last image. What the configuration says now of its agent, role and thread is nearly
// always what it was started with; of what it says no more, the rest is handed over.
func (s *Supervisor) inheritedLocked(h *HandedSession) *session {
	x := &session{
		Session: h.Session, config: s.config, reserved: h.Reserved, stop: h.Stop, pid: h.PID,
		tag: tag(s.config, h.Session.Agent, h.Session.Item.Ref), atWork: make(chan struct{}), gone: make(chan struct{}),
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
	x.ctx, x.cancel = context.WithCancelCause(s.base)
	if x.State == threads.Stopping {
		x.cancel(stopped{x.stop})
	}
	return x
}

// resume is the rest of a session whose program the last image started.
func (s *Supervisor) resume(x *session) {
	defer s.running.Done()
	defer close(x.gone)
	defer x.cancel(nil)
	s.conclude(x, s.Executor.Run(x.ctx, agents.Job{RunID: x.RunID}, nil), true)
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
