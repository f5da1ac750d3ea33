package process

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/landlock"
)

// Handover carries the sessions of a process through an upgrade in place, from one image of the program to the next.
// The process stays the same, as do its children, the exit statuses that were not fetched yet, and the descriptors in
// Keep.
//
//	h, resume, err := executor.Detach()  // in the old image: pauses the watching of sessions
//	err = process.Become(..., h.Keep())  // execve; if it fails, resume
//	reaper, err := h.NewReaper()         // in the new image, before anything is started
//	executor.Inherit(h)
//	outcome := executor.Run(ctx, job, started) // continues the session with this run id
//
// It is JSON, which every later version must be able to read. It holds no secret, because a running program does not
// need its environment again.
type Handover struct {
	Sessions []sessionState `json:"sessions"` // sorted by run id
	Orphans  int64          `json:"orphans"`
}

// sessionState is one session that continues, with the old image's knowledge of its end.
type sessionState struct {
	Job     agents.Job          `json:"job"`
	Cred    *syscall.Credential `json:"cred,omitempty"` // of the account; nil for our own
	Shim    int                 `json:"shim"`
	Since   uint64              `json:"since"`
	Program int                 `json:"program"`
	Begun   time.Time           `json:"begun"`
	Socket  int                 `json:"socket"`
	Heard   []byte              `json:"heard,omitempty"`  // read from the socket: the beginning of a report
	Silent  bool                `json:"silent,omitempty"` // the shim has closed its socket, without Report if killed
	Report  *endReport          `json:"report,omitempty"`
	Exit    *Exit               `json:"exit,omitempty"` // of the shim
	Result  agents.Result       `json:"result,omitempty"`
	Reason  string              `json:"reason,omitempty"` // why it is being ended; empty while it is not
	Idle    mark                `json:"idle"`
	Held    string              `json:"held,omitempty"` // the sandbox's restrictions
	Rules   landlock.Rules      `json:"rules,omitzero"`
	Seen    *observationsState  `json:"seen,omitempty"`

	child *Child // the shim, in the next image
}

// ErrBusy is the error of a hand-over that must wait a moment. Try again.
var ErrBusy = errors.New("cannot hand over now")

// Runs returns the run ids of the sessions, in the order of the hand-over.
func (h *Handover) Runs() []string {
	var runs []string
	for i := range h.Sessions {
		runs = append(runs, h.Sessions[i].Job.RunID)
	}
	return runs
}

// Descriptors returns the descriptors that the next image needs.
func (h *Handover) Descriptors() []int {
	var fds []int
	for i := range h.Sessions {
		fds = append(fds, h.Sessions[i].Socket)
	}
	return fds
}

// Detach stops all sessions at a point where another image can take them over: from then on this image fetches no
// status and starts no process. If execve fails, call resume to continue. The error wraps ErrBusy when a process is
// being started, or a session is beginning or ending; then nothing has changed.
func (e *Executor) Detach() (h *Handover, resume func(), err error) {
	shims := make(map[int]bool)
	for _, r := range e.list() {
		if r.program() != 0 {
			shims[r.shim.PID] = true
		}
	}
	thaw, orphans, err := e.Reaper.freeze(shims)
	if err != nil {
		return nil, nil, err
	}
	h = &Handover{Orphans: orphans}
	again := make(chan struct{})
	resume = func() {
		close(again)
		thaw()
	}
	for _, r := range e.list() {
		got, err := r.detach(again)
		if err != nil {
			resume()
			return nil, nil, err
		}
		h.Sessions = append(h.Sessions, got)
	}
	return h, resume, nil
}

// Peek returns the hand-over of these runs while they continue, to find out whether another image can read it. It
// contains no descriptors and no facts about a session's end.
func (e *Executor) Peek(runs []string) *Handover {
	h := &Handover{Orphans: e.Reaper.Orphans()}
	for _, r := range e.list() {
		if r.program() != 0 && slices.Contains(runs, r.job.RunID) {
			h.Sessions = append(h.Sessions, r.handOver())
		}
	}
	return h
}

