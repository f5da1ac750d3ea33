package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
)

// A supervisor that is killed leaves its services to the next one: no command runs twice, no process is replaced, and
// the next one can end them. Another start of disinto runs them from the first command on.
func TestServicesOutlive(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	path := serviceFile(t, state, `
[services.base]
before = [["sh", "-c", "echo before >> `+state+`/did"]]
command = ["sh", "-c", "echo base >> `+state+`/did; exec sleep 1000"]
[services.migrate]
command = ["sh", "-c", "echo migrate >> `+state+`/did"]
oneshot = true
[services.top]
command = ["sleep", "1001"]
needs = ["base", "migrate"]
`)
	args := []string{"run", "--yes", "--config", path}
	run := func(d *control.Document) bool { return isIn("ready", "base", "top")(d) && isIn("done", "migrate")(d) }
	r := startDisinto(t, nil, args...)
	before := status(t, state, "the services run", run)
	for range 2 {
		old := r.supervisor()
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another supervisor runs", func() bool { now := r.supervisor(); return now != 0 && now != old })
		after := status(t, state, "the services run", run)
		for _, name := range []string{"base", "top"} {
			if was, is := service(before, name), service(after, name); is.PID != was.PID || is.Restarts > 0 || is.Fails > 0 ||
				!is.Since.Equal(was.Since) || is.Changed {
				t.Errorf("%s: got %+v, then %+v", name, was, is)
			}
		}
	}
	did := filepath.Join(state, "did")
	if got := r.read(did); len(got) != len("before\nbase\nmigrate\n") {
		t.Errorf("got the commands %q, want each once", got)
	}
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	if left := mentions(t, state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
	r = startDisinto(t, nil, args...)
	status(t, state, "the services run", run)
	if got := r.read(did); len(got) != 2*len("before\nbase\nmigrate\n") {
		t.Errorf("after another start: got the commands %q, want each twice", got)
	}
	r.signal(syscall.SIGTERM)
	r.wait()
}

// What a service with stdout = true prints while no supervisor runs is copied by the next one, which continues where
// the last one was killed. It may repeat a few lines.
func TestServiceOutputOutlives(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	path := serviceFile(t, state, `
[services.loud]
command = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.02; done"]
stdout = true
`)
	r := startDisinto(t, nil, "run", "--yes", "--config", path)
	copied := func() (offset int) {
		_, _ = fmt.Sscan(r.read(filepath.Join(state, "services", "loud", "log", "output.copied")), new(int), &offset)
		return offset
	}
	status(t, state, "the service runs", isIn("ready", "loud"))
	for range 2 {
		begun := copied()
		eventually(t, "some output was copied", func() bool { return copied() > begun })
		old := r.supervisor()
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another supervisor runs", func() bool { now := r.supervisor(); return now != 0 && now != old })
	}
	begun := copied()
	eventually(t, "the last supervisor copies", func() bool { return copied() > begun })
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	printed := r.read(filepath.Join(state, "services", "loud", "log", "output.log"))
	log := strings.ReplaceAll("\n"+printed, "\n", "\nloud | ")
	var got []string
	seen := make(map[string]bool)
	for line := range strings.Lines(r.read(r.stdout)) {
		if line == "loud | line 1\n" && seen[line] {
			t.Error("the copy began again")
		}
		if !seen[line] {
			got = append(got, line)
		}
		seen[line] = true
	}
	if want := strings.TrimSuffix(strings.TrimPrefix(log, "\n"), "loud | "); strings.Join(got, "") != want {
		t.Errorf("got stdout\n%s\nwant\n%s", strings.Join(got, ""), want)
	}
}
