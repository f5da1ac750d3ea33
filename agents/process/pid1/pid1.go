// Package pid1 is the init for one command, disinto exec: what tini and dumb-init are in other images. It starts the
// command in a process group of its own, hands it the terminal, passes signals on, reaps what is orphaned, and ends
// with the command's exit code when nothing is left. Linux only.
//
// # Before main
//
// It runs while the program is still being initialised, before the packages that speak TLS and TOML: the command runs
// 2.5 ms after exec, and 2 MiB stay resident instead of 7. So it imports nothing that has to wait for its turn; a
// package late in the alphabet costs a millisecond. Package process's shims run the same way.
//
// # One goroutine
//
// Everything happens in one goroutine that waits for signals, SIGCHLD among them. A status is collected and a signal
// is passed on in turns, so a signal can never reach a stranger who was given the command's number.
package pid1

import (
	"os"
	"syscall"
)

func init() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case "exec":
		// Wrong usage, and requests for help, are for main, which has the words for them.
		if o, ok := parse(os.Args[2:]); ok {
			syscall.Exit(run(o))
		}
	case foregroundArg:
		syscall.Exit(foreground(os.Args[2:]))
	}
}

// Become replaces this program by disinto exec with these options, in the same process. It returns only an error.
func Become(o Options) error {
	return syscall.Exec(self, append([]string{"disinto", "exec"}, o.arguments()...), os.Environ())
}

// self is this very program, even if its file has been replaced since.
const self = "/proc/self/exe"

// run runs the command to its end and answers the exit code for all of it.
func run(o Options) int {
	c := &command{Options: o, signals: make(chan os.Signal, 64), children: make(chan os.Signal, 1)}
	c.listenEarly()
	if code, ok := c.start(); !ok {
		return code
	}
	c.listen()
	c.watch()
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
