package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// A program that cannot take over changes nothing: the sessions continue, the error says why, and a good program can
// take over afterwards. A session that ends, or must end, around an upgrade is handled like any other.
func TestUpgradeRefused(t *testing.T) {
	t.Parallel()
	s := newSoak(t, 3, 2, "1000")
	r := s.start()
	both := func(d *control.Document) bool {
		return len(d.Sessions) == 2 && d.Sessions[0].PID != 0 && d.Sessions[1].PID != 0
	}
	before := status(t, s.state, "two sessions run", both)

	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec disinto \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	config := r.read(s.config)
	tests := []struct {
		name, binary string
		config       string // in place of the valid one
		want         string
	}{
		{name: "no such file", binary: "/nowhere/disinto", want: "no such file"},
		{name: "not a program", binary: s.config, want: "not executable"},
		{name: "a program that fails", binary: "/bin/false", want: "exit status 1"},
		{name: "another program", binary: "/bin/true", want: "it is not a disinto that can follow this one"},
		{name: "a script", binary: script, want: "it is a script"},
		{name: "a bad factory.toml", config: config + "\nwrong = true\n", want: "wrong"},
	}
	storm := []string{"not a program", "a program that fails"} // only in make check
	for _, tt := range tests {
		if !storms() && slices.Contains(storm, tt.name) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			if tt.config != "" {
				if err := os.WriteFile(s.config, []byte(tt.config), 0o600); err != nil {
					t.Fatal(err)
				}
				defer os.WriteFile(s.config, []byte(config), 0o600)
			}
			args := []string{"upgrade", "--state", s.state}
			if tt.binary != "" {
				args = append(args, "--binary", tt.binary)
			}
			got := disinto(t.Context(), nil, args...)
			if got.code != exitFailed || !strings.Contains(got.stderr, tt.want) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("got %+v, want %q", got, tt.want)
			}
			d := status(t, s.state, "both sessions continue", both)
			if d.Upgrades != 0 || d.Sessions[0].PID != before.Sessions[0].PID {
				t.Errorf("got %d upgrades, sessions %+v", d.Upgrades, d.Sessions)
			}
		})
	}

	if storms() { // TestUpgradeAsPID1 and TestDump have an upgrade
		s.upgradeTwice(r, before, both)
	}
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d", code)
	}
	if left := mentions(t, s.state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
}

// upgradeTwice upgrades a supervisor with two sessions, ends one of them, and kills the other during another upgrade.
func (s *soak) upgradeTwice(r *running, before *control.Document, both func(*control.Document) bool) {
	t := s.t
	t.Helper()
	r.signal(syscall.SIGUSR2)
	d := status(t, s.state, "the upgrade is done", func(d *control.Document) bool { return d.Upgrades == 1 && both(d) })
	for i, x := range d.Sessions {
		was := before.Sessions[i]
		if x.RunID != was.RunID || x.PID != was.PID || x.Slot != was.Slot || !x.StartedAt.Equal(was.StartedAt) ||
			x.Title != was.Title {
			t.Errorf("got session %+v\nwant        %+v", x, was)
		}
	}
	if !d.StartedAt.Equal(before.StartedAt) {
		t.Errorf("got start time %s, want %s", d.StartedAt, before.StartedAt)
	}
	comm := r.read("/proc/" + itoa(r.pid) + "/comm")
	if strings.TrimSpace(comm) != "disinto" {
		t.Errorf("got process name %q, want disinto", comm)
	}
	// The next supervisor can end sessions, and gets their exit statuses.
	got := disinto(t.Context(), nil, "cancel", "--state", s.state, "1")
	if got.code != exitDone {
		t.Errorf("cancel: got %+v", got)
	}
	d = status(t, s.state, "one session is cancelled", func(d *control.Document) bool {
		return len(d.Sessions) == 1 && len(d.Recent) == 1 && d.Recent[0].Outcome == "cancelled"
	})
	// The shim of a session that is killed during the upgrade keeps its end.
	r.signal(syscall.SIGUSR2)
	_ = syscall.Kill(d.Sessions[0].PID, syscall.SIGKILL)
	status(t, s.state, "the other one's end is known", func(d *control.Document) bool {
		return d.Upgrades == 2 && len(d.Recent) == 2 && strings.Contains(d.Recent[0].Reason, "SIGKILL")
	})
	s.checkMask(r)
}

