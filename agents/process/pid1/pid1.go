// Package pid1 is disinto exec, the init for one command, as tini and dumb-init are in other images. It starts the
// command in a process group of its own, hands it the terminal, passes signals on, reaps orphans, and exits with the
// command's exit code when no process is left. Linux only.
//
// # Before main
//
// The whole of disinto exec runs in this package's init and never reaches main. Go initialises packages in the order
// of their import paths, each as soon as its imports are ready. This package imports so little that its turn comes 1
// ms after the start of the runtime and 5 ms before main, ahead of TLS, TOML and regular expressions. One more import
// can undo that: runtime/debug alone costs 3 ms, hence the two links in memory.go. The package also keeps 2 MiB
// resident instead of 7.
//
// # One goroutine
//
// One goroutine waits for all signals, SIGCHLD among them. It collects statuses and passes signals on in turn, so no
// signal can reach a stranger that the kernel has given the command's process number. If the program was linked with
// its own first instructions (entry.go), no other thread ever sees a signal.
//
// # Other names
//
// Called as tini or dumb-init, for example through a link with that name, the program takes their options and
// environment, and prints their messages: see role.go.
package pid1

import (
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

func init() {
	if len(os.Args) > 0 {
		if r, ok := roleOf(os.Args[0]); ok {
			syscall.Exit(r.run())
		}
	}
	if len(os.Args) > 1 && os.Args[1] == "exec" {
		// main handles wrong usage and --help.
		if o, ok := parse(os.Args[2:]); ok {
			syscall.Exit(run(o))
		}
	}
	if len(os.Args) > 1 && os.Args[1] == "run" {
		if os.Getenv(InitVar) == "" {
			syscall.Exit(keep())
		}
		attend()
		return
	}
	if os.Getpid() == 1 { // disinto demo as the entrypoint
		Notify()
	}
}

// Signals receives the signals that a supervisor answers, once Notify was called. A signal that finds the channel
// full is lost, so the channel has room for each kind more than once.
var Signals = make(chan os.Signal, 16)

// Notify catches the signals that a supervisor without an init answers. It is idempotent. As PID 1 this package calls
// it itself: until then Go's own handler lets a TERM end a program.
func Notify() {
	signal.Notify(Signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
}

// Become replaces this program by disinto exec with these options, in the same process. It returns only on an error.
func Become(o Options) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if keeps != 0 {
		setMask(&mask)
	}
	return syscall.Exec(self, append([]string{"disinto", "exec"}, o.arguments()...), environ())
}

// self is this program, even if its file has been replaced since the start.
const self = "/proc/self/exe"

// run runs a command and all its leftovers to the end. It returns the exit code for all of it.
func run(o Options) int {
	hideGODEBUG()
	if max := pidsLimit(); max < leastPids {
		printFailure(o.Command[0], "the pids limit is "+strconv.Itoa(max)+", and the init and one process need "+
			strconv.Itoa(leastPids))
		return exitFailed
	}
	c := &command{Options: o}
	listenEarly()
	setName()
	// A Go program that needs a thread and gets none dies, so all threads exist before the command can take the last
	// one. A goroutine that waits in the kernel needs one more thread, for the runtime's own goroutines.
	runtime.GOMAXPROCS(1)
	if keeps != keepsAll {
		StartThreads(4)
	}
	if code, ok := c.start(); !ok {
		return code
	}
	listen()
	c.watch()
	c.end()
	c.takeTerminalBack()
	code := c.status.ExitStatus()
	if c.status.Signaled() {
		code = exitSignal + int(c.status.Signal())
	}
	return c.role.ended(code)
}

// setName makes ps show disinto. After an execve through /proc/self/exe it would show exe.
func setName() {
	name := []byte("disinto\x00")
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0)
}

// printFailure prints why the command does not run, in the form of main's errors.
func printFailure(name, why string) {
	_, _ = os.Stderr.WriteString("disinto: cannot run " + name + ": " + why + "\n")
}
