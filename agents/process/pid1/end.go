package pid1

import (
	"os"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/agents/process/tree"
)

const (
	// leftoverGrace is the time from TERM to KILL for what the command leaves behind, unless told otherwise: enough for a
	// server to close its files, and with it a container still stops within Docker's 10 s.
	leftoverGrace = 5 * time.Second
	// killPatience is how long the end of the killed is waited for. Whoever outlives it belongs to a user that we may
	// not signal, or the kernel does not let go of it.
	killPatience = 2 * time.Second
)

// end ends what the command has left behind: TERM for those that have not had one, KILL after the grace. It comes back
// as soon as no child is left, at once if there is none.
func (c *command) end() {
	if c.Single || c.reap() {
		return
	}
	c.tell(syscall.SIGTERM, 0)
	grace := c.Grace
	if grace == 0 {
		grace = leftoverGrace
	}
	for late := time.After(grace); !c.reap(); {
		select {
		case <-c.children:
		case <-late:
			c.kill()
			return
		case s := <-c.signals:
			if s == syscall.SIGTERM || s == syscall.SIGINT { // somebody does not want to wait
				c.kill()
				return
			}
		}
	}
}

// kill kills everything below us, or the command alone if it is on its own, until nothing is left. What is killed
// forks no more, so that ends.
func (c *command) kill() {
	self, seen, began := os.Getpid(), make(map[tree.Process]bool), time.Now()
	member := func(p tree.Process) bool { return p.PPID == self && (!c.Single || p.PID == c.pid) }
	for pause := time.Duration(0); !c.reap() && !(c.Single && c.ended); time.Sleep(pause) {
		if time.Since(began) > killPatience {
			break
		}
		met, err := c.cull(member, seen)
		if err != nil {
			met.Fresh = 0
		}
		pause = met.Pause(pause)
	}
	if !c.ended { // not ours to kill, or stuck in the kernel
		c.ended, c.status = true, syscall.WaitStatus(syscall.SIGKILL)
	}
}

// cull is tree.Cull, and does what is possible where there is no /proc.
func (c *command) cull(member func(tree.Process) bool, seen map[tree.Process]bool) (tree.Culled, error) {
	met, err := tree.Cull(member, seen)
	switch {
	case err == nil:
	case os.Getpid() == 1:
		_ = syscall.Kill(-1, syscall.SIGKILL)
	case !c.ended:
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
	return met, err
}
