package pid1

import (
	"os"
	"syscall"
	"unsafe"
)

// ownsTerminal reports whether stdin is a terminal with our group in the foreground: only then may we hand it over.
func ownsTerminal() bool {
	group, ok := foregroundGroup()
	return ok && group == syscall.Getpgrp()
}

// foregroundGroup returns the foreground process group of stdin's terminal; ok is false if stdin is not our session's
// terminal.
func foregroundGroup() (int, bool) {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return int(group), errno == 0
}

// setForeground makes a group of our session the foreground of the terminal. The kernel would stop us with TTOU for
// that, so setForeground blocks TTOU on this thread alone: the first, to which init is locked.
func setForeground(group int) {
	all, id := ^uint64(0), int32(group)
	before := setMask(&all)
	_, _, _ = syscall.RawSyscall(syscall.SYS_IOCTL, 0, syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&id)))
	setMask(&before)
}

// stopped handles the stop of a command: by Ctrl-Z if it has our terminal, and otherwise because it wants the terminal.
func (c *command) stopped(by syscall.Signal) {
	_, terminal := foregroundGroup()
	wants := terminal && !c.terminal && (by == syscall.SIGTTIN || by == syscall.SIGTTOU)
	switch {
	case c.suspended: // the end of the stop that we have passed on
	case wants && c.continued(): // the shell's fg gave it to us without a signal, because we were running
		_ = syscall.Kill(-c.pid, syscall.SIGCONT)
	case !c.terminal && !wants: // the process that stopped the command will continue it
	case os.Getpid() != 1:
		// Stop our group too, including this process (through pass), so that the shell above sees a stopped job.
		_ = syscall.Kill(0, syscall.SIGTSTP)
	case by == syscall.SIGTSTP:
		// Without a shell above PID 1, a stopped command would keep the terminal for ever.
		_ = syscall.Kill(-c.pid, syscall.SIGCONT)
	}
}

// continued hands the terminal over if a shell has given it to us, even if it had started us in the background.
func (c *command) continued() bool {
	if !ownsTerminal() {
		return false
	}
	c.terminal = true
	setForeground(c.pid)
	return true
}

// takeTerminalBack makes our group the foreground again. Otherwise the script that started us could not read from the
// terminal, because the foreground group has ended.
func (c *command) takeTerminalBack() {
	if !c.terminal || os.Getpid() == 1 {
		return
	}
	if group, ok := foregroundGroup(); ok && (group == c.pid || syscall.Kill(-group, 0) == syscall.ESRCH) {
		setForeground(syscall.Getpgrp())
	}
}
