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

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// ErrNotQuiet is in the error of a hand-over that must wait for work under way.
var ErrNotQuiet = errors.New("cannot hand over now")

const (
	// quietTime is how long a hand-over waits for work under way: as long as one call to the forge may take.
	quietTime = callTimeout + 5*time.Second
	// quietRest is the time between two tries.
	quietRest = 20 * time.Millisecond
)

// Handover returns what HandOver would hand over now, to test whether another image can read it. Work continues
// meanwhile.
func (s *Supervisor) Handover() Handover {
	h, _ := s.state.handover()
	h.Services, _ = s.services.serving.handover()
	h.Upkeep = s.problems.upkeep()
	return h
}

// HandOver stops all starts, waits until only programs of sessions and services are under way, and calls replace while
// nothing can be journalled. replace returns only if it failed. After an error that wraps ErrNotQuiet it is called
// again; any other error ends the hand-over, after which work continues. held is the lock of the state directory.
// HandOver may be called from any goroutine; while one call is under way, another is refused.
func (s *Supervisor) HandOver(ctx context.Context, replace func(h Handover, held *os.File) error) error {
	s.init()
	if err := s.gate.beginHandover(); err != nil {
		return err
	}
	s.state.close(true)
	s.services.serving.keepStill(true)
	defer func() {
		s.state.close(false)
		s.services.serving.keepStill(false)
		s.gate.endHandover()
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

// tryHandOver calls replace while it holds the journal's lock, so that nothing happens that the journal would miss.
func (s *Supervisor) tryHandOver(replace func(h Handover, held *os.File) error) error {
	owed, resume := s.state.journal.Pause()
	defer resume()
	if owed {
		return fmt.Errorf("%w: the journal cannot be written", ErrNotQuiet)
	}
	h, why := s.state.handover()
	list, begins := s.services.serving.handover()
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

// handover returns the sessions to hand over, and why the hand-over must wait; "" if it need not.
func (st *state) handover() (h Handover, why string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	h = Handover{Version: HandoverVersion, Started: st.life.started, Upgrades: st.life.upgrades + 1}
	for _, run := range slices.Sorted(maps.Keys(st.sessions)) {
		x := st.sessions[run]
		if x.sent && x.thread.Executor != "" { // the journal has everything that the next image needs
			continue
		}
		if !x.works() {
			why = x.tag + " begins"
			continue
		}
		h.Sessions = append(h.Sessions, HandedSession{
			Session: x.Session, Login: x.agent.Login, Breaker: x.thread.BreakerInterval,
			Grace: x.config.Factory.StopGrace, Reserved: x.reserved, PID: x.pid, Stop: threads.Reason{Code: x.stop().code},
			Sandbox: x.sandbox,
		})
	}
	for r := range st.busy {
		why = "the forge has not confirmed yet what was written to " + r.String()
	}
	return h, why
}

// replace replaces the program. On success it sends no answer: the connection ends.
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
