// Package pid1 is the init for one command, disinto exec: what tini and dumb-init are in other images. It starts the
// command in a process group of its own, hands it the terminal, passes signals on, reaps what is orphaned, and ends
// with the command's exit code when nothing is left. Linux only.
//
// # Before main
//
// It starts the command as one of the first things that happen in the program, 1 ms after the runtime and 5 ms before
// main: packages are initialised in the order of their names, as far as they can be, and of those that wait in front of
// TLS and TOML only this one has nothing to wait for. That is lost with one import that does: runtime/debug costs 3 ms,
// which is why package finish stands beside this one. It goes on when the command runs, and never comes to main, so that 2
// MiB stay resident instead of 7. Package process's shims run the same way.
//
// # One goroutine
//
// Everything happens in one goroutine that waits for signals, SIGCHLD among them. A status is collected and a signal
// is passed on in turns, so a signal can never reach a stranger who was given the command's number.
package pid1

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// begun is the command of this program's arguments, once it runs; nil in a program that is something else.
var begun *command

func init() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "exec":
			// Wrong usage, and requests for help, are for main, which has the words for them.
			if o, ok := parse(os.Args[2:]); ok {
				begun = begin(o)
				return
			}
		case foregroundArg:
			syscall.Exit(foreground(os.Args[2:]))
		}
	}
	inherits := os.Getenv(HandoverVar) != ""
	if inherits || os.Getpid() == 1 {
		Notify()
	}
	if inherits { // execve has made our memory readable again, and there are agents who could
		setName()
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0)
	}
}

// HandoverVar is there in an image that follows another one in the same process: see process.Become.
const HandoverVar = "DISINTO_HANDOVER"

// Signals carries what a supervisor answers, from Notify on. It has room for every kind once and more, because a signal
// that finds the channel full is lost.
var Signals = make(chan os.Signal, 16)

// Notify catches what a supervisor answers. As PID 1, and after an upgrade, it happens here: Go's own handlers are in place
// before that, and with them a TERM ends the process, PID 1 or not. A container that is stopped while it starts would
// exit with status 2, and one that is stopped while it is upgraded would kill its agents. That is so for another
// millisecond, between the runtime's first instruction and the first one that is ours.
func Notify() {
	signal.Notify(Signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
}

// Become replaces this program by disinto exec with these options, in the same process. It returns only an error.
func Become(o Options) error {
	return syscall.Exec(self, append([]string{"disinto", "exec"}, o.arguments()...), os.Environ())
}

// self is this very program, even if its file has been replaced since.
const self = "/proc/self/exe"

// begin starts a command. If it cannot, it ends the program with the exit code that says why.
func begin(o Options) *command {
	c := &command{Options: o, signals: make(chan os.Signal, 64), children: make(chan os.Signal, 1)}
	c.listenEarly()
	setName()
	if code, ok := c.start(); !ok {
		syscall.Exit(code)
	}
	c.listen()
	return c
}

// setName has ps show disinto, and not the end of the link by which a program executes itself again.
func setName() {
	name := []byte("disinto\x00")
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0)
}

// Finish runs the command that init has begun to its end, and ends the program with the exit code for all of it. Without
// one it does nothing. settled is called when the command has run for a moment.
func Finish(settled func()) {
	if begun != nil {
		syscall.Exit(begun.run(settled))
	}
}

func (c *command) run(settled func()) int {
	c.watch(settled)
	c.end()
	c.takeTerminalBack()
	if c.status.Signaled() {
		return 128 + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}

// complain says why nothing runs, in the program's one way to say so.
func complain(name, why string) {
	_, _ = os.Stderr.WriteString("disinto: cannot run " + name + ": " + why + "\n")
}
