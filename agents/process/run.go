package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/logtime"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/agents/process/landlock"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// run is the supervisor's side of one session: its counterpart is the shim.
type run struct {
	job     agents.Job
	exec    *Executor
	account *account
	path    string // of the program
	cgroup  cgroup
	nproc   uint64         // limit on the account's processes; 0 means none
	held    string         // the sandbox's restrictions, for people; empty without a sandbox
	own     bool           // it gets a network of its own
	local   bool           // its sockets reach this machine only
	rules   landlock.Rules // of the sandbox

	kept       bool      // there is a store, which has the shim and the memo
	left       bool      // Run has returned, and the session goes on
	remembered time.Time // when the memo was stored

	shim  tree.ID // no process of the session is older
	exit  <-chan Exit
	link  *link
	state shimState    // the newest
	pid   atomic.Int64 // of the program; 0 until it is known to run
	begun time.Time    // written before pid

	// The goroutine that watches owns these three. In an adopted session the first two continue the last supervisor's.
	verdict verdict
	idle    idle
	meter   meter

	inbox inbox

	earlier  *observationsState // of the last supervisor
	observed *observations      // written before pid
}

// newRun makes a run. Env of its job holds the whole environment, secrets included.
func newRun(job agents.Job, e *Executor) *run {
	job.Env = slices.Concat(job.Env, job.Secrets)
	return &run{job: job, exec: e, kept: e.Store != nil}
}

// program returns the program's process number, or 0 before it runs.
func (r *run) program() int { return int(r.pid.Load()) }

// follow watches a session until none of its processes is left.
func (r *run) follow(ctx context.Context, started func(agents.Started)) (o agents.Outcome) {
	over := false
	defer func() {
		r.exec.observer.end(r.observed)
		if !over { // a panic, after which the supervisor counts the session as ended
			r.abandon()
		}
	}()
	how := r.watch(ctx, started)
	if how == detached {
		over, r.left = true, true
		if r.observed != nil {
			r.earlier = r.observed.state()
		}
		return agents.Outcome{Result: agents.Lost, Reason: agents.ErrDetached.Error()}
	}
	if how == unstarted {
		over = true
		r.forget()
		return agents.Outcome{Result: agents.Lost, Reason: "the supervisor died before it started the program"}
	}
	secrets := agents.HiddenValues(r.job.Secrets)
	if r.exec.Secrets != nil {
		secrets = append(secrets, r.exec.Secrets()...)
	}
	o = r.conclude(how, secrets)
	o.Tail = tail(r.job.LogPath, secrets)
	if r.job.Service == "" && r.observed != nil {
		o.Seen = r.observed.report(r.changed(secrets), secrets)
	}
	_ = r.removeTmp() // the next session retries it
	o = r.explainRefusal(o)
	over = true
	r.exec.report(r)
	return o
}

// start makes the folders and the log, and starts the program under its shim.
func (r *run) start() (err error) {
	r.state = shimState{}
	if r.account, err = findAccount(r.job.User); err != nil {
		return err
	}
	log, err := r.prepare()
	if err != nil {
		return err
	}
	defer log.Close()
	nul := func(s string) bool { return strings.Contains(s, "\x00") }
	if slices.ContainsFunc(r.job.Command, nul) || slices.ContainsFunc(r.job.Env, nul) {
		return errors.New("a NUL byte in its arguments or environment")
	}
	if r.path, err = Lookup(r.job.Command[0], r.job.Dir, r.job.Env); err != nil {
		return err
	}
	sandbox, err := r.confine()
	if err != nil {
		return err
	}
	r.cgroup = newCgroup(r.job.RunID)
	r.nproc = r.limit(log)
	order, err := r.startShim(log)
	if err != nil {
		r.close()
		return err
	}
	defer order.Close()
	if sandbox != nil {
		r.rules = r.allowed(r.path) // computed while the shim starts, which takes longer
		if sandbox.Version < landlock.Ports {
			r.rules.AnyPort, r.rules.Connect, r.rules.Listen = true, nil, nil
		}
		sandbox.Rules = r.rules
	}
	if err = r.startProgram(order, sandbox); err != nil {
		r.abandon()
	}
	return err
}

