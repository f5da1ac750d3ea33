package main

import (
	"os"
	"path/filepath"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// git-lfs is missed only where the built-in program runs, and only on this machine.
func TestLacksLFS(t *testing.T) {
	t.Parallel()
	config := func(cli, executor string) *threads.Config {
		return &threads.Config{
			Roles:   []agents.Role{{Name: "dev", CLI: cli}},
			Agents:  []agents.Agent{{Name: "dev-qwen", Roles: []string{"dev"}, Thread: "t"}},
			Threads: []threads.Thread{{Name: "t", Executor: executor, Agents: []string{"dev-qwen"}}},
		}
	}
	with, without := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(with, "git-lfs"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(without, "git-lfs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		cli, executor, path string
		want                bool
	}{
		{"claude", "", without, true},
		{"claude", "", without + ":" + with, false},
		{"", "", without, false},
		{"claude", threads.ExecutorNomad, without, false},
	} {
		if got := lacksLFS(config(row.cli, row.executor), []string{"PATH=" + row.path}); got != row.want {
			t.Errorf("cli %q, executor %q, PATH %s: got %v", row.cli, row.executor, row.path, got)
		}
	}
}
