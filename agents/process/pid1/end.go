package pid1

import (
	"os"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/agents/process/tree"
)

const (
	// leftoverGrace is the default time from TERM to KILL for processes that the command leaves behind. It is long
	// enough for a server to close its files, and short enough that a container stops within Docker's 10 s.
	leftoverGrace = 5 * time.Second
	// killPatience is how long killed processes may take to end. One that takes longer belongs to a user that we may not
	// signal, or is stuck in the kernel.
	killPatience = 2 * time.Second
)

// end ends the processes that the command has left behind: TERM for those that have had none, KILL after the grace.
// It returns as soon as no child is left.
func (c *command) end() {
	if c.role.name == dumbInit && !c.Single {
		_ = syscall.Kill(-c.pid, syscall.SIGTERM) // a member of its group need not be below us
	}
	if c.ignoresLeftovers() || c.reap() {
		return
	}
	c.signalOthers(syscall.SIGTERM, 0)
	grace := c.Grace
	if grace == 0 {
		grace = leftoverGrace
	}
	for late := time.Now().Add(grace); !c.reap(); {
		s := await(late)
		// A second request does not wait for the grace.
		if s == syscall.SIGTERM || s == syscall.SIGINT || s == 0 && !time.Now().Before(late) {
			c.kill()
			return
		}
	}
}

// kill kills every process below us, or with Single only the command, until none is left. A killed process cannot
// fork, so this terminates.
func (c *command) kill() {
	self, began := os.Getpid(), time.Now()
	hunt := tree.Killer{Member: func(p tree.Process) bool { return p.PPID == self && (!c.Single || p.PID == c.pid) }}
	for ; !c.reap() && !(c.Single && c.ended) && time.Since(began) < killPatience; sleep(hunt.Pause) {
		_, err := hunt.KillOnce()
		switch { // without /proc:
		case err == nil:
		case self == 1:
			_ = syscall.Kill(-1, syscall.SIGKILL)
		case !c.ended:
			_ = syscall.Kill(-c.pid, syscall.SIGKILL)
		}
	}
	if !c.ended { // we may not kill it, or it is stuck in the kernel
		c.ended, c.status = true, syscall.WaitStatus(syscall.SIGKILL)
	}
}

// sleep blocks in the kernel: a timer of the runtime might need another thread.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil)
}
