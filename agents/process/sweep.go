package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/process/tree"
)

// runIDVar is in the environment of every process of a session, unless the process took care to lose it. The session's
// shim does not have it.
const runIDVar = "DISINTO_RUN_ID="

// maxEnviron bounds what is read of a process's environment. The kernel allows more only for an unlimited stack.
const maxEnviron = 6 << 20

// environ reads the environments of other processes; the zero value is ready. It keeps its buffer, because a sweep
// reads hundreds.
type environ struct{ buf []byte }

// has reports whether the process was started with an environment entry that begins so. Kernel threads, zombies, and
// processes that we may not look into have none.
func (e *environ) has(pid int, prefix string) bool {
	if e.buf == nil {
		e.buf = make([]byte, 64<<10)
	}
	n, err := e.read(pid)
	if err != nil {
		return false
	}
	env := append(e.buf[:n:n], 0)
	return bytes.HasPrefix(env, []byte(prefix)) || bytes.Contains(env, append([]byte{0}, prefix...))
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

// readAsOwner is for root without CAP_SYS_PTRACE, as in a default container: root may not look into another account's
// process there, but that account may.
func (e *environ) readAsOwner(pid int) (n int, err error) {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d", pid), &st); err != nil {
		return 0, err
	}
	if os.Geteuid() != 0 || st.Uid == 0 {
		return 0, unix.EACCES
	}
	err = asFileUser(int(st.Uid), int(st.Gid), func() (err error) {
		n, err = tree.ReadFile(pid, "environ", e.buf)
		return err
	})
	return n, err
}

// restricted reports whether the process has no_new_privs, which it cannot lose and passes on to its children.
func restricted(pid int) bool {
	var buf [4096]byte
	n, err := tree.ReadFile(pid, "status", buf[:])
	return err == nil && bytes.Contains(buf[:n], []byte("\nNoNewPrivs:\t1\n"))
}

// isShim reports whether the process is, or pretends to be, the shim of a run whose id begins so. It goes by the
// arguments, which can be read of a process that is protected like a shim.
func isShim(pid int, runID string) bool {
	var buf [512]byte
	n, err := tree.ReadFile(pid, "cmdline", buf[:])
	args := bytes.SplitN(buf[:n], []byte{0}, 3)
	return err == nil && len(args) == 3 && string(args[1]) == shimArg && bytes.HasPrefix(args[2], []byte(runID))
}

// shimPatience is how long a stale shim is waited for. They need milliseconds; one that takes longer is stopped, or an
// agent that took its name.
const shimPatience = 5 * time.Second

// EndStale ends every process that an earlier supervisor of this instance left behind: each one whose run id begins
// with the instance id and a dash. It returns how many there were when none is left, or the context's error. Call it
// before the first session of this instance is started.
//
// Normally there are none: a PID namespace takes them with it, and elsewhere the shims end what is below them as soon
// as their supervisor is gone. A shim that has not finished is waited for: killed, it would let go of what it holds.
func EndStale(ctx context.Context, instance string) (int, error) {
	var env environ
	var shims int
	self, seen, began := os.Getpid(), map[tree.Process]bool{}, time.Now()
	member := func(p tree.Process) bool {
		switch {
		case p.PID == self:
			return false
		case isShim(p.PID, instance+"-"):
			shims++
			return time.Since(began) > shimPatience
		}
		return env.has(p.PID, runIDVar+instance+"-")
	}
	groups := staleCgroups(instance)
	for pause := time.Duration(0); ; {
		shims = 0
		groups.kill()
		c, err := tree.Cull(member, seen)
		if err != nil {
			return len(seen), fmt.Errorf("cannot look for processes of an earlier run: %w", err)
		}
		if c.Alive == 0 && shims == 0 && groups.empty() {
			groups.remove()
			return len(seen), nil
		}
		pause = c.Pause(pause)
		select {
		case <-ctx.Done():
			return len(seen), fmt.Errorf("cannot end %d processes of an earlier run: %w", c.Alive+shims, ctx.Err())
		case <-time.After(pause):
		}
	}
}
