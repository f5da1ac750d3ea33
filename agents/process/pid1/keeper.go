package pid1

import (
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/agents/process/tree"
)

// keeper is the init of a factory, disinto run: docs/processes.md. It has four duties and no other: it reaps, withholds
// signals until the supervisor is ready, stores descriptors, and starts the supervisor again.
//
// Only its goroutine changes it; others deliver messages.
type keeper struct {
	watchman
	store   store
	program int // descriptor of the program that is started next
	good    int // of the program that was last ready

	pid      int // of the supervisor; 0 while none runs or it is reaped
	link     int // our end of its socket; -1 once it is closed
	messages chan Message
	closed   chan struct{} // closed when no message of the supervisor is left
	out      []Message     // to the supervisor, not sent yet
	held     []Message     // signals that it gets when it is ready
	next     int           // descriptor of the program that it asked for; -1 if it did not
	status   syscall.WaitStatus
	reaped   time.Time // when status came
	why      string    // how the last supervisor died; empty if it ended for an upgrade, and for the first
	code     int       // exit code
	began    time.Time
	orphans  int64
	lines    chan string // for stderr
	form     LineForm
}

// InitVar is set in the environment of a supervisor that has an init.
const InitVar = "DISINTO_INIT"

// The descriptors of a supervisor that has an init: the socket, and the environment.
const (
	InitSocket = 3
	initEnv    = 4
)

// sigchld tells of ended children, apart from the other signals: many of them would crowd out a TERM.
var sigchld = make(chan os.Signal, 1)

// keep runs a factory's init to its end, and returns the exit code.
func keep() int {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0) // our environment has secrets
	catchAll()
	setName()
	runtime.LockOSThread() // a supervisor gets KILL when the thread ends that started it
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
	StartThreads(6)
	k := &keeper{link: -1, next: -1, began: time.Now(), lines: make(chan string, 16), form: FormOf(os.Args, os.Environ())}
	k.grace = defaultGrace
	var err error
	if k.program, err = syscall.Open(self, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
		return k.fails(self + ": " + err.Error())
	}
	k.good = k.program
	go writeLines(k.lines)
	if err = k.begin(); err != nil {
		return k.fails(err.Error())
	}
	return k.live()
}

// fails prints why no supervisor can be started, and returns the exit code.
func (k *keeper) fails(why string) int {
	_, _ = os.Stderr.WriteString(k.form.Line(time.Now(), Error, "cannot run disinto run: "+why))
	return exitFailed
}

// catchAll catches every signal that could end us or that means something to a factory. HUP and INT count even if we
// were started with them ignored, as by nohup.
func catchAll() {
	signal.Notify(sigchld, syscall.SIGCHLD)
	for s := syscall.Signal(1); s < 32; s++ {
		switch s {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPROF:
		default:
			signal.Notify(Signals, s)
		}
	}
}

// live watches over supervisors until none must follow, and returns the exit code.
func (k *keeper) live() int {
	for {
		k.reap()
		k.flush()
		do, at := k.watchman.next(time.Now())
		switch do {
		case begin:
			k.restart()
			continue
		case rouse:
			k.say("the supervisor has said nothing for " + silence.String() + "; it gets CONT")
			k.isRoused(time.Now())
			_ = syscall.Kill(k.pid, syscall.SIGCONT)
			continue
		case kill:
			k.say("the supervisor hangs, and is killed")
			k.killed = true
			_ = syscall.Kill(k.pid, syscall.SIGKILL)
			continue
		case endAll:
			k.say("no supervisor was ready for " + orphanage.String() + ": the sessions are ended")
			k.lost = true
			k.store.end(int64(k.grace), "no supervisor was ready for "+orphanage.String())
			continue
		case leave:
			return k.leave()
		case killAll:
			k.say("the time to stop is over: what still runs is killed")
			return k.killAll(exitFailed)
		}
		k.await(at)
	}
}

