package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor/control"
)

// At a container's pids limit no session can start a program, and nothing breaks: the supervisor answers, the waiting
// session logs why, and it starts as soon as there is room.
func TestPIDsLimit(t *testing.T) {
	leftToStorms(t, "TestPIDsOfAnAccount of agents/process")
	group := pidsGroup(t)
	t.Parallel()
	f := newTestForge(t)
	state, self := t.TempDir(), executable(t)
	path := f.file(state, "[roles.dev]", "[roles.dev]\nlabel = \"picked\"", fmt.Sprintf("command = [%q,", self),
		`command = ["/bin/sleep", "3600"] #`)
	r := start(t, f.environ(nil), "sh", "-c", `echo $$ >"$0" && exec "$@"`, group+"/cgroup.procs", self, "run", "--yes",
		"--config", path)
	status(t, state, "the scheduled sessions run", func(d *control.Document) bool { return runs(d) == 2 })
	limit := func(n string) {
		if err := os.WriteFile(group+"/pids.max", []byte(n), 0); err != nil {
			t.Fatal(err)
		}
	}
	limit(strings.TrimSpace(r.read(group + "/pids.current")))
	f.pick(8)
	eventually(t, "a log says why the session cannot start", func() bool {
		logs, _ := filepath.Glob(state + "/logs/dev-*/*.log")
		return slices.ContainsFunc(logs,
			func(log string) bool { return strings.Contains(r.read(log), "disinto: no room for another process") })
	})
	status(t, state, "the third session waits", func(d *control.Document) bool {
		return len(d.Sessions) == 3 && runs(d) == 2
	})
	limit("max")
	status(t, state, "the third session has a program", func(d *control.Document) bool { return runs(d) == 3 })
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// runs counts the sessions with a program.
func runs(d *control.Document) (n int) {
	for _, s := range d.Sessions {
		if s.PID > 0 {
			n++
		}
	}
	return n
}

// pidsGroup creates a cgroup with a pids limit, of cgroup version 1 or 2.
func pidsGroup(t *testing.T) string {
	t.Helper()
	parent := "/sys/fs/cgroup/pids"
	if c := process.FindContainment(); c.PIDs == nil {
		parent = c.Cgroup
		if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+pids"), 0); err != nil {
			t.Skip(err)
		}
	}
	group := filepath.Join(parent, "disinto-test-"+itoa(os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("cannot limit pids by a cgroup: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(group) })
	if _, err := os.Stat(filepath.Join(group, "pids.max")); err != nil {
		t.Skipf("cannot limit pids by a cgroup: %v", err)
	}
	return group
}
