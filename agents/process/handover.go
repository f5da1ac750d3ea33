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

// Handover carries the sessions of a process over an upgrade in place, from one image of the program to the next. The
// process stays the same, and with it the children, the statuses that were not fetched yet, and the descriptors in
// Keep.
//
//	h, resume, err := executor.Detach()  // in the old image: sessions stand still
//	err = process.Become(..., h.Keep())  // execve; if it fails, resume
//	reaper, err := h.NewReaper()         // in the new image, before anything is started
//	executor.Inherit(h)
//	outcome := executor.Run(ctx, job, started) // with the run id of a session: goes on with it
//
// It is JSON, which every later version must be able to read, and holds no secret: a program that runs does not need
// its environment any more.
type Handover struct {
	Sessions []handed `json:"sessions"` // sorted by run id
	Orphans  int64    `json:"orphans"`
}

// handed is one session that goes on, with what the old image has learnt of its end.
type handed struct {
	Job     agents.Job          `json:"job"`
	Cred    *syscall.Credential `json:"cred,omitempty"` // of the account; nil for our own
	Shim    int                 `json:"shim"`
	Since   uint64              `json:"since"`
	Program int                 `json:"program"`
	Begun   time.Time           `json:"begun"`
	Socket  int                 `json:"socket"`
	Heard   []byte              `json:"heard,omitempty"`  // read from the socket: the beginning of a report
	Silent  bool                `json:"silent,omitempty"` // the shim has ended, without Report if killed
	Report  *endReport          `json:"report,omitempty"`
	Exit    *Exit               `json:"exit,omitempty"` // of the shim
	Result  agents.Result       `json:"result,omitempty"`
	Reason  string              `json:"reason,omitempty"` // why it is being ended; empty while it is not
	Idle    mark                `json:"idle"`
	Held    string              `json:"held,omitempty"` // by the sandbox
	Rules   landlock.Rules      `json:"rules,omitzero"`
	Seen    *recalled           `json:"seen,omitempty"`

	child *Child // the shim, in the next image
}

// ErrBusy is the error of a hand-over that has to wait for something which takes a moment. Try again.
var ErrBusy = errors.New("cannot hand over now")

// Runs returns the run ids of the sessions, in the order of the hand-over.
func (h *Handover) Runs() []string {
	var runs []string
	for i := range h.Sessions {
		runs = append(runs, h.Sessions[i].Job.RunID)
	}
	return runs
}

// Keep returns the descriptors that the next image needs.
func (h *Handover) Keep() []int {
	var fds []int
	for i := range h.Sessions {
		fds = append(fds, h.Sessions[i].Socket)
	}
	return fds
}

// Detach stops all sessions at a point where another image can take them over: from then on no status is fetched and no
// process started. If execve fails, resume lets everything go on. The error wraps ErrBusy when a process is just being
// started or a session is beginning or ending; then nothing has changed.
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

// Peek returns the hand-over of these runs while they go on, to find out whether another image understands it. It has
// no descriptors, and nothing of a session's end.
func (e *Executor) Peek(runs []string) *Handover {
	h := &Handover{Orphans: e.Reaper.Orphans()}
	for _, r := range e.list() {
		if r.program() != 0 && slices.Contains(runs, r.job.RunID) {
			h.Sessions = append(h.Sessions, r.handOver())
		}
	}
	return h
}

// NewReaper is the package's NewReaper for a process whose last image left children.
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

// Inherit takes over the sessions of the last image: Run with the id of one of them goes on with it and starts nothing.
// Call it before the first Run, once, on an executor whose reaper is that of the hand-over.
func (e *Executor) Inherit(h *Handover) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inherited = make(map[string]*handed)
	for i := range h.Sessions {
		e.inherited[h.Sessions[i].Job.RunID] = &h.Sessions[i]
	}
}

// inherit returns the session of the last image with that run id, once; nil if there is none.
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
	r.witness = newWitness(r, h.Program, h.Seen)
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

// freeze stops all reaping and starting. The error is ErrBusy, wrapped, while a fork is under way or a child that is
// not among known runs.
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

// detach has the goroutine that watches the session stand still until resume is closed, and describes the session as it
// is then. Before the session is watched, and after its end, the error is ErrBusy, wrapped.
func (r *run) detach(resume chan struct{}) (handed, error) {
	busy := fmt.Errorf("%w: %s is beginning or ending", ErrBusy, r.job.RunID)
	if r.program() == 0 {
		return handed{}, busy
	}
	got := make(chan handed)
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
		return handed{}, busy
	}
}

// handOver describes the part of the session that no longer changes.
func (r *run) handOver() handed {
	h := handed{
		Job: r.job, Cred: r.account.credential(), Shim: r.shim.PID, Since: r.since, Program: r.program(), Begun: r.begun,
		Held: r.held, Rules: r.rules, Seen: r.witness.recall(),
	}
	h.Job.Env = nil
	return h
}

// Descriptor returns the number behind a file or a connection; -1 when it is closed. Unlike Fd it leaves the file in
// non-blocking mode, in which waiting for it takes no thread.
func Descriptor(f syscall.Conn) (number int) {
	number = -1
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { number = int(fd) })
	}
	return number
}
