package pid1

import (
	"os"
	"syscall"
	"unsafe"
)

// ownsTerminal reports whether stdin is a terminal with our group in the foreground: only then is it ours to hand over.
func ownsTerminal() bool {
	group, ok := foregroundGroup()
	return ok && group == syscall.Getpgrp()
}

// foregroundGroup is the foreground process group of the terminal on stdin; ok is false without a terminal of ours.
func foregroundGroup() (int, bool) {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return int(group), errno == 0
}

// setForeground makes a group of our session the foreground of the terminal. It blocks TTOU, with which the kernel
// would stop us for it, on this thread alone: it is the first, to which init is locked.
func setForeground(group int) {
	all, id := ^uint64(0), int32(group)
	before := setMask(&all)
	_, _, _ = syscall.RawSyscall(syscall.SYS_IOCTL, 0, syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&id)))
	setMask(&before)
}

// stopped answers the stop of a command that has our terminal, most likely by Ctrl-Z.
func (c *command) stopped(by syscall.Signal) {
	switch {
	case !c.terminal: // the process that stopped it will continue it
	case os.Getpid() != 1:
		// Stop our group too, this process through pass, so that the shell above sees a stopped job.
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

// takeTerminalBack makes our group the foreground again. The script that started us could not read from the terminal
// while a group that has ended is its foreground.
func (c *command) takeTerminalBack() {
	if !c.terminal || os.Getpid() == 1 {
		return
	}
	if group, ok := foregroundGroup(); ok && (group == c.pid || syscall.Kill(-group, 0) == syscall.ESRCH) {
		setForeground(syscall.Getpgrp())
	}
}
