package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
)

// supervisor returns the process number of the present supervisor, the init's child; 0 while none runs.
func (r *running) supervisor() int {
	r.t.Helper()
	pid := itoa(r.pid)
	text, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	for word := range strings.FieldsSeq(string(text)) {
		args, _ := os.ReadFile("/proc/" + word + "/cmdline")
		if n, err := strconv.Atoi(word); err == nil && strings.Contains(string(args), "\x00run\x00") {
			return n
		}
	}
	return 0
}

// vitals are those of the supervisor and its init together.
func (r *running) vitals() vitals {
	a, b := vitalsOf(r.t, r.pid), vitalsOf(r.t, r.supervisor())
	return vitals{
		a.rss + b.rss, a.own + b.own, a.threads + b.threads, a.fds + b.fds, a.children + b.children, a.cpu + b.cpu,
	}
}

// The supervisor dies repeatedly while sessions start, run and end: mostly by KILL, and in make soak also by ABRT,
// SEGV, STOP and the kernel's OOM killer. No session ends or begins twice, and each exit status arrives once.
// DISINTO_KILLS is the number of deaths: 65 in make soak, 52 of them by KILL, three in make check.
func TestSupervisorKilled(t *testing.T) {
	kills, _ := strconv.Atoi(os.Getenv("DISINTO_KILLS"))
	t.Parallel()
	n, threads, takes, soaks := 6, 3, "2", kills > 0
	switch {
	case soaks:
		n, threads, takes = 200, 100, "50"
	case storms():
		kills, n, threads, takes = 3, 40, soakThreads, "4"
	default:
		kills = 1
	}
	s := newSoak(t, threads, n, takes)
	r := s.start()
	ended := func() int { return strings.Count(r.read(s.ledger), "\n") }
	var took []time.Duration
	var books strings.Builder // each supervisor starts a new journal; the old one stays open
	for len(took) < kills {
		status(t, s.state, "half of the slots are busy",
			func(d *control.Document) bool { return len(d.Sessions) >= threads/2 })
		if soaks { // after a minute a death counts as the first again, so the next supervisor starts at once
			for calm := time.Now().Add(62 * time.Second); time.Now().Before(calm); time.Sleep(time.Second) {
				for ; n < ended()+2*threads; n++ {
					s.file(n + 1)
				}
			}
		}
		time.Sleep(rand.N(time.Second / 2)) // varies the moment of the kill
		journal, old := open(t, s.state+"/journal.jsonl", os.O_RDONLY), r.supervisor()
		begun, ways := time.Now(), []string{"ABRT", "SEGV", "STOP", "OOM"}
		way := "KILL"
		if i := len(took); i%5 == 4 {
			way = ways[i/5%len(ways)]
		}
		s.die(r, old, way)
		eventually(t, "another supervisor runs", func() bool { now := r.supervisor(); return now != 0 && now != old })
		status(t, s.state, "it answers", func(*control.Document) bool { return true })
		if took = append(took, time.Since(begun)); soaks {
			t.Logf("death %d, by %s, with %d sessions ended: answered after %s", len(took), way, ended(), took[len(took)-1])
		}
		written, err := io.ReadAll(journal)
		if err = errors.Join(err, journal.Close()); err != nil {
			t.Fatal(err)
		}
		books.Write(written)
	}
	for was := ended(); was < n; was = ended() {
		eventually(t, "another session ends", func() bool { return ended() > was })
	}
	status(t, s.state, "all work is done", func(d *control.Document) bool { return len(d.Sessions) == 0 })
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	starts, _ := s.checkRuns(n, whole(books.String())+r.read(s.state+"/journal.jsonl"))
	if left := mentions(t, s.state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
	slices.Sort(took)
	t.Logf("%d kills with %d threads; %d of %d sessions were lost before their programs began; the next supervisor "+
		"answered after %s, at most %s", kills, threads, starts-n, starts, took[len(took)/2].Round(time.Millisecond),
		took[len(took)-1].Round(time.Millisecond))
}

// die lets a supervisor die by a signal, or by the kernel because its memory is over. One that is stopped again and
// again gets KILL from its init.
func (s *soak) die(r *running, pid int, way string) {
	s.t.Helper()
	signals := map[string]syscall.Signal{
		"KILL": syscall.SIGKILL, "ABRT": syscall.SIGABRT, "SEGV": syscall.SIGSEGV, "STOP": syscall.SIGSTOP,
	}
	again := signals[way]
	if way == "OOM" && !starve(s.t, pid) {
		again = syscall.SIGKILL
	}
	for late := time.Now().Add(3 * time.Minute); r.supervisor() == pid; time.Sleep(100 * time.Millisecond) {
		if again != 0 {
			_ = syscall.Kill(pid, again)
		}
		if time.Now().After(late) {
			s.t.Fatalf("the supervisor has not died by %s in 3 minutes", way)
		}
	}
}

// starve puts a process into a cgroup that has no memory, where the kernel kills it at its next allocation. It returns
// false without a cgroup.
func starve(t *testing.T, pid int) bool {
	t.Helper()
	dir, limit := fmt.Sprintf("/sys/fs/cgroup/memory/disinto-test-%d", pid), "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil { // version 2
		dir, limit = fmt.Sprintf("/sys/fs/cgroup/disinto-test-%d", pid), "memory.max"
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Log(err)
		return false
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := errors.Join(os.WriteFile(filepath.Join(dir, limit), []byte("65536"), 0o644),
		os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(itoa(pid)), 0o644)); err != nil {
		t.Log(err)
		return false
	}
	return true
}

