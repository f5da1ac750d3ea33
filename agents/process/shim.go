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

// shimArg as the first argument turns any program that imports this package into the shim of one session. People do
// not type it.
const shimArg = "session-shim"

const (
	shimSocket = 3 // the shim's end of the socket pair
	shimCgroup = 4 // the directory of the session's cgroup, if there is one

	// leftoverGrace is the time from TERM to KILL for processes that the program leaves behind when it exits. It is long
	// enough for a tool server to close its files, and short because the slot waits.
	leftoverGrace = time.Second
)

// The shim runs here and not from main for three reasons. It starts within 2 ms, because the packages that only the
// supervisor needs are not yet initialised. It stays on the main thread, which has the parent-death signal and
// no_new_privs; both are properties of a thread. And no program can forget to call it.
func init() {
	if len(os.Args) > 1 && os.Args[1] == shimArg {
		syscall.Exit(runShim()) // without Go's exit hooks, which sleep for a second under the race detector
	}
}

// shim is the root of one session's processes; see the package documentation.
type shim struct {
	ends    chan time.Duration
	running atomic.Bool // the program itself has not ended
	ended   atomic.Bool // an order to end came while it was running
	cgroup  cgroup
	output  *outputPipe // nil when the log has no limit

	program    tree.Process   // the program itself; known if stopSignal is set
	stopSignal syscall.Signal // of the order to start
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
	// The shim needs five more threads in its life. It makes them now, because until the program runs the shim's death
	// counts as lack of room. At a pids limit shims used to die a moment later (1 of 8 runs), which cost the item an
	// attempt.
	pid1.StartThreads(5)
	s := &shim{ends: make(chan time.Duration, 1)}
	if o.Cgroup != "" {
		s.cgroup = cgroup{path: o.Cgroup, fd: shimCgroup, ok: true}
	}
	s.running.Store(true)
	var b startedProgram
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
	hardenLimit(b.pid, o.NProc)
	_ = out.Encode(startReport{PID: b.pid, NoSandbox: b.noSandbox})
	pid := b.pid
	if s.stopSignal = o.StopSignal; s.stopSignal != 0 {
		s.program, _ = tree.Find(pid)
	}
	o = startOrder{}
	s.output.start()
	go s.listen(in)
	go s.end()
	report := s.report(s.reap(pid))
	s.output.finish()
	report.Hits = s.cgroup.hits()
	s.cgroup.remove() // here, because a killed supervisor cannot
	_ = out.Encode(report)
	return 0
}

// errnoOf returns the kernel's number for an error. It is never 0, which would mean no error.
func errnoOf(err error) syscall.Errno {
	if errno := syscall.Errno(0); errors.As(err, &errno) && errno != 0 {
		return errno
	}
	return syscall.EINVAL
}

// armShim prepares the process for its task before anything else runs in it.
func armShim() error {
	// The signals are caught, not ignored: the program would inherit an ignored signal. The shim must survive a service
	// manager's TERM to every process, because it ends the others.
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

// startedProgram is the result of a start.
type startedProgram struct {
	pid       int
	astray    bool // it runs outside of the session's cgroup
	held      bool // it is stopped before its first instruction
	noSandbox string
	err       error
}

// begin starts the program. With a sandbox, it does so on a separate thread that ends before the program runs. So no
// later action of the shim is restricted, and none of its threads is in the sandbox, where the program could signal
// it.
func (s *shim) begin(o startOrder) (b startedProgram) {
	if o.MaxLog > 0 {
		if s.output, b.err = newOutputPipe(os.Stdout, string(o.Log), o.MaxLog, o.Cred); b.err != nil {
			return b
		}
	}
	if o.Sandbox == nil {
		return s.spawn(o)
	}
	started := make(chan startedProgram)
	thread := 0
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		thread = unix.Gettid()
		why := ""
		// Set it again: the runtime may have made this thread before the shim set it.
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = o.Sandbox.restrict()
		}
		if err != nil {
			why = err.Error()
		}
		b := startedProgram{err: err}
		if err == nil || !o.Sandbox.Strict {
			b = s.spawn(o)
		}
		b.noSandbox = why
		started <- b
	}()
	b = <-started
	if b.held {
		continueAfter(b.pid, thread)
	}
	return b
}

// spawn starts the program from this thread.
func (s *shim) spawn(o startOrder) (b startedProgram) {
	if !o.Service {
		lowerPriority()
	}
	limitProcesses(o.NProc)
	switch { // otherwise agents that run as root keep root's capabilities
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
		// The kernel or a container's profile refuses the cgroup, or the program cannot be started at all. Try without a
		// cgroup.
		attr.Sys.UseCgroupFD = false
	}
	b = fork(path, argv, attr, o.Sandbox != nil)
	b.astray = b.err == nil && s.cgroup.ok
	return b
}

// moveIn puts a running program into the session's cgroup. Only the shim holds the processes that the program has
// started by then.
func (s *shim) moveIn(pid int, limited bool) {
	if s.cgroup.write("cgroup.procs", strconv.Itoa(pid)) == nil {
		return
	}
	s.cgroup.remove()
	if limited {
		_, _ = io.WriteString(os.Stderr, unlimited("limits are", "the kernel does not let its program into the cgroup"))
	}
}

// reap waits until no process is left below the shim, and returns the program's status.
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

// listen obeys the supervisor's orders to end. A closed socket is one too: without a supervisor the agent's work
// would be lost, and another supervisor may start the same item.
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

// terminate asks the tree to end: by the program's own signal while that is running, and otherwise by TERM.
func (s *shim) terminate() {
	if s.stopSignal == 0 || !s.running.Load() {
		tree.Terminate(os.Getpid())
		return
	}
	_ = s.program.Signal(s.stopSignal)
	_ = s.program.Signal(syscall.SIGCONT)
}

// end ends the tree: TERM at the first order, then KILL when the shortest grace is over, repeated until reap is done.
func (s *shim) end() {
	grace := <-s.ends
	deadline := time.Now().Add(grace)
	if grace > 0 {
		s.terminate()
	}
	for wait := time.Until(deadline); wait > 0; wait = time.Until(deadline) {
		select {
		case grace := <-s.ends:
			if s.stopSignal != 0 && !s.running.Load() {
				s.terminate() // what the program left behind
			}
			if d := time.Now().Add(grace); d.Before(deadline) {
				deadline = d
			}
		case <-time.After(wait):
		}
	}
	go func() { // no order can shorten the grace now
		for range s.ends {
		}
	}()
	self := os.Getpid()
	hunt := tree.Killer{Member: func(p tree.Process) bool { return p.PPID == self }}
	for ; ; time.Sleep(hunt.Pause) {
		s.cgroup.kill()
		_, _ = hunt.KillOnce()
	}
}

// report returns the last report. The kernel sums the usage of every process that the shim, or a process below it,
// waited for.
func (s *shim) report(status syscall.WaitStatus) endReport {
	r := endReport{Status: status, Ended: s.ended.Load()}
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ru) == nil {
		r.CPU = time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		r.MaxRSS = ru.Maxrss << 10
	}
	return r
}
