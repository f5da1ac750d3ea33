package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

func TestUnenforced(t *testing.T) {
	config := &threads.Config{Agents: []agents.Agent{
		{Name: "a", Limits: agents.Limits{Memory: 1 << 30, PIDs: 100}},
		{Name: "b"},
		{Name: "c", User: "carla", Limits: agents.Limits{Memory: 1 << 30, PIDs: 100}},
		{Name: "d", User: "dora", Limits: agents.Limits{PIDs: 100}},
		{Name: "e", User: "dora"},
	}}
	none := errors.New("there is none")
	for name, tt := range map[string]struct {
		c    process.Containment
		want []string
	}{
		"all enforced": {process.Containment{Cgroup: "/x"}, nil},
		"memory": {
			process.Containment{Memory: none},
			[]string{"the memory limit of a, c is not enforced: there is none"},
		},
		// carla's account is only c's, so its limit is enforced without a cgroup; dora's is shared.
		"pids": {process.Containment{PIDs: none}, []string{"the pids limit of a, d is not enforced: there is none"}},
	} {
		if diff := cmp.Diff(tt.want, unenforced(config, tt.c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	config.Services = []threads.Service{{Name: "llama", User: "dora", Limits: agents.Limits{PIDs: 100}}}
	if got := unenforced(config, process.Containment{PIDs: none}); len(got) != 1 ||
		!strings.Contains(got[0], "a, d, service llama is") {
		t.Errorf("with a service: got %q", got)
	}
	config.Services = nil
	config.Threads = []threads.Thread{{Name: "far", Executor: threads.ExecutorNomad}}
	config.Agents[2].Thread = "far"
	if got := unenforced(config, process.Containment{Memory: none}); len(got) != 1 ||
		!strings.Contains(got[0], "of a is") {
		t.Errorf("with an agent on Nomad: got %q", got)
	}
	config.Agents[2].Thread = ""
	config.Factory.User = "carla"
	if got := unenforced(config, process.Containment{PIDs: none}); len(got) != 1 || !strings.Contains(got[0], "a, c, d") {
		t.Errorf("with the factory's account: got %q", got)
	}
}

// check and the supervisor's log report limits that are not enforced.
func TestLimitsThatHoldNobody(t *testing.T) {
	c := process.FindContainment()
	if c.Memory == nil {
		t.Skip("limits are enforced here")
	}
	f := newTestForge(t)
	path := f.file(t.TempDir(), "[agents.dev-qwen]", "[agents.dev-qwen]\nlimits = { memory = \"1G\" }")
	want := "the memory limit of dev-qwen is not enforced: " + c.Memory.Error()
	got := disinto(t.Context(), f.environ(nil), "check", "--config", path, "--json")
	if got.code != exitDone || !strings.Contains(got.stdout, want) {
		t.Errorf("got exit code %d, want %q in:\n%s", got.code, want, got.stdout)
	}
}

// In a container that may write to its cgroup, a session's limits are enforced, and its outcome names the limit that
// it reached, before and after an upgrade.
func TestLimitsInContainer(t *testing.T) {
	c := process.FindContainment()
	if c.Memory != nil || os.Geteuid() != 0 {
		t.Skipf("needs root and a writable cgroup: %v", c.Memory)
	}
	if err := os.WriteFile(filepath.Join(c.Cgroup, "cgroup.subtree_control"), []byte("+memory +pids"), 0); err != nil {
		t.Skip(err)
	}
	box := filepath.Join(c.Cgroup, "disinto-test-box")
	if err := os.Mkdir(box, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		_ = os.Remove(filepath.Join(box, "disinto"))
		_ = os.Remove(box)
	})
	f := newTestForge(t)
	state, self := t.TempDir(), executable(t)
	// tail keeps the last line, and the last line of /dev/zero is endless.
	greedy := factoryFile(t, "[ $DISINTO_ROLE = dev ] && exec tail /dev/zero\nexit 1\n")
	const limits = "\nlimits = { memory = \"64M\", pids = 100 }"
	path := f.file(state, "[agents.dev-qwen]", "[agents.dev-qwen]"+limits, "[agents.dev-kimi]", "[agents.dev-kimi]"+limits,
		fmt.Sprintf("command = [%q,", self), fmt.Sprintf(`command = ["/bin/sh", %q] #`, greedy))
	const script = `echo 0 >"$0" && exec unshare --cgroup sh -c 'umount /sys/fs/cgroup && mount -t cgroup2 none ` +
		`/sys/fs/cgroup && exec "$@"' sh "$@"`
	r := start(t, f.environ(nil), "unshare", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child", "sh", "-c",
		script, box+"/cgroup.procs", self, "run", "--yes", "--config", path)
	issue := ""
	limited := func(d *control.Document) bool {
		for _, e := range d.Recent {
			if strings.HasPrefix(e.Agent, "dev-") && e.EndedAt.After(d.UpgradedAt) {
				issue = fmt.Sprintf("#%d", e.Number)
				return strings.Contains(e.Reason, "killed by SIGKILL; out of memory, its limit is 64M: 1 process killed")
			}
		}
		return false
	}
	status(t, state, "memory was limited", limited)
	if got := disinto(t.Context(), nil, "upgrade", "--state", state); got.code != exitDone {
		t.Fatalf("upgrade: got %+v", got)
	}
	if got := disinto(t.Context(), nil, "retry", issue, "--state", state); got.code != exitDone {
		t.Fatalf("retry: got %+v", got)
	}
	status(t, state, "memory is limited", limited)
	if err := syscall.Kill(onlyChild(t, r), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(); code != exitDone || strings.Contains(r.read(r.stderr), "not enforced") {
		t.Errorf("got exit code %d, want 0\n%s", code, r.read(r.stderr))
	}
}
