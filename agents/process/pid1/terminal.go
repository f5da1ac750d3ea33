package pid1

import (
	"os"
	"syscall"
	"unsafe"
)

// foregroundArg as the first argument makes this program the step between us and a command with a terminal. A process
// that takes the terminal for its group is stopped by TTOU unless it blocks that signal, and fork as Go offers it cannot
// block it just that long. So a process of our own does, and becomes the command. It costs 2 ms, where a person looks.
const foregroundArg = "exec-foreground"

// foreground takes the terminal and becomes the command: the path of the program and its argv.
func foreground(args []string) int {
	if len(args) < 2 {
		return exitFailed
	}
	setForeground(syscall.Getpgrp())
	path, argv := args[0], args[1:]
	err := syscall.Exec(path, argv, os.Environ())
	if err == syscall.ENOEXEC {
		err = syscall.Exec(shell, shellCommand(path, argv), os.Environ())
	}
	complain(argv[0], err.Error())
	return exitCode(err)
}

// ownsTerminal reports whether stdin is a terminal whose foreground we are, and so ours to hand over.
func ownsTerminal() bool {
	group, ok := foregroundGroup()
	return ok && group == syscall.Getpgrp()
}

// foregroundGroup is the process group that the terminal on stdin listens to; not ok if that is not our terminal.
func foregroundGroup() (int, bool) {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return int(group), errno == 0
}

// setForeground makes a group of our session the one that the terminal listens to. Call it on a locked thread: the
// signal that would stop us for it is blocked on this one meanwhile.
func setForeground(group int) {
	const block, setmask = 0, 2
	ttou, old, id := uint64(1)<<(syscall.SIGTTOU-1), uint64(0), int32(group)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, block, uintptr(unsafe.Pointer(&ttou)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_IOCTL, 0, syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&id)))
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, setmask, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
}

// stopped answers the stop of a command that has our terminal, by Ctrl-Z most likely.
func (c *command) stopped(by syscall.Signal) {
	switch {
	case !c.terminal: // whoever stopped it goes on with it
	case os.Getpid() != 1:
		// Our group stops too, this process by way of pass, so that the shell above sees a job that has stopped.
		_ = syscall.Kill(0, syscall.SIGTSTP)
	case by == syscall.SIGTSTP:
		// There is no shell above PID 1, and a stopped command would hold the terminal for good.
		_ = syscall.Kill(-c.pid, syscall.SIGCONT)
	}
}

// continued hands the terminal over again if a shell has just given it to us.
func (c *command) continued() {
	if c.terminal && ownsTerminal() {
		setForeground(c.pid)
	}
}

// takeTerminalBack is for the script that started us: it could not read any more when the foreground is a group that
// has ended.
func (c *command) takeTerminalBack() {
	if !c.terminal || os.Getpid() == 1 {
		return
	}
	if group, ok := foregroundGroup(); ok && (group == c.pid || syscall.Kill(-group, 0) == syscall.ESRCH) {
		setForeground(syscall.Getpgrp())
	}
}
