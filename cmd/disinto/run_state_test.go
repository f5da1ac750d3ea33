package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
)

// A pipe in the state directory stops no start for ever. For a file that the supervisor needs, the program ends with
// one line that names it, and it goes on without the others. TERM ends it.
func TestRunWithPipesInItsState(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	for _, name := range []string{"lock", "instance", "journal.jsonl"} {
		state := t.TempDir()
		path := filepath.Join(state, name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		r := f.startRun(state, nil)
		if code := r.wait(); code != exitFailed {
			t.Errorf("%s is a pipe: got exit code %d, want 1", name, code)
		}
		if said := r.read(r.stderr); !strings.HasSuffix(said, path+": not a plain file\n") {
			t.Errorf("%s is a pipe: got stderr %q, want one line about it at the end", name, said)
		}
	}
	state := t.TempDir()
	others := []string{
		"answers.jsonl", "answers.old.jsonl", "status.json", "status.json.new", "fleet-status.json",
		"fleet-status.json.new", "notified.json", "notified.json.new", "receipts", "decisions", "eta.json",
		"journal.jsonl.new", "instance.new", "journal.corrupt",
	}
	for _, name := range others {
		if err := syscall.Mkfifo(filepath.Join(state, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(state, "journal.jsonl"), []byte("corrupt\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"status", "history", "report", "logs"} { // they read the same files
		args := []string{command, "--state", state}
		if command == "logs" {
			args = append(args, "dev-qwen")
		}
		disinto(t.Context(), nil, args...) // it returns
	}
	r := f.startRun(state, nil)
	eventually(t, "a start with pipes in the state directory", func() bool {
		return disinto(t.Context(), nil, "status", "--json", "--state", state).code == exitDone
	})
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d after TERM, want 0", code)
	}
}

// A file that names another state directory than the one in which a supervisor started is a mistake, unless the
// directory was chosen for this run: two supervisors would start the same work.
func TestStateMoved(t *testing.T) {
	dir := t.TempDir()
	f := &factory{path: "factory.toml", Supervisor: &supervisor.Supervisor{StateDir: dir}}
	config := func(state string) *threads.Config { return &threads.Config{Factory: threads.Factory{State: state}} }
	for _, state := range []string{"", dir, dir + "/../" + filepath.Base(dir)} {
		if err := f.checkState(config(state)); err != nil {
			t.Errorf("%q: got error %v", state, err)
		}
	}
	if err := f.checkState(config("/srv/st")); err == nil || !strings.Contains(err.Error(), "factory.state is /srv/st") {
		t.Errorf("another directory: got error %v", err)
	}
	f.stateGiven = true
	if err := f.checkState(config("/srv/st")); err != nil {
		t.Errorf("another directory with --state: got error %v", err)
	}
}
