package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// Handover is what one image of a program tells the next about its children, when it is replaced in place. The process
// stays the same, and with it the children, the statuses that nobody has fetched yet, and the descriptors in Keep. It is
// JSON, and holds no secret: the environment of a session's program is not needed any more once that runs.
type Handover struct {
	Sessions []handed `json:"sessions"`
	Orphans  int64    `json:"orphans"`
}

// handed is one session that goes on. What the old image has already learnt of its end is in it.
type handed struct {
	Job     agents.Job          `json:"job"`
	Cred    *syscall.Credential `json:"cred,omitempty"` // of the account; nil for our own
	Shim    int                 `json:"shim"`
	Since   uint64              `json:"since"`
	Program int                 `json:"program"`
	Begun   time.Time           `json:"begun"`
	Socket  int                 `json:"socket"`
	Heard   []byte              `json:"heard,omitempty"`  // read from the socket, and not a whole report yet
	Silent  bool                `json:"silent,omitempty"` // the shim has said its last word: Report, or none at all
	Report  *endReport          `json:"report,omitempty"`
	Exit    *Exit               `json:"exit,omitempty"` // of the shim
	Result  agents.Result       `json:"result,omitempty"`
	Reason  string              `json:"reason,omitempty"` // why it is being ended; empty while it is not
	Idle    mark                `json:"idle"`

	child *Child // the shim, in the next image
}

// letGo asks the goroutine that watches a session to leave it to another image; it goes on watching if resume is closed.
type letGo struct {
	answer chan handed
	resume chan struct{}
}

// ErrBusy is the error of a hand-over that has to wait for something which takes a moment.
var ErrBusy = errors.New("cannot hand over now")

// Runs are the sessions in the order of the hand-over.
func (h *Handover) Runs() []string {
	var runs []string
	for i := range h.Sessions {
		runs = append(runs, h.Sessions[i].Job.RunID)
	}
	return runs
}

// Keep are the descriptors that the next image needs.
func (h *Handover) Keep() []int {
	var fds []int
	for i := range h.Sessions {
		fds = append(fds, h.Sessions[i].Socket)
	}
	return fds
}

// Detach brings all sessions to a point at which another image can take them over, and keeps them there: from now on no
// status is fetched and no process started. If the image cannot be replaced, resume lets everything go on. The error is
// ErrBusy, wrapped, when something is just beginning or ending.
func (e *Executor) Detach() (h *Handover, resume func(), err error) {
	thaw, others, err := e.Reaper.freeze(e.shims())
	if err != nil {
		return nil, nil, err
	}
	h = &Handover{Orphans: e.Reaper.orphans}
	again := make(chan struct{})
	resume = func() {
		close(again)
		thaw()
	}
	if others > 0 {
		resume()
		return nil, nil, fmt.Errorf("%w: a command runs", ErrBusy)
	}
	for _, s := range e.list() {
		got, err := s.detach(again)
		if err != nil {
			resume()
			return nil, nil, err
		}
		h.Sessions = append(h.Sessions, got)
	}
	return h, resume, nil
}

// Peek is what Detach would hand over of some runs, while everything goes on. It is for finding out whether another image understands
// it.
func (e *Executor) Peek(runs []string) *Handover {
	h := &Handover{Orphans: e.Reaper.Orphans()}
	for _, s := range e.list() {
		if s.program() != 0 && slices.Contains(runs, s.job.RunID) {
			h.Sessions = append(h.Sessions, s.handOver(verdict{}, mark{}))
		}
	}
	return h
}

// freeze stops all reaping and starting, and counts the children that are not among known. Nothing can be counted while
// a fork is under way.
func (r *Reaper) freeze(known map[int]bool) (thaw func(), others int, err error) {
	r.mu.Lock()
	if r.starting > 0 {
		r.mu.Unlock()
		return nil, 0, fmt.Errorf("%w: a process is being started", ErrBusy)
	}
	for pid := range r.children {
		if !known[pid] {
			others++
		}
	}
	return r.mu.Unlock, others, nil
}

