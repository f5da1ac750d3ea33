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

// Executor runs sessions as processes of this machine. Set Reaper, and the other fields if wanted, before the first
// Run; leave all of them alone after it. Its methods may be called at any time, from any number of goroutines.
type Executor struct {
	Reaper *Reaper
	// Secrets returns the texts to hide, besides the session's own, in what a session leaves: its result and the tail of
	// its log. It is called at the end of every session, so that a reloaded configuration counts. nil: no others.
	Secrets func() []string
	// Progress asks the local inference server at url how far it is. The answer changes when the server gets further, and
	// is empty when it computes nothing or does not say. It is called from a goroutine of its own, only before a session
	// that has long been silent would be ended. With nil no server is asked.
	Progress func(ctx context.Context, url string) string
	// Ended is told how many processes of an earlier supervisor Kept has ended, if there were any. nil: not asked for.
	Ended func(n int)

	mu        sync.Mutex
	runs      map[string]*run    // by run id
	inherited map[string]*handed // sessions of the last image that Run has not been called for yet, by run id
	hurry     chan struct{}      // closed by Hurry; made when it is first needed

	looks looks
}

// Run starts the job's program and returns when no process of the session is left: neither the program nor any process
// that it ever started. It takes as long as the session; give each session a goroutine of its own. Run calls started,
// if that is not nil, once on the same goroutine when the program runs; until started returns, the session is not
// watched. started is not called for a program that could not be started.
//
// Run ends all processes of the session when ctx is done (Cancelled, with the context's cause as the reason), when the
// job's timeout or stall is over (TimedOut, Stalled), and when the program has exited and left processes behind. It
// sends TERM to each process, KILL after the grace, and KILL again until none is left.
//
// Every failure is an outcome. A program that cannot be started is Failed, with a shell's exit code and the reason;
// when the machine has no room for another process, Run tries again for a minute, and then the outcome is NoRoom. A run
// id that is running already, or that cannot be the name of a folder, is Failed as an internal error, and nothing is
// touched. A job that has only a run id, and is not inherited, is Lost.
//
// A run id may be used again when its Run has returned: the log is appended to, and an old result is removed before the
// start. For the run id of an inherited session (see Inherit) Run starts nothing and ignores the job's other fields but
// Spent: it calls started with the program that runs, and goes on with the session.
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
	r.job.Spent = job.Spent
	if !e.enter(r) {
		return agents.Outcome{Result: agents.Failed, Reason: "internal error: the run " + job.RunID + " is running already"}
	}
	defer e.leave(r)
	if r.program() == 0 {
		if err := r.startPatiently(ctx); ctx.Err() != nil && err != nil {
			return endedBy(cancelled(ctx), agents.Outcome{}, agents.Outcome{})
		} else if err != nil {
			return notStarted(job.Command[0], err)
		}
	}
	return r.follow(ctx, started)
}

// Hurry cuts every grace short: processes that are being ended, or will be, are killed at once. It answers the second
// signal of a person who does not want to wait. It cannot be undone, and may be repeated.
func (e *Executor) Hurry() {
	c := e.hurried()
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// Activity tells when the program of a run last printed something, and its process number. It costs one look at the log
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

// Kept ends every process that an earlier supervisor of this instance left behind, and returns no run: a session does
// not outlive the supervisor that it is a child of. See EndStale.
func (e *Executor) Kept(ctx context.Context, instance string) ([]string, error) {
	n, err := EndStale(ctx, instance)
	if n > 0 && e.Ended != nil {
		e.Ended(n)
	}
	return nil, err
}

// enter adds a run; false when its id is taken.
func (e *Executor) enter(r *run) bool {
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

func (e *Executor) leave(r *run) {
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

// hurried returns a channel that is closed by Hurry.
func (e *Executor) hurried() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hurry == nil {
		e.hurry = make(chan struct{})
	}
	return e.hurry
}

// startPatiently retries a start that failed for want of processes or memory. The slot stays taken meanwhile, since no
// other program would start in it either.
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
			r.note(fmt.Sprintf("%s (is there a pids limit?), trying again for %s: %v", room, pid1.StartPatience, err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