// whole returns the lines of journals without those that a kill has torn.
func whole(text string) string {
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(text)), func(line string) bool {
		return !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}\n")
	})
	return strings.Join(lines, "")
}

// A supervisor that does not answer is no reason to end the container: its init lives, and starts another.
func TestStatusWithoutAnswer(t *testing.T) {
	t.Parallel()
	s := newSoak(t, 1, 1, "1000")
	r := s.start()
	status(t, s.state, "a session runs", working)
	eventually(t, "the status is saved", func() bool {
		saved, _ := control.ReadStatusFile(s.state)
		return strings.Contains(string(saved), "dev-00")
	})
	pid := r.supervisor()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all its threads have stopped", func() bool {
		return strings.Contains(r.read("/proc/"+itoa(pid)+"/stat"), ") T ")
	})
	got := disinto(t.Context(), nil, "status", "--state", s.state)
	if got.code != exitDone || !strings.Contains(got.stderr, "its init starts it again") ||
		!strings.Contains(got.stdout, "dev-00") {
		t.Errorf("got %+v, want the last state and exit code 0", got)
	}
	r.signal(syscall.SIGKILL)
	eventually(t, "nothing is left", func() bool { return len(mentions(t, s.state)) == 0 })
	if got := disinto(t.Context(), nil, "status", "--state", s.state); got.code != exitFailed {
		t.Errorf("without an init: got %+v, want exit code 1", got)
	}
	next := s.start() // its sessions ended with the init
	status(t, s.state, "a session runs again", working)
	log := next.read(next.stderr)
	if !strings.Contains(log, "1 session of an earlier disinto did not outlive it") || strings.Contains(log, "continues") {
		t.Errorf("after the death of the init, the log says\n%s", log)
	}
	next.signal(syscall.SIGTERM)
	next.wait()
}

// A version whose one process was init and supervisor asks without naming a protocol.
func TestOlderVersionIsRefused(t *testing.T) {
	got := disinto(t.Context(), nil, checkUpgradeName, "--state", t.TempDir())
	if got.code != exitFailed || !strings.HasSuffix(got.stderr, "restart the container\n") ||
		strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("got %+v, want one line that says what to do", got)
	}
}

func TestWhyRefused(t *testing.T) {
	for _, tt := range []struct{ stderr, end, want string }{
		{"", "it: exit status 1", "it: exit status 1"},
		{"disinto: no\nmore\n", "it: exit status 1", "disinto: no"},
		{
			"disinto: unknown flag: --protocol (disinto help upgrade-check)\n", "it: exit status 2",
			"it is an older version, which cannot follow this one in place: restart the container",
		},
	} {
		if got := whyRefused(tt.stderr, tt.end); got != tt.want {
			t.Errorf("whyRefused(%q, %q) = %q, want %q", tt.stderr, tt.end, got, tt.want)
		}
	}
}

// The supervisor and one shim are killed together. That session is lost, which costs no attempt and no rest, and its
// issue is worked on again; no other session is touched.
func TestSupervisorAndShimKilled(t *testing.T) {
	t.Parallel()
	s := newSoak(t, 2, 2, "1000")
	r := s.start()
	both := func(d *control.Document) bool {
		return len(d.Sessions) == 2 && d.Sessions[0].PID != 0 && d.Sessions[1].PID != 0
	}
	before := status(t, s.state, "two sessions run", both)
	supervisor := r.supervisor()
	stat := strings.Fields(r.read("/proc/" + itoa(before.Sessions[0].PID) + "/stat"))
	shim, err := strconv.Atoi(stat[3])
	if err != nil {
		t.Fatal(err)
	}
	_, _ = syscall.Kill(supervisor, syscall.SIGKILL), syscall.Kill(shim, syscall.SIGKILL)
	after := status(t, s.state, "two sessions run again", func(d *control.Document) bool {
		return both(d) && len(d.Recent) > 0
	})
	lost := after.Recent[0]
	if lost.RunID != before.Sessions[0].RunID || lost.Outcome != agents.Lost {
		t.Errorf("the session of the killed shim ended as %+v, want lost", lost)
	}
	for _, x := range after.Sessions {
		if x.Number == before.Sessions[0].Number && (x.RunID == lost.RunID || x.Attempt != 1) {
			t.Errorf("the issue of the lost session has the session %+v, want a new first attempt", x)
		}
		if was := before.Sessions[1]; x.Number == was.Number && (x.RunID != was.RunID || x.PID != was.PID) {
			t.Errorf("the other session is %+v, was %+v", x, was)
		}
	}
	if record := disinto(t.Context(), nil, "history", "--state", s.state); !strings.Contains(record.stdout, "lost") {
		t.Errorf("history does not have the lost session: %+v", record)
	}
}
