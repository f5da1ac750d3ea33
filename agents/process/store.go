package process

import (
	"cmp"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/landlock"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// Store keeps descriptors beyond this process's life. It is the init's. An executor without one runs sessions that end
// with this process.
type Store interface {
	// Keep stores a copy of a descriptor under a name, and replaces an older one. pid and start are the process number and
	// start time of the shim at its other end; 0 for what is no shim. Keep does not wait for the store, which obeys in the
	// order of the calls.
	Keep(name string, fd, pid int, start uint64) error
	// Drop closes what is stored under a name. It may be repeated.
	Drop(name string)
}

// Kept is what a Store has kept for this supervisor.
type Kept struct {
	Name  string
	FD    int // the receiver owns it
	PID   int
	Start uint64 // in ticks since boot
	// Exit delivers how the shim ended, as a child of the init. It is closed when that is unknown.
	Exit <-chan Exit
}

// The store has two descriptors for each session: the socket of its shim, and a file in memory with what a later
// supervisor needs to know about it.
const (
	keptShim = "shim "
	keptMemo = "memo "
)

// memoRest is the shortest time between two memos of a session.
const memoRest = 30 * time.Second

// memo is what a supervisor needs to continue a session that an earlier one started, beside the shim's state. It holds
// no secret, because a running program does not need its environment again. Fields are added, never renamed.
type memo struct {
	Job   agents.Job          `json:"job"`
	Cred  *syscall.Credential `json:"cred,omitempty"` // of the account; nil for our own
	Path  string              `json:"path"`           // of the program
	Held  string              `json:"held,omitempty"` // the sandbox's restrictions
	Rules landlock.Rules      `json:"rules,omitzero"`
	Seen  *observationsState  `json:"seen,omitempty"`
	Idle  mark                `json:"idle,omitzero"`
	Since time.Duration       `json:"since"` // of the program's start, since boot
}

// keep stores the session's shim and memo, if the session is to outlive this process.
func (r *run) keep() error {
	if !r.kept {
		return nil
	}
	if err := r.exec.Store.Keep(keptShim+r.job.RunID, Descriptor(r.link.socket), r.shim.PID, r.shim.Start); err != nil {
		return err
	}
	return r.remember()
}

// remember stores the session's memo.
func (r *run) remember() error {
	if !r.kept {
		return nil
	}
	m := memo{
		Job: r.job, Cred: r.account.credential(), Path: r.path, Held: r.held, Rules: r.rules, Idle: r.idle.mark,
		Since: cmp.Or(r.state.Since, bootTime()),
	}
	m.Job.Env = nil
	if r.observed != nil {
		m.Seen = r.observed.state()
	}
	f, err := inMemory("memo")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeDocument(f, m); err != nil {
		return err
	}
	r.remembered = time.Now()
	return r.exec.Store.Keep(keptMemo+r.job.RunID, Descriptor(f), 0, 0)
}

// Adopt takes over the sessions that a Store kept, and ignores what other names stand for. Run with such a session's
// id then continues the session and starts nothing. Call it once, before the first Run and before this process answers
// any client: from then on Confined knows the sessions' processes. Adopt asks no shim, because a hundred that wake up
// take the processor from a supervisor that starts.
func (e *Executor) Adopt(list []Kept) {
	memos := make(map[string]Kept)
	for _, k := range list {
		if id, ok := strings.CutPrefix(k.Name, keptMemo); ok {
			memos[id] = k
		}
	}
	adopted, shims := make(map[string]*run), make(map[int]bool)
	for _, k := range list {
		if id, ok := strings.CutPrefix(k.Name, keptShim); ok {
			r := e.adopt(id, k, memos[id].FD)
			adopted[id] = r
			if p, err := tree.Find(k.PID); err == nil && p.ID() == r.shim { // otherwise its number may be another process's
				shims[k.PID] = r.held != "" || len(r.job.Command) == 0
			}
			delete(memos, id)
		}
	}
	for id, k := range memos { // the supervisor was killed between the two drops
		_ = unix.Close(k.FD)
		e.Store.Drop(keptMemo + id)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.adopted, e.shims = adopted, shims
}

// adopt makes the run of a kept shim. Without a memo (0) the session continues as far as its shim knows it.
func (e *Executor) adopt(id string, k Kept, fd int) *run {
	var m memo
	if fd > 0 {
		f := os.NewFile(uintptr(fd), "memo")
		_ = readDocument(f, &m)
		_ = f.Close()
	}
	m.Job.RunID = id
	r := newRun(m.Job, e)
	r.shim, r.exit, r.kept = tree.ID{PID: k.PID, Start: k.Start}, k.Exit, true
	if m.Cred != nil {
		r.account = &account{name: m.Job.User, cred: *m.Cred}
	}
	r.cgroup, r.state.Since = newCgroup(id), m.Since
	r.path, r.held, r.rules, r.idle.mark, r.earlier = m.Path, m.Held, m.Rules, m.Idle, m.Seen
	unix.CloseOnExec(k.FD)
	r.link = newLink(k.FD)
	return r
}

// Forget ends the shim of a run whose outcome the caller has journalled, and everything that is stored about it. It may
// be repeated, and ignores a run that Run has not returned yet. A run that Run was never called for is ended.
func (e *Executor) Forget(runID string) {
	e.forgetReported(runID)
	e.mu.Lock()
	r := e.adopted[runID]
	delete(e.adopted, runID)
	e.mu.Unlock()
	if r != nil {
		r.abandon()
	}
}

// forgetReported forgets a run whose outcome Run has returned, if there is one.
func (e *Executor) forgetReported(runID string) {
	e.mu.Lock()
	r := e.reported[runID]
	delete(e.reported, runID)
	e.mu.Unlock()
	if r != nil {
		r.forget()
	}
}

// endShim ends the shim, and the tree below it.
func (r *run) endShim() {
	r.link.send(order{End: new(endOrder), Leave: true})
	r.signalShim(unix.SIGCONT) // an agent can stop the shims of its account
	if !r.gone(shimSlack) {
		r.signalShim(unix.SIGKILL)
		r.gone(shimSlack)
	}
}

// forget ends the shim, below which no process is left, and drops what is stored.
func (r *run) forget() {
	r.endShim()
	if r.kept {
		r.exec.Store.Drop(keptShim + r.job.RunID)
		r.exec.Store.Drop(keptMemo + r.job.RunID)
	}
	r.exec.removeShim(r.shim.PID)
	r.close()
}
