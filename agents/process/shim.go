package process

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/process/gate"
	"codeberg.org/johba/disinto/agents/process/pid1"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// shimArg as the first argument turns any program that imports this package into the shim of one session. People do
// not type it.
const shimArg = "session-shim"

const (
	shimSocket = 3 // the shim's end of the socket pair
	shimOrder  = 4 // the file with the start order
	shimCgroup = 5 // the directory of the session's cgroup, if there is one

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
	socket *os.File
	cgroup cgroup
	output *outputPipe // nil when the log has no limit
	proxy  *gate.Proxy // nil when the session may reach all hosts

	program    tree.Process   // the program itself; known if stopSignal is set
	stopSignal syscall.Signal // of the start order

	mu       sync.Mutex
	state    shimState
	alive    bool          // the program itself has not ended
	gone     bool          // no process is left
	timeout  time.Duration // since boot; 0 means never
	late     endOrder      // obeyed at the timeout
	deadline time.Duration // since boot: what is left then is killed; 0 until an order to end
	kick     chan struct{} // the deadline has changed, or the tree has ended
	leave    chan struct{} // closed when the shim may exit
}

func runShim() int {
	oom := openOOMScore()
	if err := armShim(); err != nil {
		fmt.Fprintf(os.Stderr, "disinto: cannot be a session shim: %v\n", err)
		return 1
	}
	s := &shim{
		socket: os.NewFile(shimSocket, "supervisor"), state: shimState{Phase: waiting},
		kick: make(chan struct{}, 1), leave: make(chan struct{}),
	}
	o, ok := s.awaitStart()
	if !ok {
		return 0
	}
	// The shim needs five more threads in its life. It makes them now, because until the program runs the shim's death
	// counts as lack of room. At a pids limit shims used to die a moment later (1 of 8 runs), which cost the item an
	// attempt.
	pid1.StartThreads(5 + o.gateThreads())
	if o.Cgroup != "" {
		s.cgroup = cgroup{path: o.Cgroup, fd: shimCgroup, ok: true}
	}
	if o.Service {
		oom = oomScore{}
	}
	var b startedProgram
	oom.raise(func() { b = s.begin(o) })
	if b.err != nil {
		s.change(func(now *shimState) {
			*now = shimState{Gen: now.Gen, Phase: ended, Errno: errnoOf(b.err), NoSandbox: b.noSandbox, At: time.Now()}
		})
		go s.listen()
		<-s.leave
		return 0
	}
	if b.astray {
		s.moveIn(b.pid, o.Limited)
	}
	hardenLimit(b.pid, o.NProc)
	if s.stopSignal = o.StopSignal; s.stopSignal != 0 {
		s.program, _ = tree.Find(b.pid)
	}
	s.began(b, &o)
	o = startOrder{}
	s.output.start()
	go s.listen()
	over := make(chan struct{})
	go func() { defer close(over); s.end() }()
	status := s.reap(b.pid)
	s.output.finish()
	s.setGone()
	<-over // it kills by the cgroup
	final := s.cgroup.hits()
	s.cgroup.remove() // here, because a killed supervisor cannot
	s.change(func(now *shimState) { now.end(status, final, s.proxy) })
	<-s.leave
	return 0
}

// awaitStart waits for the order to start, and reads what to start. ok is false if nothing is to be started.
func (s *shim) awaitStart() (o startOrder, ok bool) {
	file := os.NewFile(shimOrder, "start order")
	defer file.Close()
	for buf := make([]byte, maxText); ; {
		var m order
		err := receiveMessage(s.socket, buf, &m)
		switch {
		case err == io.EOF:
			return o, false
		case err != nil || m.Gen < s.state.Gen:
		case m.End != nil || m.Leave:
			return o, false
		case m.Start:
			s.state.Gen = m.Gen
			return o, readDocument(file, &o) == nil
		default:
			s.state.Gen = m.Gen
		}
		s.change(func(*shimState) {})
	}
}

// change changes the state, and sends it. It is sent in the order of the changes, so the lock is held. The supervisor
// reads all that the shim sends; while none does, the messages have room in the socket.
func (s *shim) change(how func(now *shimState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how(&s.state)
	_ = sendMessage(s.socket, &s.state) // EPIPE: init and supervisor are gone, which listen notices
}

// began records that the program runs.
func (s *shim) began(b startedProgram, o *startOrder) {
	s.change(func(now *shimState) {
		now.Phase, now.Program, now.NoSandbox = runs, b.pid, b.noSandbox
		now.Begun, now.Since = time.Now(), bootTime()
		s.alive, s.late = true, o.Late
		if o.Timeout > 0 {
			s.timeout = now.Since + o.Timeout
		}
	})
}

// end records the end. The kernel sums the usage of every process that the shim, or a process below it, waited for.
func (now *shimState) end(status syscall.WaitStatus, h hits, proxy *gate.Proxy) {
	now.Phase, now.At, now.Status, now.Hits, now.Refused = ended, time.Now(), status, h, proxy.Refused()
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ru) == nil {
		now.CPU = time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		now.MaxRSS = ru.Maxrss << 10
	}
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
		if b.err = s.startProxy(&o); b.err != nil {
			return b
		}
		return s.spawn(o)
	}
	started := make(chan startedProgram)
	thread := 0
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		thread = unix.Gettid()
		started <- s.beginInside(&o)
	}()
	b = <-started
	if b.held {
		continueAfter(b.pid, thread)
	}
	return b
}

