package supervisor

import (
	"cmp"
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
	"codeberg.org/johba/disinto/threads/services"
)

// HandoverVersion is the version of Handover that this image writes. An image reads all versions up to its own.
const HandoverVersion = 1

// Handover tells the next image of the program what the journal does not: the sessions that go on. It holds no secret;
// the next image reads configuration and tokens again. Fields are added, never renamed or removed.
type Handover struct {
	Version  int                    `json:"version"`
	Started  time.Time              `json:"started"`  // when the first image started
	Upgrades int                    `json:"upgrades"` // images before the next one
	Upkeep   control.UpkeepDocument `json:"upkeep"`
	Sessions []HandedSession        `json:"sessions"`           // by run id
	Services []HandedService        `json:"services,omitempty"` // by name
}

// HandedService is a service, and its command that runs.
type HandedService struct {
	Service threads.Service `json:"service"`
	State   services.State  `json:"state"`
	Run     string          `json:"run,omitempty"` // the run id of its command; empty when none runs
	Step    int             `json:"step,omitempty"`
	PID     int             `json:"pid,omitempty"`
	Stop    bool            `json:"stop,omitempty"` // it is being ended
}

// HandedSession is a session whose program runs, with everything that the next image needs to end it even if its
// agent, role and thread are no longer configured.
type HandedSession struct {
	Session  threads.Session `json:"session"`
	Login    string          `json:"login"`   // of its agent
	Breaker  time.Duration   `json:"breaker"` // the thread's breaker_interval
	Grace    time.Duration   `json:"grace"`
	Reserved time.Time       `json:"reserved"`
	PID      int             `json:"pid"`
	Stop     threads.Reason  `json:"stop,omitzero"` // why it is being ended
	Sandbox  string          `json:"sandbox,omitempty"`
}

// Runs returns the run ids of the sessions and services, sorted.
func (h *Handover) Runs() []string {
	var runs []string
	for i := range h.Sessions {
		runs = append(runs, h.Sessions[i].Session.RunID)
	}
	for i := range h.Services {
		if run := h.Services[i].Run; run != "" {
			runs = append(runs, run)
		}
	}
	slices.Sort(runs)
	return runs
}

// Only removes every session and service whose run is not among runs.
func (h *Handover) Only(runs []string) {
	other := func(s HandedSession) bool { return !slices.Contains(runs, s.Session.RunID) }
	h.Sessions = slices.DeleteFunc(h.Sessions, other)
	gone := func(s HandedService) bool { return s.Run != "" && !slices.Contains(runs, s.Run) }
	h.Services = slices.DeleteFunc(h.Services, gone)
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
	h, _ := s.books.handover()
	h.Services, _ = s.serving.handover()
	h.Upkeep = s.problems.upkeep()
	return h
}