// await handles the next event; the zero time never comes.
func (k *keeper) await(until time.Time) {
	if len(k.out) > 0 { // the supervisor is behind
		until = earlier(until, time.Now().Add(10*time.Millisecond))
	}
	closed := k.closed
	switch {
	case k.link < 0 || k.pid != 0:
		closed = nil
	case time.Since(k.reaped) > time.Second: // a process that the supervisor was forking is stopped, and has the socket
		k.killTheRest()
		fallthrough
	default:
		until = earlier(until, time.Now().Add(time.Second))
	}
	var late <-chan time.Time
	if !until.IsZero() {
		late = time.After(time.Until(until))
	}
	select {
	case s := <-Signals:
		k.signal(s.(syscall.Signal))
	case <-sigchld:
	case m := <-k.messages:
		k.got(time.Now())
		k.handle(m)
	case <-closed:
		k.supervisorEnded()
	case <-late:
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// signal handles a signal to us. Those that would end a Go program with all its stacks are ignored, except QUIT, which
// people type.
func (k *keeper) signal(s syscall.Signal) {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT:
		k.stop(time.Now())
		k.tell(stopMessage(s))
		if k.pid != 0 { // an agent may have stopped it
			_ = syscall.Kill(k.pid, syscall.SIGCONT)
		}
	case syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2:
		k.tell(NewMessage("signal", strconv.Itoa(int(s))))
	case syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
		k.suspend()
	}
}

// stopMessage is an order to stop. A supervisor knows two of them.
func stopMessage(s syscall.Signal) Message {
	if s != syscall.SIGINT {
		s = syscall.SIGTERM
	}
	return NewMessage("signal", strconv.Itoa(int(s)))
}

// suspend stops the supervisor and us, until a shell continues us. PID 1 cannot be stopped.
func (k *keeper) suspend() {
	if os.Getpid() == 1 {
		return
	}
	if k.pid != 0 {
		_ = syscall.Kill(k.pid, syscall.SIGSTOP)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	if k.pid != 0 {
		_ = syscall.Kill(k.pid, syscall.SIGCONT)
	}
	k.got(time.Now())
}

// tell sends a message as soon as the supervisor is ready.
func (k *keeper) tell(m Message) {
	if k.ready.IsZero() {
		k.held = append(k.held, m)
		return
	}
	k.out = append(k.out, m)
}

// flush sends what the supervisor can take.
func (k *keeper) flush() {
	for len(k.out) > 0 && k.link >= 0 {
		if err := Send(k.link, k.out[0], false); err == syscall.EAGAIN || err == syscall.ETOOMANYREFS {
			return
		}
		k.out = k.out[1:]
	}
	k.out = nil
}

// handle carries out a message of the supervisor.
func (k *keeper) handle(m Message) {
	switch m.Words[0] {
	case "alive":
		k.out = append(k.out, NewMessage("orphans", strconv.FormatInt(k.orphans, 10)))
	case "ready":
		k.grace = max(0, time.Duration(m.Number(1)))
		if k.isReady(time.Now()) {
			if k.good != k.program {
				_ = syscall.Close(k.good)
				k.good = k.program
			}
			k.out = append(k.out, k.held...)
			k.held = nil
			DropBinary() // 8.6 MB resident become 2
		}
	case "keep":
		k.store.keep(m)
		return
	case "drop":
		k.store.drop(m.Rest(1))
	case "become":
		if m.FD >= 0 {
			if k.next >= 0 {
				_ = syscall.Close(k.next)
			}
			k.next = m.FD
			return
		}
	}
	m.Close()
}

// reap collects the status of every ended child.
func (k *keeper) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil || pid == 0:
			return
		case pid == k.pid:
			k.pid, k.status, k.reaped = 0, ws, time.Now()
			continue
		}
		if m, shim := k.store.reaped(pid, ws); shim {
			if k.link >= 0 {
				k.out = append(k.out, m)
			}
		} else {
			k.orphans++
		}
	}
}

// writeLines writes lines to stderr, which may hang.
func writeLines(lines chan string) {
	for line := range lines {
		_, _ = os.Stderr.WriteString(line)
	}
}

// say logs a line for people, in the form of the supervisor's. If stderr hangs, the line is lost.
func (k *keeper) say(words string) {
	select {
	case k.lines <- k.form.Line(time.Now(), Warning, words):
	default:
	}
}

// killTheRest kills the children of a dead supervisor, which are now ours: every child that is no shim of the store,
// and everything below it.
func (k *keeper) killTheRest() {
	own, shims := os.Getpid(), k.store.shims()
	k.hunt(func(p tree.Process) bool { return p.PPID == own && !shims[p.ID()] })
}

// hunt kills the members until none is left or patience is over.
func (k *keeper) hunt(member func(tree.Process) bool) {
	hunt := tree.Killer{Member: member}
	for began := time.Now(); time.Since(began) < killPatience; sleep(hunt.Pause) {
		alive, err := hunt.KillOnce()
		k.reap()
		if alive == 0 && err == nil {
			return
		}
	}
}