// beginInside restricts this thread, and starts the program from it. In a network of its own, the sockets that listen
// for the program are made on this thread, and those that lead out on others.
func (s *shim) beginInside(o *startOrder) (b startedProgram) {
	if o.Sandbox.Own {
		if b.err = gate.OwnNetwork(); b.err != nil {
			b.noSandbox = b.err.Error()
			return b
		}
	}
	if b.err = s.startProxy(o); b.err != nil {
		return b
	}
	// Set it again: the runtime may have made this thread before the shim set it.
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = o.Sandbox.restrict()
	}
	b.err = err
	if err == nil || !o.Sandbox.Strict && !o.Sandbox.Local {
		b = s.spawn(*o)
	}
	if err != nil {
		b.noSandbox = err.Error()
	}
	return b
}

// spawn starts the program from this thread.
func (s *shim) spawn(o startOrder) (b startedProgram) {
	if !o.Service {
		lowerPriority()
	}
	limitProcesses(o.NProc)
	if keep := o.capabilities(); keep != everyCapability {
		dropCapabilities(keep, o.Sandbox == nil)
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
			s.mu.Lock()
			s.alive = false
			s.mu.Unlock()
			options = syscall.WNOHANG // most programs leave no process behind
		case pid == 0:
			options = 0
			s.mu.Lock()
			s.endLocked(endOrder{Grace: leftoverGrace})
			s.mu.Unlock()
		}
	}
}

// listen obeys the supervisor's orders. A closed socket is an order to end at once and to leave: without init and
// supervisor the agent's work would be lost, and another supervisor may start the same item.
func (s *shim) listen() {
	for buf := make([]byte, maxText); ; {
		var m order
		err := receiveMessage(s.socket, buf, &m)
		if err == io.EOF {
			m = order{Gen: anyGeneration, End: new(endOrder), Leave: true}
		}
		if err == nil || err == io.EOF {
			s.obey(m)
		}
		if err == io.EOF {
			return
		}
	}
}

// obey obeys an order unless a later supervisor has given one, and answers it.
func (s *shim) obey(m order) {
	s.change(func(now *shimState) {
		if m.Gen < now.Gen {
			return
		}
		now.Gen = m.Gen
		if m.End != nil {
			s.endLocked(*m.End)
		}
		if m.Leave {
			select {
			case <-s.leave:
			default:
				close(s.leave)
			}
		}
	})
}

// endLocked obeys an order to end. The first reason counts if the program itself has not ended before.
func (s *shim) endLocked(e endOrder) {
	if s.alive && s.state.Verdict == (verdict{}) {
		s.state.Verdict = e.verdict
	}
	if at := bootTime() + e.Grace; s.deadline == 0 || at < s.deadline {
		s.deadline = at
	}
	s.wake()
}

// setGone says that no process is left.
func (s *shim) setGone() {
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	s.wake()
}

// wake lets end look again.
func (s *shim) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// end ends the tree: TERM at the first order or at the timeout, then KILL at the deadline, repeated until no process
// is left.
func (s *shim) end() {
	asked := askedNobody
	for {
		now := s.ending()
		switch {
		case now.over:
			return
		case now.deadline > 0 && now.deadline <= bootTime():
			s.kill()
			return
		case now.deadline > 0 && asked < now.ask:
			asked = now.ask
			s.ask(asked)
		}
		select {
		case <-s.kick:
		case <-bootAfter(cmp.Or(now.deadline, now.timeout)):
		}
	}
}

// asked says which processes were asked to end.
type asked int

const (
	askedNobody  asked = iota
	askedProgram       // by its own signal
	askedAll           // by TERM
)

// ask asks processes to end.
func (s *shim) ask(whom asked) {
	if whom == askedAll {
		tree.Terminate(os.Getpid())
		return
	}
	_ = s.program.Signal(s.stopSignal)
	_ = s.program.Signal(syscall.SIGCONT)
}

// toEnd is what there is to do to end the tree.
type toEnd struct {
	over     bool          // no process is left
	ask      asked         // these processes, at least
	deadline time.Duration // since boot; 0 for none
	timeout  time.Duration // likewise
}

// ending obeys the timeout, and returns what there is to do.
func (s *shim) ending() toEnd {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadline == 0 && s.timeout > 0 && s.timeout <= bootTime() {
		s.endLocked(s.late)
	}
	now := toEnd{s.gone, askedAll, s.deadline, s.timeout}
	if s.stopSignal != 0 && s.alive {
		now.ask = askedProgram
	}
	return now
}

// kill kills until no process is left.
func (s *shim) kill() {
	self := os.Getpid()
	hunt := tree.Killer{Member: func(p tree.Process) bool { return p.PPID == self }}
	for !s.ending().over {
		s.cgroup.kill()
		_, _ = hunt.KillOnce()
		select {
		case <-s.kick:
		case <-time.After(hunt.Pause):
		}
	}
}