// detach asks the session's watcher. Before it watches and after it has seen the end there is nobody to ask.
func (s *session) detach(resume chan struct{}) (handed, error) {
	busy := fmt.Errorf("%w: %s is beginning or ending", ErrBusy, s.job.RunID)
	if s.program() == 0 {
		return handed{}, busy
	}
	l := letGo{answer: make(chan handed, 1), resume: resume}
	select {
	case s.letGo <- l:
		return <-l.answer, nil
	case <-s.unwatched:
		return handed{}, busy
	}
}

// handOver is the session as it is now.
func (s *session) handOver(v verdict, m mark) handed {
	h := handed{
		Job: s.job, Cred: s.account.credential(), Shim: s.shim.PID, Since: s.since, Program: s.program(), Begun: s.begun,
		Result: v.result, Reason: v.reason, Idle: m,
	}
	h.Job.Env = nil
	return h
}

// pass answers a request to let go of the session, and returns when it is ours again after all.
func (s *session) pass(l letGo, v verdict, m mark) {
	h := s.handOver(v, m)
	_ = s.socket.SetReadDeadline(time.Now()) // wakes the listener, if it still listens
	<-s.deaf
	select {
	case h.Report = <-s.report:
		h.Silent = true
	default:
		h.Heard, _ = io.ReadAll(s.in.Buffered())
	}
	select {
	case e := <-s.shim.exit:
		h.Exit = &e
	default:
	}
	h.Socket = Descriptor(s.socket)
	l.answer <- h
	<-l.resume
	s.regain(&h)
}

// regain puts back what pass took out.
func (s *session) regain(h *handed) {
	_ = s.socket.SetReadDeadline(time.Time{})
	if h.Exit != nil {
		s.shim.exit <- *h.Exit
	}
	s.in = json.NewDecoder(io.MultiReader(bytes.NewReader(h.Heard), s.socket))
	if h.Silent {
		s.report <- h.Report
		return
	}
	s.listen()
}

// Descriptor is the number behind a file or a connection, -1 when it is closed. What waits for it goes on doing so without
// a thread, which Fd would end.
func Descriptor(f syscall.Conn) (number int) {
	number = -1
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { number = int(fd) })
	}
	return number
}

// NewReaper is process.NewReaper for a process whose last image left its children.
func (h *Handover) NewReaper() (*Reaper, error) {
	r := &Reaper{children: make(map[int]*Child), early: make(map[int]Exit), orphans: h.Orphans}
	for i := range h.Sessions {
		c := &Child{PID: h.Sessions[i].Shim, exit: make(chan Exit, 1)}
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

// Inherit takes over the sessions of the last image: Run with the id of one of them goes on with it, and starts nothing.
// Its reaper is that of the hand-over.
func (e *Executor) Inherit(h *Handover) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inherited = make(map[string]*handed)
	for i := range h.Sessions {
		e.inherited[h.Sessions[i].Job.RunID] = &h.Sessions[i]
	}
}

// inherit is the session of the last image with that run id; nil if there is none.
func (e *Executor) inherit(runID string) *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.inherited[runID]
	if h == nil {
		return nil
	}
	delete(e.inherited, runID)
	s := newSession(h.Job, e)
	s.shim, s.since, s.begun = h.child, h.Since, h.Begun
	s.pid.Store(int64(h.Program))
	if h.Cred != nil {
		s.account = &account{name: h.Job.User, cred: *h.Cred}
	}
	s.cgroup = newCgroup(h.Job.RunID)
	unix.CloseOnExec(h.Socket)
	s.socket = os.NewFile(uintptr(h.Socket), "session shim")
	s.report = make(chan *endReport, 1)
	s.verdict, s.mark = verdict{h.Result, h.Reason}, h.Idle
	again := *h
	again.Exit = nil // it is in the channel of the child
	s.regain(&again)
	return s
}
