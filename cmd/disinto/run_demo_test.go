package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

func itoa(n int) string { return strconv.Itoa(n) }

// demoReport is the document of demo --json.
type demoReport struct {
	control.Document
	Merged []struct {
		Issue, Pull int64
		Author      string
		Approvers   []string
		Rounds      int
	}
	Switches   int
	Violations []string
}

func (r *demoReport) place(issue int64) int {
	for i, m := range r.Merged {
		if m.Issue == issue {
			return i
		}
	}
	return -1
}

func (r *demoReport) code(issue int64) threads.Code {
	for _, q := range r.Queue {
		if q.Number == issue {
			return q.Code
		}
	}
	return ""
}

// The whole factory, end to end: a forge, a supervisor and agents as processes turn issues into merged pull requests.
func TestDemo(t *testing.T) {
	if !storms() {
		t.Skip("runs a whole demo: make check runs it; make test has TestBuiltinAgents and TestDemoInterrupted")
	}
	t.Parallel() // its processes mostly wait for each other
	tmp := t.TempDir()
	d := startDisinto(t, []string{"TMPDIR=" + tmp}, "demo", "--json", "--think", "0s")
	checkDemo(t, d)
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v (%v)", left, err)
	}
	if left := mentions(t, tmp); len(left) > 0 {
		t.Errorf("the demo left the processes %q", left)
	}
}

func checkDemo(t *testing.T, d *running) {
	t.Helper()
	if code := d.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	if said := d.read(d.stderr); said != "" {
		t.Errorf("stderr %q, want nothing", said)
	}
	var r demoReport
	if err := json.Unmarshal([]byte(d.read(d.stdout)), &r); err != nil {
		t.Fatalf("stdout is not one document: %v", err)
	}
	var merged []int64
	for _, m := range r.Merged {
		merged = append(merged, m.Issue)
		if !strings.HasPrefix(m.Author, "dev-") || !slices.Equal(m.Approvers, []string{"review-sonnet"}) {
			t.Errorf("#%d: got author %s, approvers %v", m.Issue, m.Author, m.Approvers)
		}
		if want := map[int64]int{8: 1}[m.Issue]; m.Rounds != want {
			t.Errorf("#%d: got %d requests for changes, want %d", m.Issue, m.Rounds, want)
		}
	}
	slices.Sort(merged)
	if !slices.Equal(merged, []int64{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("got merged issues %v, want 1 to 8", merged)
	}
	for n := int64(2); n <= 5; n++ {
		if r.place(n) < r.place(n-1) {
			t.Errorf("#%d was merged before #%d, which it depends on", n, n-1)
		}
	}
	if len(r.Violations) > 0 {
		t.Errorf("got violations %q", r.Violations)
	}
	for issue, want := range map[int64]threads.Code{
		9: threads.BlockerCycle, 10: threads.BlockerCycle, 11: threads.AssignedHuman,
	} {
		if got := r.code(issue); got != want {
			t.Errorf("#%d: got code %q, want %q", issue, got, want)
		}
	}
	if len(r.Agents) != 5 {
		t.Errorf("got %d agents, want 5", len(r.Agents))
	}
	if r.PID == 0 || len(r.Threads) != 2 || r.Forge.URL == "" {
		t.Errorf("the document lacks the status: %+v", r.Document)
	}
}

// A signal ends a demo at any time with the signal's exit code, no output on stderr, and no leftovers.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for signal, begun := range map[syscall.Signal]func(*running, string) bool{
		syscall.SIGINT: func(d *running, _ string) bool {
			return strings.Contains(d.read(d.stdout),
				"running implementation")
		},
		syscall.SIGTERM: func(_ *running, tmp string) bool { // while its forge is being filled
			found, _ := filepath.Glob(filepath.Join(tmp, "*", "forge"))
			return len(found) > 0
		},
	} {
		if signal == syscall.SIGTERM && !storms() {
			continue
		}
		tmp := t.TempDir()
		d := startDisinto(t, []string{"TMPDIR=" + tmp}, "demo", "--think", "1h")
		eventually(t, "the demo is under way", func() bool { return begun(d, tmp) })
		d.signal(signal)
		if code := d.wait(); code != 128+int(signal) {
			t.Errorf("%s: got exit code %d, want %d", signal, code, 128+int(signal))
		}
		if said := d.read(d.stderr); said != "" {
			t.Errorf("%s: got stderr %q", signal, said)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("%s: the demo left %v (%v)", signal, left, err)
		}
		// A git process of the forge ends a moment after the forge.
		eventually(t, "no process is left behind", func() bool { return len(mentions(t, tmp)) == 0 })
	}
}

func TestDemoWithoutGit(t *testing.T) {
	got := disinto(t.Context(), []string{"PATH=" + t.TempDir()}, "demo")
	want := "disinto: cannot run the demo without git: no such program in PATH: install it\n"
	if got.code != exitFailed || got.stderr != want {
		t.Errorf("got exit code %d, stderr %q, want %q", got.code, got.stderr, want)
	}
}

// The commands that --keep prints work.
func TestDemoKeep(t *testing.T) {
	if !storms() {
		t.Skip("runs a whole demo once more: make check runs it")
	}
	t.Parallel()
	tmp := t.TempDir()
	d := startDisinto(t, []string{"TMPDIR=" + tmp}, "demo", "--keep", "--think", "0s")
	eventually(t, "the demo prints the next commands", func() bool {
		return strings.Contains(d.read(d.stdout), "Its files stay in")
	})
	said := d.read(d.stdout)
	state := regexp.MustCompile(`export (DISINTO_STATE_DIR)=(\S+)`).FindStringSubmatch(said)
	if state == nil || !strings.Contains(said, `sling --title "Add a bell"`) || !strings.Contains(said, "why 9") {
		t.Fatalf("the output lacks a command:\n%s", said)
	}
	env := []string{state[1] + "=" + state[2]}
	var filed control.SlingReport
	got := disinto(t.Context(), env, "sling", "--title", "Add a bell", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &filed); err != nil || filed.Number == 0 {
		t.Fatalf("sling: got exit code %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
	}
	eventually(t, "the issue is merged", func() bool {
		var doc control.Document
		_ = json.Unmarshal([]byte(disinto(t.Context(), env, "status", "--json").stdout), &doc)
		return slices.ContainsFunc(doc.Merges, func(m ledger.Merged) bool { return m.Chain.Number == filed.Number })
	})
	got = disinto(t.Context(), env, "why", "9")
	if got.code != exitDone || !strings.Contains(got.stdout, "dependency cycle: #9 -> #10 -> #9") {
		t.Errorf("why 9: got exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if later := d.read(d.stdout); later != said {
		t.Errorf("the demo went on talking:\n%s", later[len(said):])
	}
	d.signal(syscall.SIGINT)
	if code := d.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	if _, err := os.Stat(state[2]); err != nil {
		t.Errorf("the demo's files are gone: %v", err)
	}
	if left := mentions(t, tmp); len(left) > 0 {
		t.Errorf("the demo left the processes %q", left)
	}
}
