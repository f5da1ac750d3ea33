package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/process/pid1"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// shimArg as the first argument turns any program that imports this package into the shim of one session. It is not for
// people to type.
const shimArg = "session-shim"

const (
	shimSocket = 3 // the shim's end of the socket pair
	shimCgroup = 4 // the directory of the session's cgroup, if there is one

	// leftoverGrace is the time from TERM to KILL for processes that the program leaves behind when it exits: enough for a
	// tool server to close its files, short because the slot waits for it.
	leftoverGrace = time.Second
)

// The shim runs here and not from main for three reasons. It starts within 2 ms, since the packages that only the
// supervisor needs are not initialised before it. It stays on the main thread, to which the parent-death signal and
// no_new_privs belong: both are properties of a thread. And no program can forget to call it.
func init() {
	if len(os.Args) > 1 && os.Args[1] == shimArg {
		syscall.Exit(runShim()) // without Go's exit hooks, which sleep for a second under the race detector
	}
}

// shim is the root of one session's processes: see the documentation of the package.
type shim struct {
	ends    chan time.Duration
	running atomic.Bool // the program itself has not ended
	ended   atomic.Bool // an order to end came while it was running
	cgroup  cgroup
	output  *outlet // nil when the log has no limit
}

func runShim() int {
	oom := openOOMScore()
	if err := armShim(); err != nil {
		fmt.Fprintf(os.Stderr, "disinto: cannot be a session shim: %v\n", err)
		return 1
	}
	socket := os.NewFile(shimSocket, "supervisor")
	in, out := json.NewDecoder(socket), json.NewEncoder(socket)
	var o startOrder
	if in.Decode(&o) != nil {
		return 1
	}
	// The shim needs five more threads in its life. It makes them now, because until the program runs its death counts as
	// want of room. At a pids limit shims used to die a moment later (1 of 8 runs), which burnt an attempt of the item.
	pid1.StartThreads(5)
	s := &shim{ends: make(chan time.Duration, 1)}
	if o.Cgroup != "" {
		s.cgroup = cgroup{path: o.Cgroup, fd: shimCgroup, ok: true}
	}
	s.running.Store(true)
	var b begun
	if o.Service {
		oom = oomScore{}
	}
	oom.raise(func() { b = s.begin(o) })
	if b.err != nil {
		_ = out.Encode(startReport{Errno: errnoOf(b.err), NoSandbox: b.noSandbox})
		return 1
	}
	if b.astray {
		s.moveIn(b.pid, o.Limited)
	}
	clamp(b.pid, o.NProc)
	_ = out.Encode(startReport{PID: b.pid, NoSandbox: b.noSandbox})
	pid := b.pid
	o = startOrder{}
	s.output.start()
	go s.listen(in)
	go s.end()
	report := s.report(s.reap(pid))
	s.output.finish()
	report.Hits = s.cgroup.hits()
	s.cgroup.remove() // here, because a supervisor that was killed cannot
	_ = out.Encode(report)
	return 0
}

// errnoOf is the kernel's number of an error. It is never 0, which would mean that there was none.
func errnoOf(err error) syscall.Errno {
	if errno := syscall.Errno(0); errors.As(err, &errno) && errno != 0 {
		return errno
	}
	return syscall.EINVAL
}

// armShim makes the process fit for its task before anything else runs in it.
func armShim() error {
	// Caught, not ignored: an ignored signal would stay ignored in the program. A service manager that sends TERM to every
	// process must not end the shim, which ends the others.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE, unix.SIGTERM,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM)
	closeOnExec()
	if _, err := unix.GetsockoptInt(shimSocket, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return err // started by hand
	}
	unix.Umask(0o077)
	return errors.Join(
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0),
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
		// Without it a set-uid program such as sudo would start processes that we may not signal.
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// begun says how a start went.
type begun struct {
	pid       int
	astray    bool // it runs outside of the session's cgroup
	held      bool // it is stopped before its first instruction
	noSandbox string
	err       error
}

// begin starts the program, with a sandbox on a thread of its own that ends before the program runs: whatever the shim
// does later is not restricted, and no thread of the shim is in the sandbox, or the program could signal the shim.
func (s *shim) begin(o startOrder) (b begun) {
	if o.MaxLog > 0 {
		if s.output, b.err = newOutlet(os.Stdout, o.MaxLog, o.Cred); b.err != nil {
			return b
		}
	}
	if o.Sandbox == nil {
		return s.spawn(o)
	}
	started := make(chan begun)
	thread := 0
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		thread = unix.Gettid()
		why := ""
		// Once more: the runtime may have made this thread before the shim did.
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = o.Sandbox.restrict()
		}
		if err != nil {
			why = err.Error()
		}
		b := begun{err: err}
		if err == nil || !o.Sandbox.Strict {
			b = s.spawn(o)
		}
		b.noSandbox = why
		started <- b
	}()
	b = <-started
	if b.held {
		letGo(b.pid, thread)
	}
	return b
}

