package process

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/process/pid1"
)

// Init prepares this process to be a supervisor. Call it first in main, once, before NewReaper. The channel delivers
// the signals that a supervisor answers: TERM, INT, HUP, USR1 and USR2. If it has an init, TERM and INT come from that.
//
// Init also ensures that a closed stdout does not end the process, that no other process of the same user may read
// its memory and environment (they hold every token), and that it has threads before a pids limit can refuse them.
func Init() (<-chan os.Signal, error) {
	if !pid1.HasInit() {
		pid1.Notify()
	}
	// Go ends a process that writes to a closed stdout unless SIGPIPE is handled. Children would inherit an ignored
	// signal; they do not inherit a handler.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("cannot protect the supervisor's memory: %w", err)
	}
	closeOnExec()
	pid1.StartThreads(16)
	return pid1.Signals, nil
}

// closeOnExec prevents children from inheriting any descriptor but the first three. Go marks the descriptors that it
// opens, but not those that our own parent left open.
func closeOnExec() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	for fd := 3; fd < 256; fd++ { // kernels before 5.11
		unix.CloseOnExec(fd)
	}
}

// Trim releases memory that this process does not need while it waits: garbage, and the pages of its own binary. In
// one measurement 13.3 MiB resident became 6.7 MiB. It may be called at any time.
func Trim() {
	debug.FreeOSMemory()
	pid1.DropBinary()
}

// HasInit reports whether this process is a supervisor that an init started, and can start again.
func HasInit() bool { return pid1.HasInit() }
