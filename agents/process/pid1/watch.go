package pid1

import (
	"os"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/agents/process/tree"
)

// command is the command and its state.
type command struct {
	Options
	pid      int
	terminal bool // it has our terminal

	suspended bool // by us, together with this process, until a CONT
	ended     bool
	status    syscall.WaitStatus
	signalled map[tree.ID]bool // the processes that have received the TERM sent to us
	killAt    time.Time        // the end of the grace; zero until the first TERM
}

// watch passes signals on and reaps until the command has ended.
func (c *command) watch() {
	calm := time.Now().Add(shrinkAfter)
	for !c.ended {
		next := c.killAt
		if !calm.IsZero() && (next.IsZero() || calm.Before(next)) {
			next = calm
		}
		switch s := await(next); {
		case s == syscall.SIGCHLD:
			c.role.debug(3, "Received signal "+number(s)+".", "Received SIGCHLD")
			c.reap()
		case s != 0:
			c.forward(s)
		case next == calm:
			calm = time.Time{}
			shrink()
		default:
			c.kill()
		}
	}
}

// reap collects the status of every ended child, because one SIGCHLD may stand for any number of them. It reports
// whether no child is left.
func (c *command) reap() (none bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // no child, so the command is gone too, even if its status went elsewhere
			if !c.ended {
				c.ended, c.status = true, exitFailed<<8
			}
			return true
		case pid == 0:
			return false
		case pid != c.pid || c.ended: // an orphan
			c.role.reaped(pid, ws, false)
		case ws.Stopped():
			c.stopped(ws.StopSignal())
		default:
			c.ended, c.status = true, ws
			c.role.reaped(pid, ws, true)
		}
	}
}

// forward passes a signal on to the command's group. The number still belongs to the command, which has not been
// reaped.
func (c *command) forward(s syscall.Signal) {
	c.role.debug(3, "Received signal "+number(s)+".", "Passing signal: '"+number(s)+"'")
	if s == syscall.SIGCONT {
		c.continued()
	}
	c.suspended = stops(s) || c.suspended && s != syscall.SIGCONT
	to := c.rewritten(s)
	if to != s {
		c.role.debug(0, "Translating signal "+number(s)+" to "+number(to)+".", "")
	}
	if to == 0 {
		c.role.debug(0, "Not forwarding signal 0 to children (ignored).", "")
	} else {
		target := -c.pid
		if c.Single && to != syscall.SIGCONT { // a terminal stops a whole group, so CONT is for all of it
			target = c.pid
		}
		_ = syscall.Kill(target, to)
		c.role.debug(0, "Forwarded signal "+number(to)+" to children.", "")
		if s == syscall.SIGTERM {
			c.startGrace(to)
		}
	}
	if stops(s) {
		c.role.debug(0, "Suspending self due to TTY signal.", "")
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // does nothing to PID 1
	}
}

// startGrace handles a TERM, the signal that stops containers: processes outside the command's group receive it too,
// and the grace begins.
func (c *command) startGrace(to syscall.Signal) {
	if !c.ignoresLeftovers() {
		c.signalled = make(map[tree.ID]bool)
		c.signalOthers(to, c.pid)
	}
	if c.Grace > 0 && c.killAt.IsZero() {
		c.killAt = time.Now().Add(c.Grace)
	}
}

// ignoresLeftovers reports whether we signal only the command and its group, and leave leftovers alone, as tini and
// dumb-init do.
func (c *command) ignoresLeftovers() bool { return c.Single || c.role.name != "" }

// signalOthers sends a signal to every process below us that has not received one yet. Members of group already have
// it.
func (c *command) signalOthers(s syscall.Signal, group int) {
	members, err := tree.Of(os.Getpid())
	if err != nil && os.Getpid() == 1 { // no /proc
		_ = syscall.Kill(-1, s)
	}
	for _, p := range members {
		if p.PID == os.Getpid() || p.Dead() || c.signalled[p.ID()] {
			continue
		}
		if p.Group != group {
			_ = p.Signal(s)
			if p.State == 'T' { // a stopped process can act on the signal only when it continues
				_ = p.Signal(syscall.SIGCONT)
			}
		}
		if c.signalled != nil {
			c.signalled[p.ID()] = true
		}
	}
}

// rewritten returns the signal to pass on in place of s; 0 drops it. The three signals with which a terminal stops a
// job become STOP, because a group in a session without a job-control shell ignores them.
func (c *command) rewritten(s syscall.Signal) syscall.Signal {
	for _, r := range c.Rewrites {
		if r.From == s {
			return r.To
		}
	}
	if stops(s) && !c.Single && c.role.name != tini {
		return syscall.SIGSTOP
	}
	return s
}

// stops reports whether a terminal stops jobs with this signal.
func stops(s syscall.Signal) bool {
	return s == syscall.SIGTSTP || s == syscall.SIGTTIN || s == syscall.SIGTTOU
}
