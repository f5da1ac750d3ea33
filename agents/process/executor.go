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
)

const (
	// startPatience is how long a start is repeated while the machine has no room for another process. The slot is held
	// meanwhile: whatever else ran there would not start either.
	startPatience = time.Minute
	// startPause is the first pause between two such attempts; each one is twice as long, up to 5 s.
	startPause = 100 * time.Millisecond
)

// Executor runs sessions as processes. Reaper must be set; the other fields may be left alone. Its methods may be
// called at the same time.
type Executor struct {
	Reaper *Reaper
	// Secrets are the texts to hide in what a session leaves: its result, and the tail of its log. nil means none. It is
	// asked at the end of every session, so that a reloaded configuration counts.
	Secrets func() []string

	// Progress asks a local inference server how far it is: a text that is another one when it has got further, and empty
	// when it computes nothing or does not say. It is asked only before a session that has long been silent would be
	// ended. nil asks nobody.
	Progress func(ctx context.Context, url string) string

	mu       sync.Mutex // guards what follows
	sessions map[string]*session
	hurry    chan struct{} // closed by Hurry; nil until somebody needs it
	hurried  bool
	// inherited are the sessions of the program's last image that nobody has asked for yet.
	inherited map[string]*handed
}

// Run starts the job's program and returns when nothing of it is left: not the program, and no process that it ever
// started. started, if not nil, is called once the program runs.
//
// The tree is ended when ctx is done (Cancelled, with the context's cause as the reason), when the job's timeout or
// stall is over (TimedOut, Stalled), and when the program has ended by itself but left processes behind. Ending it is
// TERM to every process, KILL after the grace, and again until there are none.
//
// Of a job whose run id is that of an inherited session nothing else is looked at.
func (e *Executor) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	if s := e.inherit(job.RunID); s != nil {
		e.enter(s)
		defer e.leave(s)
		return e.see(ctx, s, started)
	}
	if len(job.Command) == 0 || job.RunID == "" || strings.ContainsAny(job.RunID, "/\x00") {
		return agents.Outcome{Result: agents.Failed, Reason: "internal error: a job without a command, or a good run id"}
	}
	s := newSession(job, e)
	if !e.enter(s) {
		return agents.Outcome{Result: agents.Failed, Reason: "internal error: the run " + job.RunID + " is there already"}
	}
	defer e.leave(s)
	if err := e.start(ctx, s); err != nil {
		if ctx.Err() != nil {
			return endedBy(cancelled(ctx), agents.Outcome{}, agents.Outcome{})
		}
		return notStarted(job.Command[0], err)
	}
	return e.see(ctx, s, started)
}

// see watches a session whose program runs until nothing of it is left.
func (e *Executor) see(ctx context.Context, s *session, started func(agents.Started)) agents.Outcome {
	defer s.close()
	if started != nil {
		started(agents.Started{PID: s.program(), At: s.begun})
	}
	v := s.watch(ctx, e.hurryChannel())
	secrets := e.secrets()
	o := s.conclude(v, secrets)
	o.Tail = tail(s.job.LogPath, secrets)
	return o
}

// start repeats a start that failed for want of processes or memory.
func (e *Executor) start(ctx context.Context, s *session) error {
	pause, began := startPause, time.Now()
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := s.start()
		if err == nil || !Exhausted(err) {
			return err
		}
		if time.Since(began) > startPatience {
			return fmt.Errorf("no room for another process for %s (is there a pids limit?): %w", startPatience, err)
		}
		if pause == startPause {
			s.note(fmt.Sprintf("no room for another process (is there a pids limit?), trying again for %s: %v", startPatience, err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// Hurry cuts every grace short, now and from now on: what is being ended, or will be, is killed at once. It is for the
// second signal of somebody who does not want to wait.
func (e *Executor) Hurry() {
	c := e.hurryChannel()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.hurried {
		e.hurried = true
		close(c)
	}
}

// Activity tells when the program of a run last printed something and what its process number is. It costs one look
// at the log file. ok is false when there is no such run, or it has not started yet.
func (e *Executor) Activity(runID string) (lastOutput time.Time, pid int, ok bool) {
	e.mu.Lock()
	s := e.sessions[runID]
	e.mu.Unlock()
	if s == nil || s.program() == 0 {
		return time.Time{}, 0, false
	}
	info, err := os.Stat(s.job.LogPath)
	if err != nil {
		return s.begun, s.program(), true
	}
	return info.ModTime(), s.program(), true
}

func (e *Executor) enter(s *session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions[s.job.RunID] != nil {
		return false
	}
	if e.sessions == nil {
		e.sessions = make(map[string]*session)
	}
	e.sessions[s.job.RunID] = s
	return true
}

// list are the sessions there are, by run id.
func (e *Executor) list() []*session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.SortedFunc(maps.Values(e.sessions), func(a, b *session) int { return strings.Compare(a.job.RunID, b.job.RunID) })
}

// shims are the children that are sessions.
func (e *Executor) shims() map[int]bool {
	pids := make(map[int]bool)
	for _, s := range e.list() {
		if s.program() != 0 {
			pids[s.shim.PID] = true
		}
	}
	return pids
}

func (e *Executor) leave(s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, s.job.RunID)
}

func (e *Executor) hurryChannel() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hurry == nil {
		e.hurry = make(chan struct{})
	}
	return e.hurry
}

func (e *Executor) secrets() []string {
	if e.Secrets == nil {
		return nil
	}
	return e.Secrets()
}
