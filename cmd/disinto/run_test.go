package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
)

// startRun starts a supervisor on this forge, with edits in its factory.toml. By default its agents sleep for an
// hour.
func (f *testForge) startRun(state string, environ map[string]string, edits ...string) *running {
	f.t.Helper()
	path := f.file(state, append(edits, `"demo-agent"`, `"demo-agent", "--think", "1h"`)...)
	return startDisinto(f.t, f.environ(environ), "run", "--yes", "--config", path)
}

// justOne labels one issue of the demo and returns edits by which the factory works only on that, without scheduled
// work. The issue takes four sessions until it is merged, and then the factory is idle. A whole backlog would use a
// processor for the whole test.
func (f *testForge) justOne() (edits []string) {
	f.t.Helper()
	f.pick(8)
	return append([]string{"[roles.dev]", "[roles.dev]\nlabel = \"picked\""}, unscheduled...)
}

// unscheduled are edits by which a factory has no scheduled work.
var unscheduled = []string{
	`on = "schedule"`, "on = \"issue\"\nlabel = \"never\"", `every = "6s"`, "", `every = "8s"`, "",
}

// claimed returns the numbers of the claimed issues.
func (f *testForge) claimed() (numbers []int) {
	f.t.Helper()
	var issues []struct {
		Number    int
		Labels    []struct{ Name string }
		Assignees []struct{ Login string }
	}
	f.get("/issues?state=open&limit=50", &issues)
	for _, is := range issues {
		labelled := slices.ContainsFunc(is.Labels, func(l struct{ Name string }) bool { return l.Name == "in-progress" })
		ours := slices.ContainsFunc(is.Assignees,
			func(a struct{ Login string }) bool { return strings.HasPrefix(a.Login, "dev-") })
		if labelled || ours {
			numbers = append(numbers, is.Number)
		}
	}
	return numbers
}

func working(d *control.Document) bool { return slices.ContainsFunc(d.Sessions, implementing) }

// implementing reports whether an issue's session has a program.
func implementing(s control.SessionDocument) bool { return s.PID > 0 && s.Kind == agents.KindIssue }

