package process

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The thread of the shim that starts a sandboxed program is in the same sandbox, so Landlock lets the program signal
// that thread; and a thread that receives STOP or KILL stops or ends its whole process. Under load one session in 600
// stopped its shim in this way before the thread had ended, and hung. Therefore the program is held at its first
// instruction until the thread has ended. Only ptrace can hold a process that early.

// fork starts a program. If hold is set and the system permits it, fork holds the program. Call it on the thread that
// will end, and while no wait4(-1) runs in this process, which would consume the stop that fork waits for.
func fork(path string, argv []string, attr *syscall.ProcAttr, hold bool) (b startedProgram) {
	attr.Sys.Ptrace = hold
	b.pid, b.err = syscall.ForkExec(path, argv, attr)
	attr.Sys.Ptrace = false
	switch {
	case !hold:
	case b.err != nil: // perhaps because a container's profile refuses ptrace
		b.pid, b.err = syscall.ForkExec(path, argv, attr)
	default:
		b.held = stopAndDetach(b.pid)
	}
	return b
}

// stopAndDetach turns the initial stop of a traced program into one that outlasts the tracing. It returns false for a
// program that was killed meanwhile.
func stopAndDetach(pid int) bool {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	// The program continues with SIGSTOP as its signal, and stops again. A SIGCONT that arrives earlier cancels the
	// stop.
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(unix.SIGSTOP), 0, 0)
	return errno == 0
}

// continueAfter waits until a thread of this process has ended, and then sends CONT to the program.
func continueAfter(pid, thread int) {
	for unix.Tgkill(unix.Getpid(), thread, 0) == nil {
		time.Sleep(50 * time.Microsecond)
	}
	_ = unix.Kill(pid, unix.SIGCONT)
}
