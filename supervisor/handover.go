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

// HandoverVersion is the version of Handover that this image writes. An image reads all versions up to its own.
const HandoverVersion = 1

// Handover is what a supervisor tells the next image of its program besides the journal: the sessions that go on. It
// holds no secret; the next image reads configuration and tokens again. Fields are added, never renamed or removed.
type Handover struct {
	Version  int                    `json:"version"`
	Started  time.Time              `json:"started"`  // when the first image started
	Upgrades int                    `json:"upgrades"` // images before the next one
	Upkeep   control.UpkeepDocument `json:"upkeep"`
	Sessions []HandedSession        `json:"sessions"` // by run id
}

// HandedSession is a session whose program runs, with what its configuration may say no more when the next image
// reads it.
type HandedSession struct {
	Session  threads.Session `json:"session"`
	Login    string          `json:"login"`   // of its agent
	Breaker  time.Duration   `json:"breaker"` // the thread's breaker_interval
	Grace    time.Duration   `json:"grace"`
	Reserved time.Time       `json:"reserved"`
	PID      int             `json:"pid"`
	Stop     threads.Reason  `json:"stop,omitzero"` // why it is being ended
}

// Runs returns the run ids of the sessions, sorted.
func (h *Handover) Runs() []string {
	var runs []string
	for i := range h.Sessions {
		runs = append(runs, h.Sessions[i].Session.RunID)
	}
	return runs
}

// Only removes every session that is not among runs.
func (h *Handover) Only(runs []string) {
	other := func(s HandedSession) bool { return !slices.Contains(runs, s.Session.RunID) }
	h.Sessions = slices.DeleteFunc(h.Sessions, other)
}

// ErrNotQuiet is the error, wrapped, of a hand-over that has to wait for work under way.
var ErrNotQuiet = errors.New("cannot hand over now")

const (
	// quietTime is how long a hand-over waits for work under way: as long as one call to the forge may take.
	quietTime = callTimeout + 5*time.Second
	// quietRest is the time between two tries.
	quietRest = 20 * time.Millisecond
)

// Handover returns what HandOver would tell now, to find out whether another image can read it. Work goes on meanwhile.
func (s *Supervisor) Handover() Handover {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, _ := s.handoverLocked()
	return h
}

// HandOver begins nothing more, waits until only programs of sessions are under way, and calls replace while nothing
// can be journalled. replace returns only when it failed: with an error that wraps ErrNotQuiet to be called again,
// with any other to end the hand-over, after which work goes on as before. held is the lock of the state directory.
// HandOver may be called from any goroutine; a second one is refused.
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

// quieten lets nothing begin until goOn.
func (s *Supervisor) quieten() error {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.notNowLocked(); err != nil {
		return err
	}
	s.handing = true
	return nil
}

func (s *Supervisor) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handing = false
	s.kickAllLocked(time.Time{})
}

// tryHandOver calls replace while it holds the journal's lock, so that nothing can happen that has to be remembered.
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

// handoverLocked returns what there is to hand over, and why that has to wait; "" when it need not.
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

// inherit continues the sessions of the last image, and reports whether there was one. That image leaves no stale
// process.
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

// inherits reports whether a run continues from the last image.
func (s *Supervisor) inherits(run string) bool {
	return s.Inherited != nil && slices.Contains(s.Inherited.Runs(), run)
}

// inheritedLocked restores a session of the last image. Agent, role and thread come from today's configuration, which
// nearly always is the one it was started with; where that lacks them, what was handed over is enough to end the
// session.
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

// resume waits for a program that the last image started, and concludes its session.
func (s *Supervisor) resume(x *session) {
	defer s.running.Done()
	defer close(x.gone)
	defer x.cancel(nil)
	s.conclude(x, s.Executor.Run(x.ctx, agents.Job{RunID: x.RunID}, nil), true)
}

// replace replaces the program. On success there is no answer: the connection ends.
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
