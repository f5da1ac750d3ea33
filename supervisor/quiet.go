package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// ErrNotQuiet is in the error of Quiet when work under way has not ended in time.
var ErrNotQuiet = errors.New("cannot end now")

const (
	// quietTime is how long Quiet waits for work under way: as long as one call to the forge may take.
	quietTime = callTimeout + 5*time.Second
	// quietRest is the time between two tries.
	quietRest = 20 * time.Millisecond
)

// Quiet stops all starts, waits until only programs of sessions and services are under way, and calls end while nothing
// can be journalled. end ends this process, and another supervisor continues the programs; end returns only if it
// failed. After an error of Quiet, work continues. Quiet may be called from any goroutine; while one call is under way,
// another is refused.
func (s *Supervisor) Quiet(ctx context.Context, end func() error) error {
	s.init()
	if err := s.gate.close(ctx); err != nil {
		return err
	}
	s.state.close(true)
	s.services.serving.keepStill(true)
	defer func() {
		s.state.close(false)
		s.services.serving.keepStill(false)
		s.gate.reopen()
		s.kicks.all(time.Time{})
	}()
	late := time.NewTimer(quietTime)
	defer late.Stop()
	for {
		err := s.tryQuiet(end)
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

// tryQuiet calls end while it holds the journal's lock, so that nothing happens that the journal would miss.
func (s *Supervisor) tryQuiet(end func() error) error {
	owed, resume := s.state.journal.Pause()
	defer resume()
	why := cmp.Or(s.state.underWay(), s.services.serving.begins())
	switch {
	case owed:
		why = "the journal cannot be written"
	case s.gate.busy():
		why = "a command is being done"
	}
	if why != "" {
		return fmt.Errorf("%w: %s", ErrNotQuiet, why)
	}
	if s.until.Err() != nil {
		return errStopping
	}
	s.state.answers.End(time.Now())
	defer s.beginAnswers()
	return end()
}

// beginAnswers starts the file of the answers of why.
func (s *Supervisor) beginAnswers() {
	s.state.answers.Begin(time.Now(), s.StateDir, s.Version, s.logAnswers)
}

// lastAnswers bounds how long AwaitAnswers waits.
const lastAnswers = 100 * time.Millisecond

// AwaitAnswers waits until the requests that came since a time are answered, but no longer than lastAnswers. It is for
// the end of this process, after new connections are no longer accepted.
func (s *Supervisor) AwaitAnswers(since time.Time) { s.asked.Await(since, lastAnswers) }

// underWay returns the first work under way that the next supervisor could not continue; "" without any.
func (st *state) underWay() (why string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, run := range slices.Sorted(maps.Keys(st.sessions)) {
		x := st.sessions[run]
		if elsewhere := x.thread.Executor != "" && x.sent; !elsewhere && !x.works() {
			why = x.tag + " begins"
		}
	}
	for r := range st.busy {
		why = "the forge has not confirmed yet what was written to " + r.String()
	}
	return why
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