// HandOver begins nothing more, waits until only programs of sessions are under way, and calls replace while nothing
// can be journalled. replace returns only when it failed: with an error that wraps ErrNotQuiet to be called again, with
// any other to end the hand-over, after which work goes on as before. held is the lock of the state directory. HandOver
// may be called from any goroutine; while one is under way, another is refused.
func (s *Supervisor) HandOver(ctx context.Context, replace func(h Handover, held *os.File) error) error {
	s.init()
	if err := s.gate.hand(); err != nil {
		return err
	}
	s.books.close(true)
	s.serving.keepStill(true)
	s.keepShadow(true)
	defer func() {
		s.books.close(false)
		s.serving.keepStill(false)
		s.keepShadow(false)
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

// tryHandOver calls replace while it holds the journal's lock, so that nothing happens that has to be remembered.
func (s *Supervisor) tryHandOver(replace func(h Handover, held *os.File) error) error {
	owed, resume := s.books.journal.Still()
	defer resume()
	if owed {
		return fmt.Errorf("%w: the journal cannot be written", ErrNotQuiet)
	}
	h, why := s.books.handover()
	list, begins := s.serving.handover()
	h.Services, why = list, cmp.Or(why, begins)
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

// handover returns the sessions to hand over, and why that has to wait; "" when it need not.
func (b *books) handover() (h Handover, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h = Handover{Version: HandoverVersion, Started: b.life.started, Upgrades: b.life.upgrades + 1}
	for _, run := range slices.Sorted(maps.Keys(b.sessions)) {
		x := b.sessions[run]
		if x.sent { // the journal has all that the next image needs
			continue
		}
		if !x.works() {
			why = x.tag + " begins"
			continue
		}
		h.Sessions = append(h.Sessions, HandedSession{
			Session: x.Session, Login: x.agent.Login, Breaker: x.thread.BreakerInterval,
			Grace: x.config.Factory.StopGrace, Reserved: x.reserved, PID: x.pid, Stop: x.stop(),
			Sandbox: x.sandbox,
		})
	}
	for r := range b.busy {
		why = "the forge has not said yet what became of " + r.String()
	}
	return h, why
}

// inherit continues the sessions of the last image, and reports whether there was one. That image left no stale
// processes.
func (s *Supervisor) inherit() bool {
	h := s.Inherited
	if h == nil {
		return false
	}
	s.problems.inherit(h.Upkeep)
	for _, x := range s.books.inherit(h) {
		s.inSession(x, s.resume)
	}
	for _, x := range s.serving.inherit(h.Services, s.base) {
		s.inService(x)
	}
	s.log.Info(fmt.Sprintf("disinto %s goes on with %s and %s of the image before it", s.Version,
		control.Count(len(h.Sessions), "session"), control.Count(len(h.Services), "service")))
	return true
}

func (b *books) inherit(h *Handover) (list []*session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.life = life{started: h.Started, upgrades: h.Upgrades, upgraded: time.Now()}
	for i := range h.Sessions {
		x := continued(&h.Sessions[i], b.cfg, b.base)
		b.sessions[x.RunID] = x
		list = append(list, x)
	}
	return list
}

// continued restores a session of the last image, or one elsewhere of the last supervisor. Agent, role and thread come
// from the configuration of this one, which nearly always is the one it was started with; where that lacks them, what
// was handed over is enough to end it.
func continued(h *HandedSession, cfg *threads.Config, base context.Context) *session {
	x := &session{
		Session: h.Session, config: cfg, reserved: h.Reserved, pid: h.PID, sandbox: h.Sandbox,
		tag: tag(cfg, h.Session.Agent, h.Session.Item.Ref), atWork: make(chan struct{}), gone: make(chan struct{}),
	}
	close(x.atWork)
	if x.config == nil {
		x.config = &threads.Config{Factory: threads.Factory{StopGrace: h.Grace}}
	}
	x.secrets = secretsOf(x.config)
	if a := x.config.Agent(x.Agent); a != nil {
		x.agent = *a
	}
	if r := x.config.Role(x.Role); r != nil {
		x.role = *r
	}
	if t := x.config.Thread(x.Thread); t != nil {
		x.thread = *t
	}
	x.agent.Name, x.agent.Login, x.thread.Name = x.Agent, h.Login, x.Thread
	x.thread.BreakerInterval = cmp.Or(h.Breaker, x.thread.BreakerInterval)
	x.thread.Executor = ""
	x.ctx, x.cancel = context.WithCancelCause(base)
	if x.State == threads.Stopping {
		x.cancel(stopped{h.Stop})
	}
	return x
}

// resume waits for a program that the last image or supervisor started, and concludes its session.
func (s *Supervisor) resume(x *session) {
	job := agents.Job{RunID: x.RunID, Spent: func(u agents.Usage) { s.spent(x, u) }}
	out := s.executor(x.thread.Executor).Run(x.ctx, job, func(begun agents.Started) { s.placed(x, begun) })
	s.conclude(x, x.redacted(out), true)
}

// inherits reports whether a run continues from the last image.
func (s *Supervisor) inherits(run string) bool {
	return s.Inherited != nil && slices.Contains(s.Inherited.Runs(), run)
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
