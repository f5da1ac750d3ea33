package process

import (
	"cmp"
	"context"
	"errors"
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
	// Store keeps the sessions beyond this process's life; nil keeps none. See Adopt and Forget.
	Store Store
	// InitPID is the process below which this one runs and which adopts orphans; 0 means that this process adopts them.
	InitPID int
	// Ended receives the number of processes of an earlier supervisor that Unreported ended, if there were any. It may be
	// nil.
	Ended func(n int)

	mu sync.Mutex
	// The three tables are by run id, and disjoint.
	adopted  map[string]*run // of an earlier supervisor, or left running by Run, before the next Run
	runs     map[string]*run // whose Run has not returned
	reported map[string]*run // whose Run has returned the outcome, before Forget
	shims    map[int]bool    // by process number: whether the program is restricted, or about to be
	noGrace  chan struct{}   // closed by SkipGrace; made when it is first needed

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
// that has only a run id, and is not known, is Lost.
//
// A run id may be reused once its Run has returned: Run appends to the log, and removes an old result before the
// start. For the run id of an adopted session (see Adopt) Run starts nothing and ignores every field of the job but
// Spent and Hurry: it calls started if the program runs or ran, and continues the session. It is Lost if the program
// was not ordered to start.
//
// With a Store, a session outlives this process: when ctx ends with agents.ErrDetached, Run leaves the session alone,
// as if an earlier supervisor had started it: another Run of it continues. Its outcome stays with the shim until
// Forget, which has to be called after every Run; until then Run, also that of a later supervisor, returns the outcome
// again.
func (e *Executor) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	r, err := e.enter(job)
	if err != nil {
		return agents.Outcome{Result: agents.Failed, Reason: "internal error: " + err.Error()}
	}
	if r == nil {
		return agents.Outcome{Result: agents.Lost, Reason: "nothing runs as " + job.RunID}
	}
	defer e.leave(r)
	if r.link != nil {
		r.link.send(order{}) // asks for its state
	} else {
		if err := r.startPatiently(ctx); ctx.Err() != nil && err != nil {
			return endedBy(cancelled(ctx), agents.Outcome{}, agents.Outcome{})
		} else if err != nil {
			return notStarted(job.Command[0], err)
		}
	}
	return r.follow(ctx, started)
}

// enter returns the job's run: an adopted one, one that Run has reported before, or a new one. It returns nil for a job
// that has only a run id which is unknown.
func (e *Executor) enter(job agents.Job) (*run, error) {
	if job.RunID == "" || strings.ContainsAny(job.RunID, "/\x00") {
		return nil, errors.New("a job without a usable run id")
	}
	resumes := len(job.Command) == 0 && job.Dir == ""
	if !resumes {
		e.forgetReported(job.RunID)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r := cmp.Or(e.adopted[job.RunID], e.reported[job.RunID])
	switch {
	case e.runs[job.RunID] != nil:
		return nil, fmt.Errorf("the run %s is running already", job.RunID)
	case r != nil:
		r.job.Spent, r.job.Doing, r.job.Hurry = job.Spent, job.Doing, job.Hurry
		delete(e.adopted, job.RunID)
		delete(e.reported, job.RunID)
	case resumes:
		return nil, nil
	case len(job.Command) == 0:
		return nil, errors.New("a job without a command")
	default:
		r = newRun(job, e)
	}
	if e.runs == nil {
		e.runs, e.reported = make(map[string]*run), make(map[string]*run)
	}
	e.runs[job.RunID] = r
	return r, nil
}

// leave removes a run whose Run returns, or keeps it for another Run if its session goes on.
func (e *Executor) leave(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.runs, r.job.RunID)
	if r.left {
		r.left = false
		if e.adopted == nil {
			e.adopted = make(map[string]*run)
		}
		e.adopted[r.job.RunID] = r
	}
}

// report lets a run that has an outcome wait for Forget, if it is kept.
func (e *Executor) report(r *run) {
	if !r.kept {
		r.forget()
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reported[r.job.RunID] = r
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

// Unreported returns the run ids of the instance's adopted sessions whose end Run has not reported, sorted. It ends
// every other process that an earlier supervisor of this instance left behind: see endStale.
func (e *Executor) Unreported(ctx context.Context, instance string) (runs []string, err error) {
	e.mu.Lock()
	for id := range e.adopted {
		if strings.HasPrefix(id, instance+"-") {
			runs = append(runs, id)
		}
	}
	e.mu.Unlock()
	slices.Sort(runs)
	n, err := endStale(ctx, instance, e.known)
	if n > 0 && e.Ended != nil {
		e.Ended(n)
	}
	return runs, err
}

// known reports whether a shim, or a process with a run id, belongs to a run of this executor.
func (e *Executor) known(pid int, runID string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, shim := e.shims[pid]
	return shim || e.adopted[runID] != nil || e.runs[runID] != nil || e.reported[runID] != nil
}

// addShim makes a shim known.
func (e *Executor) addShim(pid int, confined bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shims == nil {
		e.shims = make(map[int]bool)
	}
	e.shims[pid] = confined
}

func (e *Executor) removeShim(pid int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.shims, pid)
}

// listShims returns the known shims, as in shims.
func (e *Executor) listShims() map[int]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.shims)
}

// heir is the process that becomes the parent of the session's processes if their shim is killed.
func (e *Executor) heir() int { return cmp.Or(e.InitPID, os.Getpid()) }

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