// checkMask starts a session after an upgrade. Its agent must have no blocked signals, so that TERM reaches the
// agent's processes.
func (s *soak) checkMask(r *running) {
	s.t.Helper()
	s.file(3)
	eventually(s.t, "the new supervisor takes an issue", func() bool {
		return disinto(s.t.Context(), nil, "sling", "3", "--wait", "--state", s.state).code == exitDone
	})
	d := status(s.t, s.state, "the third session runs", func(d *control.Document) bool {
		return len(d.Sessions) == 1 && d.Sessions[0].Number == 3 && d.Sessions[0].PID != 0
	})
	path := "/proc/" + itoa(d.Sessions[0].PID) + "/status"
	// The C library blocks all signals while the program, a shell, forks. Only an inherited mask would stay.
	eventually(s.t, "the agent's program has no blocked signals", func() bool {
		_, mask, _ := strings.Cut(r.read(path), "SigBlk:")
		mask, _, _ = strings.Cut(mask, "\n")
		return mask != "" && strings.Trim(mask, "0\t") == ""
	})
}

// USR1 writes the status and all goroutines to the log, and changes nothing else. USR2 upgrades.
func TestDump(t *testing.T) {
	t.Parallel()
	s := newSoak(t, 1, 0, "0")
	r := s.start()
	// The supervisor answers before its last goroutines have started, and scans after that.
	status(t, s.state, "the forge was scanned", func(d *control.Document) bool { return !d.Forge.LastScan.IsZero() })
	r.signal(syscall.SIGUSR1)
	eventually(t, "state and goroutines are in the log", func() bool {
		log := r.read(r.stderr)
		return strings.Contains(log, `"started_at"`) && strings.Contains(log, "goroutine 1 [") &&
			strings.Contains(log, "keepStatusFile")
	})
	status(t, s.state, "the supervisor continues", func(*control.Document) bool { return true })
	if log := r.read(r.stderr); strings.Contains(log, tokenOf(s.environ)) {
		t.Error("the log contains a token")
	}
	r.signal(syscall.SIGUSR2)
	status(t, s.state, "the upgrade is done", func(d *control.Document) bool { return d.Upgrades == 1 })
}

func tokenOf(environ []string) string {
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); name == "FORGE_TOKEN" {
			return value
		}
	}
	return "no token"
}

// TERM at any moment around the end of a supervisor is a clean stop: exit code 0, no claim, no process. The supervisor
// is upgraded or killed. DISINTO_TERMS is the number of tries, a thousand in make soak.
func TestTermsWhileReplaced(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("DISINTO_TERMS"))
	if n == 0 {
		leftToStorms(t, "TestStopIsWithheld of agents/process/pid1")
		n = 40
	}
	const workers = 4
	var replaced atomic.Int64
	for w := range workers {
		t.Run("worker "+itoa(w), func(t *testing.T) {
			t.Parallel()
			s := newSoak(t, 1, 1, "1000")
			s.factory = "stop_grace = \"60s\"\n" // a busy machine may take longer than 7 s
			for i := range n / workers {
				r := s.start()
				status(t, s.state, "a session runs", func(d *control.Document) bool {
					return len(d.Sessions) == 1 && d.Sessions[0].PID != 0
				})
				old := r.supervisor()
				if i%2 == 0 {
					r.signal(syscall.SIGUSR2)
				} else {
					_ = syscall.Kill(old, syscall.SIGKILL)
				}
				time.Sleep(rand.N(200 * time.Millisecond)) // varies the moment of the signal
				if r.supervisor() != old {
					replaced.Add(1)
				}
				r.signal(syscall.SIGTERM)
				if code := r.wait(); code != exitDone {
					t.Fatalf("got exit code %d\n%s", code, r.read(r.stderr))
				}
				// Without a supervisor nobody releases the claim: the next start does.
				if !strings.Contains(r.read(r.stderr), "stopped while no supervisor ran") {
					var left []struct{ Number int }
					err := s.api.Get(t.Context(), "/repos/"+soakRepo+"/issues?state=all&labels=in-progress", &left)
					if err != nil || len(left) > 0 {
						t.Fatalf("got remaining claims on %v, %v\n%s", left, err, r.read(r.stderr))
					}
				}
				// The new program may still be trying itself out.
				eventually(t, "no process remains", func() bool { return len(mentions(t, s.state)) == 0 })
			}
		})
	}
	t.Cleanup(func() { t.Logf("%d of %d were stopped after the next supervisor had started", replaced.Load(), n) })
}