// spawn starts the program from this thread.
func (s *shim) spawn(o startOrder) (b begun) {
	if !o.Service {
		yield()
	}
	curb(o.NProc)
	switch { // agents that run as root keep root's capabilities otherwise
	case o.Cred != nil:
		dropCapabilities(0)
	case o.Sandbox != nil:
		dropCapabilities(ordinary)
	}
	path, argv := string(o.Path), unpack(o.Argv)
	to := s.output.descriptor()
	attr := &syscall.ProcAttr{
		Dir:   string(o.Dir),
		Env:   unpack(o.Env),
		Files: []uintptr{0, to, to}, // the shim was started with /dev/null as its stdin
		Sys: &syscall.SysProcAttr{
			Setsid:     true,
			Credential: o.Cred,
			Pdeathsig:  syscall.SIGKILL, // the shim's main thread lives as long as the shim
		},
	}
	if o.Sandbox != nil {
		attr.Sys.Pdeathsig = 0 // this thread ends at once
	}
	if s.cgroup.ok {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, s.cgroup.fd
		if b = fork(path, argv, attr, o.Sandbox != nil); b.err == nil {
			return b
		}
		// The kernel or a container's profile refuses the cgroup, or the program cannot be started at all: try without.
		attr.Sys.UseCgroupFD = false
	}
	b = fork(path, argv, attr, o.Sandbox != nil)
	b.astray = b.err == nil && s.cgroup.ok
	return b
}

// moveIn puts a program that runs already into the session's cgroup. Processes that it has started by then are held by
// the shim alone.
func (s *shim) moveIn(pid int, limited bool) {
	if s.cgroup.write("cgroup.procs", strconv.Itoa(pid)) == nil {
		return
	}
	s.cgroup.remove()
	if limited {
		_, _ = io.WriteString(os.Stderr, unlimited("limits are", "the kernel does not let its program into the cgroup"))
	}
}

// reap waits until no process is left below the shim, and returns the status of the program.
func (s *shim) reap(program int) (status syscall.WaitStatus) {
	options := 0
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, options, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return status
		case pid == program:
			status = ws
			s.running.Store(false)
			options = syscall.WNOHANG // most programs leave no process behind
		case pid == 0:
			options = 0
			s.ends <- leftoverGrace
		}
	}
}

// listen obeys the supervisor's orders to end. A closed socket is one too: without a supervisor, the agent's work would
// be lost, and another supervisor may start the same item.
func (s *shim) listen(in *json.Decoder) {
	for {
		var e endOrder
		err := in.Decode(&e)
		if s.running.Load() {
			s.ended.Store(true)
		}
		if err != nil {
			s.ends <- 0
			return
		}
		s.ends <- e.Grace
	}
}

// end ends the tree: TERM at the first order, KILL when the shortest grace is over, and again until reap is done.
func (s *shim) end() {
	grace := <-s.ends
	deadline := time.Now().Add(grace)
	if grace > 0 {
		tree.Ask(os.Getpid())
	}
	for wait := time.Until(deadline); wait > 0; wait = time.Until(deadline) {
		select {
		case grace := <-s.ends:
			if d := time.Now().Add(grace); d.Before(deadline) {
				deadline = d
			}
		case <-time.After(wait):
		}
	}
	go func() { // no order can shorten the grace any more
		for range s.ends {
		}
	}()
	self := os.Getpid()
	hunt := tree.Hunt{Member: func(p tree.Process) bool { return p.PPID == self }}
	for ; ; time.Sleep(hunt.Pause) {
		s.cgroup.kill()
		_, _ = hunt.Cull()
	}
}

// report is the last report. The kernel adds up the usage of every process that was waited for, here or below.
func (s *shim) report(status syscall.WaitStatus) endReport {
	r := endReport{Status: status, Ended: s.ended.Load()}
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ru) == nil {
		r.CPU = time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		r.MaxRSS = ru.Maxrss << 10
	}
	return r
}