// NewReaper is the package's NewReaper for a process whose last image left children behind.
func (h *Handover) NewReaper() (*Reaper, error) {
	r := &Reaper{children: make(map[int]*Child), early: make(map[int]Exit), orphans: h.Orphans}
	for i := range h.Sessions {
		c := newChild(h.Sessions[i].Shim)
		if e := h.Sessions[i].Exit; e != nil {
			c.exit <- *e
		} else {
			r.children[c.PID] = c
		}
		h.Sessions[i].child = c
	}
	if err := r.begin(); err != nil {
		return nil, err
	}
	return r, nil
}

// Inherit takes over the last image's sessions: Run with such a session's id continues the session and starts
// nothing. Call it before the first Run, once, on an executor with the hand-over's reaper.
func (e *Executor) Inherit(h *Handover) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inherited = make(map[string]*sessionState)
	for i := range h.Sessions {
		e.inherited[h.Sessions[i].Job.RunID] = &h.Sessions[i]
	}
}

// inherit returns the last image's session with that run id, once; nil if there is none.
func (e *Executor) inherit(runID string) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.inherited[runID]
	if h == nil {
		return nil
	}
	delete(e.inherited, runID)
	r := newRun(h.Job, e)
	r.shim, r.since, r.begun = h.child, h.Since, h.Begun
	if h.Cred != nil {
		r.account = &account{name: h.Job.User, cred: *h.Cred}
	}
	r.observed = newObservations(r, h.Program, h.Seen)
	r.pid.Store(int64(h.Program))
	r.cgroup = newCgroup(h.Job.RunID)
	unix.CloseOnExec(h.Socket)
	r.link = newLink(h.Socket)
	r.link.report, r.link.ended, r.link.idle = h.Report, h.Silent, make(chan struct{})
	close(r.link.idle)
	r.link.resume(h.Heard)
	r.verdict, r.idle.mark, r.held = verdict{h.Result, h.Reason}, h.Idle, h.Held
	if r.rules = h.Rules; r.held != "" {
		r.confined.Store(int64(h.Shim))
	}
	return r
}

// freeze stops all reaping and starting. The error wraps ErrBusy while a fork is in progress, or while a child runs
// that is not among the known ones.
func (r *Reaper) freeze(known map[int]bool) (thaw func(), orphans int64, err error) {
	r.mu.Lock()
	if r.starting > 0 {
		r.mu.Unlock()
		return nil, 0, fmt.Errorf("%w: a process is being started", ErrBusy)
	}
	for pid := range r.children {
		if !known[pid] {
			r.mu.Unlock()
			return nil, 0, fmt.Errorf("%w: a command runs", ErrBusy)
		}
	}
	return r.mu.Unlock, r.orphans, nil
}

// detach pauses the goroutine that watches the session until resume is closed, and describes the session's state.
// Before the session is watched, and after its end, the error wraps ErrBusy.
func (r *run) detach(resume chan struct{}) (sessionState, error) {
	busy := fmt.Errorf("%w: %s is beginning or ending", ErrBusy, r.job.RunID)
	if r.program() == 0 {
		return sessionState{}, busy
	}
	got := make(chan sessionState)
	visit := func() {
		h := r.handOver()
		h.Result, h.Reason, h.Idle = r.verdict.result, r.verdict.reason, r.idle.mark
		h.Heard = r.link.pause()
		h.Silent, h.Report, h.Socket = r.link.ended, r.link.report, Descriptor(r.link.socket)
		select {
		case e := <-r.shim.exit:
			h.Exit = &e
		default:
		}
		got <- h
		<-resume
		if h.Exit != nil {
			r.shim.exit <- *h.Exit
		}
		r.link.resume(h.Heard)
	}
	select {
	case r.visits <- visit:
		return <-got, nil
	case <-r.unwatched:
		return sessionState{}, busy
	}
}

// handOver describes the part of the session that no longer changes.
func (r *run) handOver() sessionState {
	h := sessionState{
		Job: r.job, Cred: r.account.credential(), Shim: r.shim.PID, Since: r.since, Program: r.program(), Begun: r.begun,
		Held: r.held, Rules: r.rules, Seen: r.observed.state(),
	}
	h.Job.Env = nil
	return h
}

// Descriptor returns the number of a file or a connection; -1 when it is closed. Unlike Fd it leaves the file in
// non-blocking mode, in which no thread waits for it.
func Descriptor(f syscall.Conn) (number int) {
	number = -1
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { number = int(fd) })
	}
	return number
}
