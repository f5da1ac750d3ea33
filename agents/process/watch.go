package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// verdict is why we ended a session. Its zero value means that we did not.
type verdict struct {
	result agents.Result
	reason string
}

// shimSlack is how long a shim may take to kill its tree after the grace; it needs milliseconds. When the supervisor
// stops, 2 s remain after the grace for this and for every release.
const shimSlack = 500 * time.Millisecond

// watch waits for the end of the session's shim and returns its exit. If the session must end, watch orders the shim
// to end it, and the first reason becomes the verdict. A shim that does not obey is killed: an agent with the
// supervisor's account can stop its shim with SIGSTOP.
func (r *run) watch(ctx context.Context) Exit {
	defer close(r.unwatched)
	r.idle.begin(r.job, r.shim.PID)
	meter := r.meter.ticks(r.job)
	cancel, timeout := ctx.Done(), r.timeout()
	var late, hurry <-chan struct{} // each ends the grace, once the session is being ended
	if r.verdict.result != "" {
		late, hurry = r.exec.graceSkipped(), r.job.Hurry
	}
	var overdue <-chan time.Time
	end := func(grace time.Duration) {
		r.signalShim(unix.SIGCONT)
		r.link.end(grace)
		overdue = time.After(grace + shimSlack)
	}
	if r.verdict.result != "" { // the last image has sent the order
		overdue = time.After(r.job.Grace + shimSlack)
	}
	var asked chan string // delivers the backend's answer; nil when no question is pending
	for {
		var why verdict
		select {
		case exit := <-r.shim.Exit():
			return exit
		case visit := <-r.visits:
			asked = nil // a pending answer is dropped; the next tick asks again
			visit()
		case <-late:
			late = nil
			end(0)
		case <-hurry:
			hurry = nil
			end(0)
		case <-overdue:
			r.signalShim(unix.SIGKILL)
		case <-cancel:
			cancel = nil
			why = cancelled(ctx)
		case <-timeout:
			why = verdict{agents.TimedOut, fmt.Sprintf("ended after its timeout of %s", r.job.Timeout)}
		case <-meter:
			r.measure()
		case <-r.idle.ticks:
			switch {
			case asked != nil || !r.idle.check():
			case r.exec.Progress != nil && r.job.BackendURL != "":
				asked = r.fetchProgress(ctx)
			default:
				why = r.idle.verdict("")
			}
		case mark := <-asked:
			asked = nil
			why = r.judgeSilence(ctx, mark)
		}
		if r.verdict.result == "" && why.result != "" {
			r.verdict, late, hurry = why, r.exec.graceSkipped(), r.job.Hurry
			end(r.job.Grace)
		}
	}
}

// judgeSilence returns the verdict about a silent session after its backend's answer. A cancel ends the question too:
// an empty answer after it is not a stall, which would cost the item an attempt.
func (r *run) judgeSilence(ctx context.Context, mark string) (why verdict) {
	if ctx.Err() == nil && r.idle.check() && !r.idle.progressed(mark) {
		why = r.idle.verdict(r.job.BackendURL)
	}
	return why
}

// cancelled is the verdict for a context that has ended.
func cancelled(ctx context.Context) verdict {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return verdict{agents.Cancelled, "ended: " + cause.Error()}
	}
	return verdict{agents.Cancelled, "ended on request"}
}

// timeout fires when the job's time since the program's start is over; it is nil for a job without a timeout.
func (r *run) timeout() <-chan time.Time {
	if r.job.Timeout <= 0 {
		return nil
	}
	return time.After(time.Until(r.begun.Add(r.job.Timeout)))
}
