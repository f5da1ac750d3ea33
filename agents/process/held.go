package process

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A program in a sandbox is started by a thread of the shim that is in the same sandbox, and Landlock lets it signal
// that thread: a stop or kill of a thread is one of its whole process. Under load one session in 600 stopped its shim
// like that before the thread had ended, and hung. The program is therefore held at its first instruction until the
// thread is gone. Only ptrace holds a process that early.

// fork starts a program, held where hold is set and the system lets us. It is called on the thread that ends, and while
// no wait4(-1) runs in this process, which would take the stop that fork waits for.
func fork(path string, argv []string, attr *syscall.ProcAttr, hold bool) (b begun) {
	attr.Sys.Ptrace = hold
	b.pid, b.err = syscall.ForkExec(path, argv, attr)
	attr.Sys.Ptrace = false
	switch {
	case !hold:
	case b.err != nil: // perhaps because a container's profile refuses ptrace
		b.pid, b.err = syscall.ForkExec(path, argv, attr)
	default:
		b.held = stopped(b.pid)
	}
	return b
}

// stopped turns the stop of a traced program, which has just begun, into one that outlasts the tracing. It is false for
// a program that was killed meanwhile.
func stopped(pid int) bool {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	// It goes on with SIGSTOP as its signal, and stops again. A SIGCONT that comes before that takes the stop back.
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(unix.SIGSTOP), 0, 0)
	return errno == 0
}

// letGo waits until a thread of this process has ended, and has the program go on.
func letGo(pid, thread int) {
	for unix.Tgkill(unix.Getpid(), thread, 0) == nil {
		time.Sleep(50 * time.Microsecond)
	}
	_ = unix.Kill(pid, unix.SIGCONT)
}
