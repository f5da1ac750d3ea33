package pid1

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/agents/process/tree"
)

// command is the one that runs.
type command struct {
	Options
	pid      int
	terminal bool           // it was handed our terminal
	signals  chan os.Signal // to pass on
	children chan os.Signal // SIGCHLD has a channel of its own: many of them must not crowd out a TERM

	ended  bool
	status syscall.WaitStatus
	told   map[identity]bool // those that a TERM to us was passed on to
	late   <-chan time.Time  // the grace is over; nil as long as nobody asked for an end
}

// identity tells two processes with the same number apart.
type identity struct {
	pid   int
	start uint64
}

// passSIGURG is "yes" in a program whose runtime does not use SIGURG itself to interrupt goroutines: it is linked with
// asyncpreemptoff, and the same line of the Makefile says so here. Otherwise 17 of 40 commands received spurious ones.
var passSIGURG string

// listenEarly catches what could end us before the command runs. These few only: to catch one more takes 20 µs.
// A signal that was ignored when we started must still be when the command does; the runtime keeps these two so.
func (c *command) listenEarly() {
	signal.Notify(c.signals, syscall.SIGTERM, syscall.SIGQUIT)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if !signal.Ignored(s) {
			signal.Notify(c.signals, s)
		}
	}
}

// listen catches everything that can be. The runtime keeps SIGPROF and the numbers from 32 to 34 to itself.
func (c *command) listen() {
	signal.Notify(c.children, syscall.SIGCHLD)
	for s := syscall.Signal(1); s <= lastSignal; s++ {
		switch {
		case s == syscall.SIGKILL, s == syscall.SIGSTOP, s == syscall.SIGCHLD, s == syscall.SIGPROF, 32 <= s && s <= 34:
		case s == syscall.SIGURG && passSIGURG != "yes":
		default:
			signal.Notify(c.signals, s)
		}
	}
}

// watch passes signals on and reaps until the command has ended.
func (c *command) watch(settled func()) {
	late := time.After(settleTime) // a command that is over by then is spared a millisecond
	for c.reap(); !c.ended; {
		select {
		case <-c.children:
			c.reap()
		case <-late:
			settled()
			settle()
		case s := <-c.signals:
			c.pass(s.(syscall.Signal))
		case <-c.late:
			c.kill()
		}
	}
}

// reap collects every end there is, since one SIGCHLD may stand for any number of them. It reports whether no child is
// left.
func (c *command) reap() (none bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return true
		case pid == 0:
			return false
		case pid != c.pid || c.ended: // an orphan
		case ws.Stopped():
			c.stopped(ws.StopSignal())
		default:
			c.ended, c.status = true, ws
		}
	}
}

// pass passes a signal on to the command's group. Its number cannot be anybody else's: the command has not been reaped.
func (c *command) pass(s syscall.Signal) {
	if s == syscall.SIGCONT {
		c.continued()
	}
	if to := c.rewritten(s); to != 0 {
		if c.Single {
			_ = syscall.Kill(c.pid, to)
		} else {
			_ = syscall.Kill(-c.pid, to)
		}
		if s == syscall.SIGTERM {
			c.asked(to)
		}
	}
	if stops(s) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // does nothing to PID 1
	}
}

// asked is for TERM, which ends a container: it is also for those that have left the command's group, and the grace
// begins.
func (c *command) asked(to syscall.Signal) {
	if !c.Single {
		c.told = make(map[identity]bool)
		c.tell(to, c.pid)
	}
	if c.Grace > 0 && c.late == nil {
		c.late = time.After(c.Grace)
	}
}

// tell sends a signal to everything below us that has not been told yet, except to the members of a group that have it
// already.
func (c *command) tell(s syscall.Signal, group int) {
	members, err := tree.Of(os.Getpid())
	if err != nil && os.Getpid() == 1 { // no /proc
		_ = syscall.Kill(-1, s)
	}
	for _, p := range members {
		id := identity{p.PID, p.Start}
		if p.PID == os.Getpid() || p.Dead() || c.told[id] {
			continue
		}
		if p.Group != group {
			_ = p.Signal(s)
			if p.State == 'T' { // it can act on it only when it goes on
				_ = p.Signal(syscall.SIGCONT)
			}
		}
		if c.told != nil {
			c.told[id] = true
		}
	}
}

// rewritten is what a signal is passed on as; 0 means not at all. A group in a session that no shell manages ignores
// the three that stop it, so they become STOP.
func (c *command) rewritten(s syscall.Signal) syscall.Signal {
	for _, r := range c.Rewrites {
		if r.From == s {
			return r.To
		}
	}
	if stops(s) && !c.Single {
		return syscall.SIGSTOP
	}
	return s
}

// stops reports whether a signal is one with which a terminal stops a job.
func stops(s syscall.Signal) bool {
	return s == syscall.SIGTSTP || s == syscall.SIGTTIN || s == syscall.SIGTTOU
}
