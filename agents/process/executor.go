package process

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/pid1"
)

// Executor runs sessions as processes of this machine. Set Reaper and any other exported fields before the first Run,
// and do not change them afterwards. Its methods may be called at any time, from any number of goroutines.
type Executor struct {
	Reaper *Reaper
	// Secrets returns the texts to hide in a session's result and in the tail of its log, in addition to the session's
	// own secrets. It is called at the end of every session, so that a reloaded configuration counts. nil means no other
	// texts.
	Secrets func() []string
	// Progress asks the local inference server at url for its progress. The answer changes whenever the server advances,
	// and is empty when the server computes nothing or does not report. Progress is called from a goroutine of its own,
	// and only before a session would be ended for a long silence. nil asks no server.
	Progress func(ctx context.Context, url string) string
	// Ended receives the number of processes of an earlier supervisor that Unreported ended, if there were any. It may be
	// nil.
	Ended func(n int)

	mu        sync.Mutex
	runs      map[string]*run          // by run id
	inherited map[string]*sessionState // by run id: sessions of the last image before their Run
	noGrace   chan struct{}            // closed by SkipGrace; made when it is first needed

	observer observer
}

// Run starts the job's program and returns when no process of the session is left: neither the program nor any
// process that it ever started. It takes as long as the session, so call it in a goroutine per session. When the
// program runs, Run calls started, if that is not nil, once and on the same goroutine. The session is not watched
// until started returns. If the program cannot be started, started is not called.
//
// Run ends all processes of the session in three cases: ctx is done (Cancelled, with the context's cause as the
// reason); the job's timeout or stall is over (TimedOut, Stalled); the program has exited and left processes behind.
// It sends TERM to each process, KILL after the grace, and KILL again until none is left.
//
// Every failure is an outcome. A program that cannot be started is Failed, with a shell's exit code and the reason.
// When the machine has no room for another process, Run retries for a minute before it returns NoRoom. A run id that
// is already running, or that cannot name a folder, is Failed as an internal error, and nothing is touched. A job
// that has only a run id, and is not inherited, is Lost.
//
// A run id may be reused once its Run has returned: Run appends to the log, and removes an old result before the
// start. For the run id of an inherited session (see Inherit) Run starts nothing and ignores every field of the job
// but Spent and Hurry: it calls started with the running program, and continues the session.
func (e *Executor) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	r := e.inherit(job.RunID)
	switch {
	case r != nil:
	case len(job.Command) == 0 && job.Dir == "" && job.RunID != "":
		return agents.Outcome{Result: agents.Lost, Reason: "nothing runs as " + job.RunID}
	case len(job.Command) == 0 || job.RunID == "" || strings.ContainsAny(job.RunID, "/\x00"):
		return agents.Outcome{Result: agents.Failed, Reason: "internal error: a job without a command or a usable run id"}
	default:
		r = newRun(job, e)
	}
	r.job.Spent, r.job.Hurry = job.Spent, job.Hurry
	if !e.add(r) {
		return agents.Outcome{Result: agents.Failed, Reason: "internal error: the run " + job.RunID + " is running already"}
	}
	defer e.remove(r)
	if r.program() == 0 {
		if err := r.startPatiently(ctx); ctx.Err() != nil && err != nil {
			return endedBy(cancelled(ctx), agents.Outcome{}, agents.Outcome{})
		} else if err != nil {
			return notStarted(job.Command[0], err)
		}
	}
	return r.follow(ctx, started)
}

// SkipGrace cuts every grace short: processes that are being ended, now or later, are killed at once. It serves a
// person's second signal. It cannot be undone, and may be repeated.
func (e *Executor) SkipGrace() {
	c := e.graceSkipped()
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// Activity returns the time of a run's last output, and its program's process number. It costs one stat of the log
// file. ok is false when there is no such run, or its program has not started yet.
func (e *Executor) Activity(runID string) (a agents.Activity, ok bool) {
	e.mu.Lock()
	r := e.runs[runID]
	e.mu.Unlock()
	if r == nil || r.program() == 0 {
		return a, false
	}
	a = agents.Activity{LastOutput: r.begun, PID: r.program()}
	if info, err := os.Lstat(r.job.LogPath); err == nil {
		a.LastOutput = info.ModTime()
	}
	return a, true
}

// Unreported ends every process that an earlier supervisor of this instance left behind. It returns no run, because a
// session does not outlive its parent, the supervisor. See EndStale.
func (e *Executor) Unreported(ctx context.Context, instance string) ([]string, error) {
	n, err := EndStale(ctx, instance)
	if n > 0 && e.Ended != nil {
		e.Ended(n)
	}
	return nil, err
}

// add adds a run. It returns false when the run's id is taken.
func (e *Executor) add(r *run) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs[r.job.RunID] != nil {
		return false
	}
	if e.runs == nil {
		e.runs = make(map[string]*run)
	}
	e.runs[r.job.RunID] = r
	return true
}

func (e *Executor) remove(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.runs, r.job.RunID)
}

// list returns all runs, sorted by id.
func (e *Executor) list() []*run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.SortedFunc(maps.Values(e.runs), func(a, b *run) int { return strings.Compare(a.job.RunID, b.job.RunID) })
}

// graceSkipped returns a channel that SkipGrace closes.
func (e *Executor) graceSkipped() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.noGrace == nil {
		e.noGrace = make(chan struct{})
	}
	return e.noGrace
}

// startPatiently retries a start that failed for lack of processes or memory. The slot stays taken, because no other
// program would start in it either.
func (r *run) startPatiently(ctx context.Context) error {
	for pause, began := pid1.StartPause, time.Now(); ; pause = min(2*pause, 5*time.Second) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := r.start()
		if err == nil || !Exhausted(err) {
			return err
		}
		const room = "no room for another process"
		if time.Since(began) > pid1.StartPatience {
			return fmt.Errorf("%s for %s (is there a pids limit?): %w", room, pid1.StartPatience, err)
		}
		if pause == pid1.StartPause {
			r.log(fmt.Sprintf("%s (is there a pids limit?), trying again for %s: %v", room, pid1.StartPatience, err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
