package process

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/forge"
)

// Exit is how a child ended.
type Exit struct {
	Status syscall.WaitStatus
	// Usage covers the child and all processes that it waited for.
	Usage syscall.Rusage
}

// Child is a process that a Reaper started.
type Child struct {
	PID  int
	exit chan Exit // with room for one, so that the reaper never waits for a reader
}

func newChild(pid int) *Child { return &Child{PID: pid, exit: make(chan Exit, 1)} }

// Exit delivers how the child ended, once.
func (c *Child) Exit() <-chan Exit { return c.exit }

// Reaper owns wait4(-1): it waits for every child of this process, whether the process started it or the kernel
// reparented it. A process has one Reaper, and nothing else in it may wait for children, neither os/exec nor
// os.Process: the kernel gives a status to the first waiter, and the second never gets it.
//
// A Reaper lives as long as its process. Its methods may be called at any time, from any number of goroutines.
type Reaper struct {
	mu       sync.Mutex // held over non-blocking system calls only
	children map[int]*Child
	starting int          // forks in progress, whose children are not in the table yet
	early    map[int]Exit // exits of pids not in children, seen while starting > 0
	reaped   int64
	orphans  int64
}

// panicRest is the pause between a panic of the reaper and its next try.
const panicRest = 100 * time.Millisecond

// reaping prevents a second Reaper, which would consume statuses that the first waits for.
var reaping atomic.Bool

// NewReaper starts reaping. Unless this process is PID 1, it becomes a subreaper, so that the kernel gives it its
// children's orphans too. A second call in a process fails.
func NewReaper() (*Reaper, error) {
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("cannot become a subreaper: %w", err)
		}
	}
	return NewChildReaper()
}

// NewChildReaper is NewReaper for a process below an init: the init gets the orphans, so it also gets this process's
// sessions if this process is killed.
func NewChildReaper() (*Reaper, error) {
	if !reaping.CompareAndSwap(false, true) {
		return nil, errors.New("cannot reap: this process has a reaper already")
	}
	r := &Reaper{children: make(map[int]*Child), early: make(map[int]Exit)}
	chld := make(chan os.Signal, 1)
	signal.Notify(chld, syscall.SIGCHLD)
	go func() {
		for told := ""; ; {
			err := safely("the reaper", r.sweep) // once before the first signal: children may have ended earlier
			if err == nil {
				<-chld
				continue
			}
			told = printPanic(err, told) // the panic loses its own exit only; later ones are collected
			time.Sleep(panicRest)
		}
	}()
	return r, nil
}

// Reaped returns the numbers of processes reaped so far: children that it started, and orphans.
func (r *Reaper) Reaped() (started, orphans int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reaped, r.orphans
}

// isOwn reports whether the reaper started the child pid itself.
func (r *Reaper) isOwn(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.children[pid] != nil
}

// printPanic writes a panic to stderr unless it repeats the one before: every child's exit may cause the same panic.
func printPanic(err error, told string) string {
	for _, p := range forge.Panics(err) {
		if p.Error() != told {
			fmt.Fprintf(os.Stderr, "disinto: %v\n%s", p, p.Stack)
		}
	}
	return err.Error()
}

// sweep collects every available exit, because one SIGCHLD may stand for any number of them.
func (r *Reaper) sweep() error {
	for r.collect() {
	}
	return nil
}

// collect consumes one exit status, and reports whether there may be more.
func (r *Reaper) collect() (more bool) {
	var e Exit
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.Wait4(-1, &e.Status, syscall.WNOHANG, &e.Usage)
	if c := r.children[pid]; c != nil {
		delete(r.children, pid)
		r.reaped++
		c.exit <- e
	} else if pid > 0 {
		r.orphans++
		if r.starting > 0 {
			r.early[pid] = e // perhaps of a child whose fork has not returned yet
		}
	}
	return pid > 0 || err == syscall.EINTR
}

// Start starts a program. path is used without a search, relative to attr.Dir. An error for which Exhausted returns
// true may disappear by itself.
//
// The table is not locked while the kernel forks and executes, because an executable on a slow disk would delay the
// exits of all other children. If a child ends before it is in the table, its exit waits in early.
func (r *Reaper) Start(path string, argv []string, attr *syscall.ProcAttr) (*Child, error) {
	r.mu.Lock()
	r.starting++
	r.mu.Unlock()

	pid, err := syscall.ForkExec(path, argv, attr)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting--
	var c *Child
	if err == nil {
		c = newChild(pid)
		r.adoptLocked(c)
	}
	if r.starting == 0 {
		clear(r.early)
	}
	return c, err
}

// adoptLocked delivers a new child's exit if it is already known, or adds the child to the table. An early exit with
// the child's number may belong to an orphan that had the number before; then the child can still be waited for.
func (r *Reaper) adoptLocked(c *Child) {
	e, ok := r.early[c.PID]
	if ok && unix.Waitid(unix.P_PID, c.PID, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD {
		delete(r.early, c.PID)
		r.orphans--
		r.reaped++
		c.exit <- e
		return
	}
	r.children[c.PID] = c
}

// Exhausted reports whether a start failed for lack of a process number or of memory. Then the program is not at
// fault, and the same start may work later.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM)
}