// One supervisor from its start to its end. With an invalid file it runs but holds all work, until the file is fixed.
// A second supervisor on its state directory is refused. After SIGTERM, as from a container's stop, its sessions end,
// its claims are released, the exit code is 0, and nothing remains.
func TestRun(t *testing.T) {
	t.Parallel() // its processes mostly wait for each other
	f := newTestForge(t)
	state := t.TempDir()
	edits := append(f.justOne(), `"demo-agent"`, `"demo-agent", "--think", "1h"`)
	path := f.file(state, append(edits, "[forge]", "[forge]\nurls = 3")...)
	good, err := os.ReadFile(f.file(state, edits...))
	if err != nil {
		t.Fatal(err)
	}
	r := startDisinto(t, f.environ(nil), "run", "--yes", "--config", path)
	d := status(t, state, "the mistake is shown", func(d *control.Document) bool { return d.Config.Error != "" })
	if want := path + ":2: forge.urls: unknown key, did you mean url?"; d.Config.Error != want ||
		d.Config.Generation != 0 {
		t.Errorf("got configuration %+v, want the error %q", d.Config, want)
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	status(t, state, "an agent works with the fixed file", func(d *control.Document) bool {
		return d.Config.Error == "" && d.Config.Generation == 1 && working(d)
	})
	if len(f.claimed()) == 0 {
		t.Error("an agent works, but got no claim")
	}
	f.checkSecond(r, state)
	if err := os.WriteFile(path, []byte("[forge"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.signal(syscall.SIGHUP)
	status(t, state, "the session continues under the last valid file", func(d *control.Document) bool {
		return strings.Contains(d.Config.Error, "factory.toml:1") && d.Config.Generation == 1 && working(d)
	})
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	if left := f.claimed(); len(left) > 0 {
		t.Errorf("got remaining claims on %v", left)
	}
	if left := mentions(t, state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
	got := disinto(t.Context(), nil, "status", "--state", state)
	if got.code != exitFailed || !strings.HasPrefix(got.stdout, "no supervisor runs: ") {
		t.Errorf("status afterwards: got exit code %d\n%s", got.code, got.stdout)
	}
}

// checkSecond checks that a second supervisor cannot use the first one's state directory.
func (f *testForge) checkSecond(first *running, state string) {
	f.t.Helper()
	second := f.startRun(state, nil)
	if code := second.wait(); code != exitFailed {
		f.t.Errorf("got exit code %d, want 1", code)
	}
	said := second.read(second.stderr)
	want := fmt.Sprintf("disinto: cannot start: pid %d already works on %s: end it, or use --state\n", first.pid, state)
	if !strings.HasSuffix(said, want) {
		f.t.Errorf("got stderr %q, want %q at its end", said, want)
	}
	status(f.t, state, "the first supervisor continues", working)
}

// A second signal ends the supervisor without waiting for an agent that is slow to end. The first signal waits.
func TestRunStopsAtOnce(t *testing.T) {
	deaf := factoryFile(t, "trap '' TERM\necho TERM is ignored\nwhile :; do sleep 1; done\n")
	self := executable(t)
	pairs := [][2]syscall.Signal{{syscall.SIGTERM, syscall.SIGINT}}
	if storms() {
		pairs = append(pairs, [2]syscall.Signal{syscall.SIGINT, syscall.SIGTERM},
			[2]syscall.Signal{syscall.SIGTERM, syscall.SIGTERM})
	}
	for _, pair := range pairs {
		t.Run(pair[0].String()+", "+pair[1].String(), func(t *testing.T) {
			t.Parallel()
			f := newTestForge(t)
			state := t.TempDir()
			r := f.startRun(state, nil, append(f.justOne(), fmt.Sprintf("command = [%q,", self),
				fmt.Sprintf(`command = ["/bin/sh", %q,`, deaf), `stop_grace = "2s"`, `stop_grace = "1h"`)...)
			d := status(t, state, "an agent works", working)
			eventually(t, "it ignores TERM", func() bool {
				logs, _ := filepath.Glob(state + "/logs/dev-*/*.log")
				return slices.ContainsFunc(logs,
					func(log string) bool { return strings.Contains(r.read(log), "TERM is ignored\n") })
			})
			r.signal(pair[0])
			eventually(t, "the supervisor is stopping", func() bool {
				return strings.Contains(r.read(r.stderr), "stopping: "+pair[0].String())
			})
			if err := syscall.Kill(d.Sessions[0].PID, 0); err != nil {
				t.Errorf("the first signal ended an agent at once: %v", err)
			}
			r.signal(pair[1])
			if code := r.wait(); code != exitDone {
				t.Errorf("got exit code %d, want 0", code)
			}
			if left := mentions(t, state); len(left) > 0 {
				t.Errorf("got remaining processes %q", left)
			}
		})
	}
}

// A supervisor starts although the forge is down, reports that, and works when the forge is up again.
func TestRunWithForgeDown(t *testing.T) {
	leftToStorms(t, "TestForgeDown of supervisor/simtest")
	t.Parallel()
	f := newTestForge(t)
	state, address := t.TempDir(), deadAddress(t)
	f.startRun(state, nil, f.URL, "http://"+address)
	d := status(t, state, "the forge is down", func(d *control.Document) bool { return d.Forge.Error != "" })
	if d.Forge.OK || !strings.Contains(d.Forge.Error, "connection refused") {
		t.Errorf("got forge %+v", d.Forge)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: f.forge}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	status(t, state, "an agent works", func(d *control.Document) bool { return d.Forge.OK && working(d) })
}

// hold is a text that must be in a part of the status: said returns that part.
type hold struct {
	said func(*control.Document) string
	want string
}

// A fault that shows only after the start holds work, and its reason says what to do.
func TestRunHolds(t *testing.T) {
	forgeError := func(d *control.Document) string { return d.Forge.Error }
	const programOf = "[roles.planner]\non = \"schedule\"\ncommand = ["
	tests := []struct {
		name    string
		environ func(*testForge) map[string]string
		edits   []string
		holds   []hold
	}{
		{
			name: "an agent whose login differs, one without a token, and a missing program",
			environ: func(f *testForge) map[string]string {
				return map[string]string{"FORGE_TOKEN_DEV_KIMI": f.Tokens["FORGE_TOKEN_GARDENER_QWEN"], "FORGE_TOKEN_DEV_QWEN": ""}
			},
			edits: []string{
				"[agents.dev-qwen]\ntoken = \"$FORGE_TOKEN_DEV_QWEN\"", "[agents.dev-qwen]\nmodel = \"qwen\"",
				programOf, programOf + "\"no-such-agent\", ",
			},
			holds: []hold{
				{agentWhy("dev-kimi"), "gardener-qwen"},
				{agentWhy("dev-qwen"), "set $FORGE_TOKEN_DEV_QWEN"},
				{failure, "no-such-agent"},
			},
		},
		{
			name: "wrong token",
			environ: func(*testForge) map[string]string {
				return map[string]string{"FORGE_TOKEN": "0000000000000000000000000000000000000000"}
			},
			holds: []hold{{forgeError, "make a new one and put it into [forge] token"}},
		},
		{
			name:    "an account that may only read",
			environ: func(f *testForge) map[string]string { return map[string]string{"FORGE_TOKEN": f.addReader()} },
			holds:   []hold{{forgeError, "eve may only read it; make it a collaborator with write access"}},
		},
	}
	if !storms() {
		tests = tests[:1]
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newTestForge(t)
			state := t.TempDir()
			f.startRun(state, tt.environ(f), tt.edits...)
			for _, h := range tt.holds {
				status(t, state, "the status contains "+strconv.Quote(h.want),
					func(d *control.Document) bool { return strings.Contains(h.said(d), h.want) })
			}
		})
	}
}

// failure returns the reason of the last failed session.
func failure(d *control.Document) string {
	for _, r := range d.Recent {
		if r.Outcome == agents.Failed {
			return r.Reason
		}
	}
	return ""
}

func agentWhy(name string) func(*control.Document) string {
	return func(d *control.Document) string {
		for _, a := range d.Agents {
			if a.Name == name && a.State == control.AgentHeld {
				return a.Why
			}
		}
		return ""
	}
}

// disinto works as PID 1 of a container.
func TestPID1(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a PID namespace")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unshare := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", self}
	t.Run("demo", func(t *testing.T) {
		if !storms() {
			t.Skip("runs a whole demo once more: make check runs it")
		}
		t.Parallel()
		checkDemo(t, start(t, []string{"TMPDIR=" + t.TempDir()}, append(unshare, "demo", "--json", "--think", "0s")...))
	})
	t.Run("run", func(t *testing.T) {
		leftToStorms(t, "TestUpgradeAsPID1")
		t.Parallel()
		f := newTestForge(t)
		state := t.TempDir()
		path := f.file(state, `"demo-agent"`, `"demo-agent", "--think", "1h"`)
		r := start(t, f.environ(nil), append(unshare, "run", "--yes", "--config", path)...)
		d := status(t, state, "an agent works", working)
		if d.PID != 1 {
			t.Errorf("got pid %d, want 1", d.PID)
		}
		children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/%d/children", r.pid, r.pid))
		if err != nil || len(children) != 1 {
			t.Skip("the kernel does not list children in /proc")
		}
		pid, err := strconv.Atoi(strings.TrimSpace(r.read(children[0])))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := r.wait(); code != exitDone {
			t.Errorf("got exit code %d, want 0", code)
		}
		if left := f.claimed(); len(left) > 0 {
			t.Errorf("got remaining claims on %v", left)
		}
	})
}
