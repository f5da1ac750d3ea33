package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// ending is how the watch of a session ended.
type ending int

// The endings.
const (
	complete  ending = iota // no process is left, and the shim has reported that
	shimGone                // the shim was ended from outside
	unstarted               // the shim had no order to start, and will not get one
	detached                // the session continues without us
)

// shimSlack is how long a shim may take to kill its tree after the grace; it needs milliseconds. When the supervisor
// stops, 2 s remain after the grace for this and for every release.
const shimSlack = 500 * time.Millisecond

// watch watches a session to its end. When the shim first reports the program, watch calls started. If the session must
// end, watch orders the shim to end it. A shim that does not obey is killed: an agent with the supervisor's account can
// stop its shim with SIGSTOP.
func (r *run) watch(ctx context.Context, started func(agents.Started)) ending {
	w := watch{run: r, cancel: ctx.Done(), timeout: bootAfter(r.timeoutAt())}
	switch r.state.Phase {
	case runs: // we have just started it
		w.begin(started)
	case ended: // its outcome is reported again
		return complete
	default:
		r.signalShim(unix.SIGCONT) // perhaps an agent has stopped it
	}
	for {
		var why verdict
		select {
		case s, ok := <-r.link.states:
			if !ok {
				return shimGone
			}
			if how, over := w.hear(s, started); over {
				return how
			}
		case <-w.late:
			w.late = nil
			w.end(0)
		case <-w.hurry:
			w.hurry = nil
			w.end(0)
		case <-w.overdue:
			r.signalShim(unix.SIGKILL)
		case <-w.cancel:
			w.cancel = nil
			if why = cancelled(ctx); r.kept && errors.Is(context.Cause(ctx), agents.ErrDetached) {
				return detached
			}
		case <-w.timeout:
			if w.timeout = nil; bootTime() >= r.timeoutAt() {
				why = r.late()
			} else {
				w.timeout = bootAfter(r.timeoutAt())
			}
		case <-w.meter:
			r.measure()
		case <-r.idle.ticks:
			why = w.idle(ctx)
		case mark := <-w.asked:
			w.asked = nil
			why = r.judgeSilence(ctx, mark)
		}
		w.decide(why, r.job.Grace)
	}
}

// watch holds what the goroutine that watches a session waits for.
type watch struct {
	*run
	told    bool            // started was called
	cancel  <-chan struct{} // the caller has cancelled the session
	late    <-chan struct{} // every grace is over, once the session is being ended
	hurry   <-chan struct{} // likewise, this session's
	overdue <-chan time.Time
	timeout <-chan time.Time
	meter   <-chan time.Time
	asked   chan string // delivers the backend's answer; nil when no question is pending
}

// begin begins to watch the program.
func (w *watch) begin(started func(agents.Started)) {
	w.told = true
	w.run.began()
	if started != nil {
		started(agents.Started{PID: w.program(), At: w.begun, Sandbox: w.held})
	}
	if w.job.Service == "" {
		w.exec.observer.begin(w.observed)
	}
	w.run.idle.begin(w.job, w.shim.PID)
	w.meter, w.timeout = w.run.meter.ticks(w.job), bootAfter(w.timeoutAt())
}

// hear takes in the shim's state, and returns whether the watch is over.
func (w *watch) hear(s shimState, started func(agents.Started)) (how ending, over bool) {
	w.state = s
	if s.Phase == waiting { // an earlier supervisor was killed before its order
		return unstarted, true
	}
	if !w.told && s.Program != 0 {
		w.begin(started)
	}
	if s.Phase == ended {
		return complete, true
	}
	if w.verdict == (verdict{}) && s.Verdict != (verdict{}) { // it has been ordered to end before
		w.verdict, w.late, w.hurry = s.Verdict, w.exec.graceSkipped(), w.job.Hurry
		w.overdue = time.After(w.job.Grace + shimSlack)
	}
	return 0, false
}

// decide ends the session for a reason, if there is one and the session is not being ended.
func (w *watch) decide(why verdict, grace time.Duration) {
	if why != (verdict{}) && w.verdict == (verdict{}) {
		w.verdict, w.late, w.hurry = why, w.exec.graceSkipped(), w.job.Hurry
		w.end(grace)
	}
}

// end orders the shim to end the session.
func (w *watch) end(grace time.Duration) {
	w.signalShim(unix.SIGCONT)
	w.link.send(order{End: &endOrder{grace, w.verdict}})
	w.overdue = time.After(grace + shimSlack)
}

// idle looks whether the session has stalled, and stores what it sees now and then.
func (w *watch) idle(ctx context.Context) (why verdict) {
	stalled := w.asked == nil && w.run.idle.check()
	if time.Since(w.remembered) > memoRest {
		_ = w.remember() // the next tick retries it
	}
	switch {
	case !stalled:
	case w.exec.Progress != nil && w.job.BackendURL != "":
		w.asked = w.fetchProgress(ctx)
	default:
		why = w.run.idle.verdict("")
	}
	return why
}

// began takes in the start of the program from the shim's state.
func (r *run) began() {
	if why := r.state.NoSandbox; why != "" {
		if r.held != "" {
			r.log("no sandbox: " + why)
		}
		r.held = ""
		r.exec.addShim(r.shim.PID, false)
	}
	r.begun, r.observed = r.state.Begun, newObservations(r, r.state.Program, r.earlier)
	r.pid.Store(int64(r.state.Program))
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

// late is the verdict for a session whose timeout is over.
func (r *run) late() verdict {
	return verdict{agents.TimedOut, fmt.Sprintf("ended after its timeout of %s", r.job.Timeout)}
}

// timeoutAt is when, since boot, the shim has not ended the session at its timeout, because an agent has stopped it. It
// is 0 for a job without a timeout.
func (r *run) timeoutAt() time.Duration {
	if r.job.Timeout <= 0 {
		return 0
	}
	return r.state.Since + r.job.Timeout + shimSlack
}
