package process

import (
	"os"
	"path/filepath"
	"testing"
)

// TestStarved reads the count of our own group, wherever it is mounted, and nothing in the working directory, which may
// belong to an agent.
func TestStarved(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"memory.events", "own/memory.events"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("oom 3\noom_kill 7\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mount := "30 25 0:26 / " + dir + " rw - cgroup2 cgroup2 rw\n"
	if got := starved("0::/own\n", mount); got != 7 {
		t.Errorf("got %d killed processes, want 7", got)
	}
	if err := os.WriteFile("own/memory.events", []byte("oom 0\noom_kill 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := starved("0::/own\n", mount); got != 0 {
		t.Errorf("got %d processes killed by a full machine, want 0", got)
	}
	if got := starved("0::/own\n", ""); got != 0 {
		t.Errorf("got %d killed processes without a group that we can see, want 0", got)
	}
}
