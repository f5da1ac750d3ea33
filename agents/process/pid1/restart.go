package pid1

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/agents/process/tree"
)

// begin starts a supervisor: this program, or the one that an upgrade named, with our arguments. It gets its
// environment through a pipe, because an agent with its account could read the one of an execve in /proc before the
// supervisor can protect itself.
func (k *keeper) begin() error {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(pair[1])
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		_ = syscall.Close(pair[0])
		return err
	}
	defer syscall.Close(pipe[0])
	pid, err := syscall.ForkExec("/proc/self/fd/"+strconv.Itoa(k.program), os.Args, &syscall.ProcAttr{
		Env:   append(runtimeVars(os.Environ()), InitVar+"=1"),
		Files: []uintptr{0, 1, 2, uintptr(pair[1]), uintptr(pipe[0])},
		// A terminal's signals are for us alone. Without us the supervisor could not be stopped.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		_, _, _ = syscall.Close(pair[0]), syscall.Close(pipe[0]), syscall.Close(pipe[1])
		return err
	}
	go func() {
		f := os.NewFile(uintptr(pipe[1]), "environment")
		_, _ = f.WriteString(strings.Join(os.Environ(), "\x00"))
		_ = f.Close()
	}()
	k.pid, k.link = pid, pair[0]
	k.messages, k.closed = make(chan Message), make(chan struct{})
	go receive(k.link, k.messages, k.closed)
	k.started(time.Now())
	k.out = append([]Message{k.beginning()}, k.store.messages()...)
	k.out = append(k.out, NewMessage("end"))
	if !k.stopBy.IsZero() { // the last supervisor may not have got the order
		k.held = []Message{stopMessage(syscall.SIGTERM)}
	}
	return nil
}

// beginning tells a supervisor what happened before it.
func (k *keeper) beginning() Message {
	number := func(n int) string { return strconv.Itoa(n) }
	return NewMessage("begin", strconv.FormatInt(k.began.UnixNano(), 10), number(k.upgrades), number(k.crashes), k.why)
}

// runtimeVars returns the variables that only Go's runtime reads, at its start.
func runtimeVars(environ []string) (vars []string) {
	for _, kv := range environ {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOTRACEBACK", "GORACE", "GOCOVERDIR":
			vars = append(vars, kv)
		}
	}
	return vars
}

// receive delivers a supervisor's messages. Those that it sent before its death come before closed.
func receive(link int, messages chan<- Message, closed chan<- struct{}) {
	defer close(closed)
	for {
		m, err := Receive(link)
		if err != nil {
			return
		}
		messages <- m
	}
}

// supervisorEnded decides what follows a supervisor that was reaped and whose messages were all read.
func (k *keeper) supervisorEnded() {
	_ = syscall.Close(k.link)
	upgrade := k.next >= 0 && k.status == 0
	k.link, k.out, k.closed = -1, nil, nil
	trial := k.trial
	k.died(time.Now(), k.status == 0, upgrade)
	k.why = Describe(k.status)
	switch {
	case upgrade:
		k.program, k.why = k.next, ""
		k.next = -1
	case k.leaves():
	default:
		words := "the supervisor ended, " + Describe(k.status) + "; it is started again"
		if rest := k.rest(); rest > 0 {
			words += " in " + rest.String()
		}
		if n := len(k.store.shims()); n > 0 {
			words += "; programs of sessions and services that go on: " + strconv.Itoa(n)
		}
		k.say(words)
	}
	if trial && !upgrade && k.program != k.good { // the new program of an upgrade was never ready
		k.say("the new program of the upgrade was never ready: the one before it is started again")
		_ = syscall.Close(k.program)
		k.program = k.good
		k.rolledBack()
	}
	k.code = k.status.ExitStatus()
	if k.status.Signaled() {
		k.code = exitSignal + int(k.status.Signal())
	}
}

// restart ends what the dead supervisor left, and starts the next one.
func (k *keeper) restart() {
	k.killTheRest()
	if err := k.begin(); err != nil {
		k.say("cannot start the supervisor: " + err.Error())
		k.died(time.Now(), false, false)
	}
}

// leave ends all sessions that are left after the last supervisor, and returns its exit code.
func (k *keeper) leave() int {
	if k.stopBy.IsZero() || k.code == 0 && len(k.store.shims()) == 0 { // it has ended all, or has never been ready
		k.store.close()
	} else {
		k.store.end(int64(max(0, time.Until(k.stopBy)-stopSlack)), "stopped while no supervisor ran")
	}
	by := earlier(k.stopBy, time.Now().Add(k.grace+stopSlack))
	k.killTheRest()
	for time.Now().Before(by) {
		if !k.hasChildren() {
			return k.code
		}
		select {
		case s := <-Signals:
			if s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGQUIT {
				return k.killAll(k.code)
			}
		case <-sigchld:
		case <-time.After(time.Until(by)):
		}
	}
	return k.killAll(k.code)
}

// hasChildren reaps, and reports whether a child is left.
func (k *keeper) hasChildren() bool {
	k.reap()
	_, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	return err != syscall.ECHILD
}

// killAll kills everything below us, and returns the exit code.
func (k *keeper) killAll(code int) int {
	own := os.Getpid()
	k.hunt(func(p tree.Process) bool { return p.PPID == own })
	return code
}

// Describe says how a process ended, such as "killed by SIGKILL" or "exit status 3".
func Describe(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "killed by " + SignalName(ws.Signal())
	}
	return "exit status " + strconv.Itoa(ws.ExitStatus())
}

// SignalName returns a name such as SIGKILL, or "signal 34" for a real-time signal.
func SignalName(s syscall.Signal) string {
	if n := int(s); n <= len(signalNames) {
		return "SIG" + signalNames[n-1]
	}
	return "signal " + number(s)
}