// abandon ends a session whose shim may have started the program or not.
func (r *run) abandon() {
	r.endShim()
	r.sweep(true)
	r.forget()
}

// gone waits for the shim's end, but no longer than patience.
func (r *run) gone(patience time.Duration) bool {
	late := time.After(patience)
	for {
		select {
		case _, ok := <-r.link.states:
			if !ok {
				return true
			}
		case <-late:
			return false
		}
	}
}

// signalShim signals the shim unless it has ended.
func (r *run) signalShim(s unix.Signal) {
	_ = tree.Process{PID: r.shim.PID, Start: r.shim.Start}.Signal(s)
}

// prepare makes the folders and files that the program needs. The home comes first, because the account can pass
// through parents made for the home, but not through those made for the log.
func (r *run) prepare() (log *os.File, err error) {
	if r.job.Home != "" {
		if err := makeFolder(r.job.Home, r.account); err != nil {
			return nil, err
		}
		if err := ownedBy(r.job.Home, r.account); err != nil {
			return nil, err
		}
	}
	if err := makeFolder(r.job.Dir, r.account); err != nil {
		return nil, err
	}
	if err := clearResult(r.job.ResultPath, r.account); err != nil {
		return nil, err
	}
	if err := r.freshTmp(); err != nil {
		return nil, err
	}
	return openLog(r.job.LogPath, r.account)
}

// openLog opens the log for appending. When a program opens /dev/stderr, the kernel checks the program's permissions
// on the log again, so the log belongs to the account. The log's folder does not, and the account cannot enter it.
func openLog(path string, a *account) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	log, err := plainfile.Open(path, os.O_CREATE|os.O_RDWR|os.O_APPEND)
	if err == nil && a != nil {
		err = log.Chown(int(a.cred.Uid), int(a.cred.Gid))
	}
	return log, err
}

// log writes a line to the log, where people look first.
func (r *run) log(line string) {
	if log, err := openLog(r.job.LogPath, r.account); err == nil {
		if size, err := log.Seek(0, io.SeekEnd); err == nil {
			times := logtime.Open(r.job.LogPath, size)
			times.Add(size, time.Now())
			times.Close()
		}
		_, _ = io.WriteString(log, "disinto: "+line+"\n")
		_ = log.Close()
	}
}

// startShim starts this program again, as the session's shim, which waits for the returned file and the order to start.
// The link in /proc leads to the same program even if its file has been replaced. GOMAXPROCS and GOGC keep the shim
// small: it does one thing at a time and makes almost no garbage.
func (r *run) startShim(log *os.File) (start *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot talk to a session shim: %w", err)
	}
	defer unix.Close(pair[1])
	r.link = newLink(pair[0])
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	if start, err = inMemory("start"); err != nil {
		return nil, err
	}
	files := []uintptr{null.Fd(), log.Fd(), log.Fd(), uintptr(pair[1]), start.Fd()}
	if r.cgroup.ok {
		files = append(files, uintptr(r.cgroup.fd))
	}
	shim, err := r.exec.Reaper.Start("/proc/self/exe", []string{"disinto", shimArg, r.job.RunID}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=1", "GOGC=25"},
		Files: files,
		Sys:   shimAttr(r.own),
	})
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("%w: %w", tree.ErrNoProc, err)
	}
	if err != nil {
		_ = start.Close()
		return nil, fmt.Errorf("cannot start a session shim: %w", err)
	}
	r.shim.PID, r.exit = shim.PID, shim.Exit()
	if p, err := tree.Find(shim.PID); err == nil {
		r.shim = p.ID()
	}
	r.exec.addShim(shim.PID, r.held != "")
	return start, nil
}

// answerTime bounds the time in which a shim starts the program. A start takes milliseconds, unless an agent stops
// the shim.
const answerTime = 30 * time.Second

