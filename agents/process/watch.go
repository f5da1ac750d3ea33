package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// verdict is why we ended a session. The zero value means that we did not.
type verdict struct {
	result agents.Result
	reason string
}

// watch waits until the session's shim has ended, and asks it to end the tree when a reason for that comes up. The
// answer is that reason, the first one if there are several.
func (s *session) watch(ctx context.Context, hurry <-chan struct{}) (v verdict) {
	defer close(s.unwatched)
	timeout := s.timeout()
	idle := newIdle(s.job, s.shim.PID, s.mark)
	defer idle.stop()
	cancel, late := ctx.Done(), (<-chan struct{})(nil)
	if v = s.verdict; v.result != "" {
		late = hurry
	}
	var asked chan string // the backend's answer, while it is asked
	for {
		var why verdict
		select {
		case s.shimExit = <-s.shim.Exit():
			return v
		case l := <-s.letGo:
			asked = nil // the next image asks again
			s.pass(l, v, idle.mark)
		case <-late:
			late = nil
			s.end(0)
		case <-cancel:
			cancel = nil
			why = cancelled(ctx)
		case <-timeout:
			why = verdict{agents.TimedOut, fmt.Sprintf("ended after its timeout of %s", s.job.Timeout)}
		case <-idle.ticks:
			switch {
			case asked != nil || !idle.over():
			case s.asks():
				asked = s.ask(ctx)
			default:
				why = idle.verdict("")
			}
		case mark := <-asked:
			asked = nil
			// A cancel ends the question too, and no answer to that is no stall: it would cost the item an attempt.
			if ctx.Err() == nil && idle.over() && !idle.moved(mark) {
				why = idle.verdict(s.job.BackendURL)
			}
		}
		if v.result == "" && why.result != "" {
			v, late = why, hurry
			s.end(s.job.Grace)
		}
	}
}

// cancelled is the verdict when the context has ended.
func cancelled(ctx context.Context) verdict {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return verdict{agents.Cancelled, "ended: " + cause.Error()}
	}
	return verdict{agents.Cancelled, "ended on request"}
}

// timeout comes when the job's time is over, counted from the program's beginning; never without one.
func (s *session) timeout() <-chan time.Time {
	if s.job.Timeout <= 0 {
		return nil
	}
	return time.After(time.Until(s.begun.Add(s.job.Timeout)))
}
