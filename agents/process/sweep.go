package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/process/tree"
)

// runIDVar is in the environment of every process of a session, unless the process removed it. The session's shim
// does not have it.
const runIDVar = "DISINTO_RUN_ID="

// maxEnviron bounds how much of a process's environment is read. The kernel allows more only with an unlimited stack.
const maxEnviron = 6 << 20

// environ reads the environments of other processes; its zero value is ready. It keeps its buffer, because a sweep
// reads hundreds of environments.
type environ struct {
	buf   []byte
	waits int // number of waits for an execve
}

// maxWaits bounds the milliseconds that a sweep waits for processes in the middle of execve, because a process can
// look like that for ever.
const maxWaits = 100

// runID returns the run id with which the process was started. Kernel threads, zombies, and processes that we may not
// look into have none.
func (e *environ) runID(pid int) string {
	if e.buf == nil {
		e.buf = make([]byte, 64<<10)
	}
	n, err := e.read(pid)
	for ; n == 0 && err == nil && e.waits < maxWaits && inExec(pid); e.waits++ {
		time.Sleep(time.Millisecond)
		n, err = e.read(pid)
	}
	if err != nil {
		return ""
	}
	env := e.buf[:n]
	if !bytes.HasPrefix(env, []byte(runIDVar)) {
		_, env, _ = bytes.Cut(env, []byte("\x00"+runIDVar))
	} else {
		env = env[len(runIDVar):]
	}
	id, _, _ := bytes.Cut(env, []byte{0})
	return string(id)
}

func (e *environ) read(pid int) (n int, err error) {
	for {
		n, err = tree.ReadFile(pid, "environ", e.buf)
		if err == unix.EACCES || err == unix.EPERM {
			n, err = e.readAsOwner(pid)
		}
		if err != nil || n < len(e.buf) || n >= maxEnviron {
			return n, err
		}
		e.buf = make([]byte, 4*len(e.buf))
	}
}

// readAsOwner reads the environment with the rights of the process's account: root without CAP_SYS_PTRACE, as in a
// default container, may not read that of another account's process.
func (e *environ) readAsOwner(pid int) (n int, err error) {
	var st unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) != nil || st.Uid == 0 || os.Geteuid() != 0 {
		return 0, unix.EACCES
	}
	err = asFileUser(int(st.Uid), int(st.Gid), func() (err error) {
		n, err = tree.ReadFile(pid, "environ", e.buf)
		return err
	})
	return n, err
}

// inExec reports whether the process has a program and no arguments. execve maps the program and closes descriptors
// before it sets the positions of arguments and environment. Kernel threads and zombies have no program.
func inExec(pid int) bool {
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
		return false
	}
	var buf [1]byte
	n, err := tree.ReadFile(pid, "cmdline", buf[:])
	return err == nil && n == 0
}

// restricted reports whether the process has no_new_privs, which it cannot lose and passes on to its children.
func restricted(pid int) bool {
	var buf [4096]byte
	n, err := tree.ReadFile(pid, "status", buf[:])
	return err == nil && bytes.Contains(buf[:n], []byte("\nNoNewPrivs:\t1\n"))
}

// isShim reports whether the process is, or pretends to be, the shim of a run whose id starts with runID. It checks
// the arguments, which can be read even if the process's memory is protected.
func isShim(pid int, runID string) bool {
	var buf [512]byte
	n, err := tree.ReadFile(pid, "cmdline", buf[:])
	args := bytes.SplitN(buf[:n], []byte{0}, 3)
	return err == nil && len(args) == 3 && string(args[1]) == shimArg && bytes.HasPrefix(args[2], []byte(runID))
}

// shimPatience is how long endStale waits for a stale shim. A shim needs milliseconds; one that takes longer is a
// stopped process, or an agent that calls itself a shim. Tests shorten it.
var shimPatience = 5 * time.Second

// endStale ends every process that an earlier supervisor of this instance left behind, except what is known: each one
// whose run id starts with the instance id and a dash. It returns their number once none is left, or the context's
// error, wrapped. It may be repeated.
//
// Normally there are none: they end with their PID namespace or, without one, with their shim, which ends its tree as
// soon as init and supervisor are gone. endStale waits for a shim that is still ending its tree, because killing the
// shim would release its children.
func endStale(ctx context.Context, instance string, known func(pid int, runID string) bool) (int, error) {
	var env environ
	var shims int
	self, began := os.Getpid(), time.Now()
	hunt := tree.Killer{Member: func(p tree.Process) bool {
		switch {
		case p.PID == self || known(p.PID, ""):
			return false
		case isShim(p.PID, instance+"-"):
			shims++
			return time.Since(began) > shimPatience
		}
		id := env.runID(p.PID)
		return strings.HasPrefix(id, instance+"-") && !known(0, id)
	}}
	groups := staleCgroups(instance, func(runID string) bool { return known(0, runID) })
	for {
		shims = 0
		for _, g := range groups {
			g.kill()
		}
		alive, err := hunt.KillOnce()
		if err != nil {
			return hunt.Killed(), fmt.Errorf("cannot look for processes of an earlier run: %w", err)
		}
		if alive == 0 && shims == 0 && !slices.ContainsFunc(groups, func(g cgroup) bool { return !g.empty() }) {
			for _, g := range groups {
				g.remove()
			}
			return hunt.Killed(), nil
		}
		select {
		case <-ctx.Done():
			return hunt.Killed(), fmt.Errorf("cannot end %d processes of an earlier run: %w", alive+shims, ctx.Err())
		case <-time.After(hunt.Pause):
		}
	}
}
