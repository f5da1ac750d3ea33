package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
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
		"memory":       {process.Containment{Memory: none}, []string{"the limit of memory of a, c is not enforced: there is none"}},
		// carla is c's own, and an account has a limit; dora is shared.
		"pids": {process.Containment{PIDs: none}, []string{"the limit of pids of a, d is not enforced: there is none"}},
	} {
		if diff := cmp.Diff(tt.want, unenforced(config, tt.c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	config.Factory.User = "carla"
	if got := unenforced(config, process.Containment{PIDs: none}); len(got) != 1 || !strings.Contains(got[0], "a, c, d") {
		t.Errorf("with the factory's account: %q", got)
	}
}

// Where limits are not enforced nobody may believe that they are: check and the supervisor's log say so.
func TestLimitsThatHoldNobody(t *testing.T) {
	c := process.FindContainment()
	if c.Memory == nil {
		t.Skip("limits are enforced here")
	}
	f := newTestForge(t)
	path := f.file(t.TempDir(), "[agents.dev-qwen]", "[agents.dev-qwen]\nlimits = { memory = \"1G\" }")
	want := "the limit of memory of dev-qwen is not enforced: " + c.Memory.Error()
	got := disinto(t.Context(), f.environ(nil), "check", "--config", path, "--json")
	if got.code != exitDone || !strings.Contains(got.stdout, want) {
		t.Errorf("exit code %d, it does not say %q:\n%s", got.code, want, got.stdout)
	}
}
