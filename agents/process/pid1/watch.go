package pid1

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/agents/process/tree"
)

// command is the command that runs.
type command struct {
	Options
	pid      int
	terminal bool           // it was handed our terminal
	signals  chan os.Signal // to pass on
	children chan os.Signal // SIGCHLD, apart, or many of them would crowd out a TERM

	ended  bool
	status syscall.WaitStatus
	told   map[tree.ID]bool // the processes that a TERM to us was passed on to
	late   <-chan time.Time // fires when the grace is over; nil until the first TERM
}

// passSIGURG is "yes" in a program linked with asyncpreemptoff, whose runtime does not interrupt goroutines with
// SIGURG; the Makefile sets both in one line. In any other program 17 of 40 commands received a SIGURG that was never
// sent.
var passSIGURG string

// listenEarly catches the signals that could end us before the command runs. It catches no more, since each costs 20
// µs. HUP and INT that were ignored when we started stay ignored, for the command too: the runtime keeps these two so.
func (c *command) listenEarly() {
	signal.Notify(c.signals, syscall.SIGTERM, syscall.SIGQUIT)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if !signal.Ignored(s) {
			signal.Notify(c.signals, s)
		}
	}
}

// listen catches every signal that can be caught. The runtime keeps SIGPROF and the numbers from 32 to 34 to itself.
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
func (c *command) watch() {
	calm := time.After(settleTime)
	for c.reap(); !c.ended; {
		select {
		case <-c.children:
			c.reap()
		case <-calm:
			settle()
		case s := <-c.signals:
			c.pass(s.(syscall.Signal))
		case <-c.late:
			c.kill()
		}
	}
}

// reap collects the status of every ended child, since one SIGCHLD may stand for any number of them. It reports whether
// no child is left.
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

// pass passes a signal on to the command's group. The number is still the command's, which has not been reaped.
func (c *command) pass(s syscall.Signal) {
	if s == syscall.SIGCONT {
		c.continued()
	}
	if to := c.rewritten(s); to != 0 {
		target := -c.pid
		if c.Single {
			target = c.pid
		}
		_ = syscall.Kill(target, to)
		if s == syscall.SIGTERM {
			c.asked(to)
		}
	}
	if stops(s) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // does nothing to PID 1
	}
}

// asked answers a TERM, with which containers are stopped: it reaches processes outside the command's group too, and
// the grace begins.
func (c *command) asked(to syscall.Signal) {
	if !c.Single {
		c.told = make(map[tree.ID]bool)
		c.tell(to, c.pid)
	}
	if c.Grace > 0 && c.late == nil {
		c.late = time.After(c.Grace)
	}
}

// tell sends a signal to every process below us that has not been told yet. Members of group have the signal already.
func (c *command) tell(s syscall.Signal, group int) {
	members, err := tree.Of(os.Getpid())
	if err != nil && os.Getpid() == 1 { // no /proc
		_ = syscall.Kill(-1, s)
	}
	for _, p := range members {
		if p.PID == os.Getpid() || p.Dead() || c.told[p.ID()] {
			continue
		}
		if p.Group != group {
			_ = p.Signal(s)
			if p.State == 'T' { // a stopped process can act on it only when it continues
				_ = p.Signal(syscall.SIGCONT)
			}
		}
		if c.told != nil {
			c.told[p.ID()] = true
		}
	}
}

// rewritten is the signal that a signal is passed on as; 0 drops it. The three signals with which a terminal stops a
// job become STOP: a group in a session without a job-control shell ignores them.
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