// startProgram writes the start order, stores the shim, orders it to start, and waits for its answer.
func (r *run) startProgram(file *os.File, sandbox *sandboxOrder) error {
	err := writeDocument(file, startOrder{
		Path: []byte(r.path), Dir: []byte(r.job.Dir), Argv: pack(r.job.Command), Env: pack(r.job.Env),
		Cred: r.account.credential(), Cgroup: r.cgroup.path,
		Limited: r.job.Limits != agents.Limits{}, NProc: r.nproc, MaxLog: r.job.MaxLog, Sandbox: sandbox,
		Egress:  r.gateOrder(),
		Service: r.job.Service != "", Root: r.job.Root, Log: []byte(r.job.LogPath), StopSignal: stopSignal(r.job.StopSignal),
		Timeout: max(r.job.Timeout, 0), Late: endOrder{r.job.Grace, r.late()},
	})
	if err == nil {
		err = r.keep()
	}
	if err != nil { // no memory, no descriptor, no room in the init's socket
		return fmt.Errorf("cannot keep the session: %w: %w", err, syscall.EAGAIN)
	}
	r.link.send(order{Start: true})
	for late := time.After(answerTime); r.state.Phase != runs && r.state.Phase != ended; {
		select {
		case s, ok := <-r.link.states:
			if !ok {
				// A Go program that gets no thread in its first millisecond dies in this way, so this counts as lack of room.
				return fmt.Errorf("the session shim ended before the program began: %w", syscall.EAGAIN)
			}
			r.state = s
		case <-late:
			return fmt.Errorf("the session shim does not answer: %w", syscall.EAGAIN)
		}
	}
	return r.unstarted(r.state)
}

// unstarted is why the program was not started; nil if it was.
func (r *run) unstarted(s shimState) error {
	switch {
	case s.Errno != 0 && s.NoSandbox != "" && r.own:
		return fmt.Errorf("cannot give it a network of its own: %s", s.NoSandbox)
	case s.Errno != 0 && s.NoSandbox != "":
		return fmt.Errorf("its sandbox is strict, and this machine has none: %s", s.NoSandbox)
	case s.Errno != 0:
		return r.refusal(s.Errno, r.path)
	}
	return nil
}

// sweep kills processes that carry the run id until there are none. After a shim's report there are none, and one
// look confirms it. If the shim was killed without a report (lost), its children are now those of the nearest
// subreaper: ours, or the init's. Then orphans there with no_new_privs belong to the session too, because only sessions
// start with it.
func (r *run) sweep(lost bool) {
	if lost {
		r.signalShim(unix.SIGKILL) // it has ended, or we cannot hear it any more
	}
	for lost { // the kernel passes on a dying process's children with its last thread, after it has closed the socket
		if p, err := tree.Find(r.shim.PID); err != nil || p.ID() != r.shim {
			break
		}
		time.Sleep(time.Millisecond) // until the shim is reaped
	}
	var env environ
	self, heir := os.Getpid(), r.exec.heir()
	shims := r.exec.listShims()
	delete(shims, r.shim.PID)
	known := func(pid int) bool { _, ok := shims[pid]; return ok }
	hunt := tree.Killer{Member: func(p tree.Process) bool {
		if p.Start < r.shim.Start || p.PID == self {
			return false
		}
		return env.runID(p.PID) == r.job.RunID ||
			lost && p.PPID == heir && !known(p.PID) && !r.exec.Reaper.isOwn(p.PID) && restricted(p.PID)
	}}
	for ; ; time.Sleep(hunt.Pause) {
		r.cgroup.kill()
		if alive, err := hunt.KillOnce(); err == nil && alive == 0 && r.cgroup.empty() {
			return
		}
	}
}

// close closes our descriptors and removes the cgroup. It may be repeated.
func (r *run) close() {
	if r.link != nil {
		r.link.close()
	}
	r.cgroup.remove()
}
