package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// runIDVar is in the environment of every process of a session, unless the process took care to lose it.
	runIDVar = "DISINTO_RUN_ID="
	// shimVar is in the environment of the session's shim. It is another name, because a shim must never be killed
	// before what is below it.
	shimVar = "DISINTO_SHIM="
)

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
		n, err = readProc(pid, "environ", e.buf)
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
		n, err = readProc(pid, "environ", e.buf)
		return err
	})
	return n, err
}

// EndStale ends every process that an earlier supervisor of this instance left behind: each one whose run id begins
// with the instance id and a dash. It returns how many there were when none is left, or the context's error. Call it
// before the first session of this instance is started.
//
// Normally there are none: a PID namespace takes them with it, and elsewhere the shims end what is below them as soon
// as their supervisor is gone. A shim that has not finished is waited for; killed, it would let go of what it holds.
func EndStale(ctx context.Context, instance string) (int, error) {
	var env environ
	self, seen, shims := os.Getpid(), map[proc]bool{}, 0
	member := func(p proc) bool {
		if p.pid == self {
			return false
		}
		if env.has(p.pid, shimVar+instance+"-") {
			shims++
			return false
		}
		return env.has(p.pid, runIDVar+instance+"-")
	}
	groups := staleCgroups(instance)
	for pause := time.Duration(0); ; {
		shims = 0
		groups.kill()
		c, err := cull(member, seen)
		if err == nil && c.alive == 0 && shims == 0 && groups.empty() {
			groups.remove()
			return len(seen), nil
		}
		if err != nil {
			return len(seen), fmt.Errorf("cannot look for processes of an earlier run: %w", err)
		}
		pause = nextPause(pause, c)
		select {
		case <-ctx.Done():
			return len(seen), fmt.Errorf("cannot end %d processes of an earlier run: %w", c.alive+shims, ctx.Err())
		case <-time.After(pause):
		}
	}
}
