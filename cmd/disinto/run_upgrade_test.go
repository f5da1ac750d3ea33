package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// The program is replaced repeatedly while sessions start, run and end. Each exit status arrives once; no session is
// lost; no slot, process or descriptor leaks. DISINTO_UPGRADES is the number of upgrades: a hundred in make soak,
// three in make check.
func TestUpgrades(t *testing.T) {
	if os.Getenv("DISINTO_UPGRADES") == "" {
		leftToStorms(t, "one session across an upgrade in TestUpgradeAsPID1")
	}
	t.Parallel()
	upgrades, _ := strconv.Atoi(os.Getenv("DISINTO_UPGRADES"))
	n, threads, takes := 8, 5, "2"
	if upgrades > 0 || storms() {
		upgrades = max(upgrades, 3)
		n, threads, takes = 30+6*upgrades, soakThreads, "4"
	}
	upgrades = max(upgrades, 1)
	s := newSoak(t, threads, n, takes)
	page := deadAddress(t)
	s.factory = fmt.Sprintf("listen_web = %q\nlisten_token = \"0123456789abcdef\"\n", page)
	r := s.start()
	socket := keepAsking(t, "unix", s.state+"/disinto.sock", "/v1/state")
	web := keepAsking(t, "tcp", page, "/")
	before := vitalsOf(t, r.supervisor())
	var took []time.Duration
	carried, fewest := 0, n
	var books strings.Builder // each supervisor starts a new journal; the old one stays open
	for len(took) < upgrades {
		status(t, s.state, "half of the slots are busy",
			func(d *control.Document) bool { return len(d.Sessions) >= threads/2 })
		journal := open(t, s.state+"/journal.jsonl", os.O_RDONLY)
		begun := time.Now()
		got := disinto(t.Context(), nil, "upgrade", "--state", s.state)
		if got.code != exitDone || !strings.HasPrefix(got.stdout, "upgraded from ") {
			t.Fatalf("upgrade %d: got %+v", len(took)+1, got)
		}
		took = append(took, time.Since(begun))
		written, err := io.ReadAll(journal)
		if err = errors.Join(err, journal.Close()); err != nil {
			t.Fatal(err)
		}
		books.Write(written)
		on, _, _ := strings.Cut(got.stdout[strings.Index(got.stdout, ": ")+2:], " ")
		going, _ := strconv.Atoi(on)
		carried, fewest = carried+going, min(fewest, going)
	}
	socket.report(t, "the control socket")
	web.report(t, "the page")
	ended := func() int { return strings.Count(r.read(s.ledger), "\n") }
	for was := ended(); was < n; was = ended() {
		eventually(t, "another session ends", func() bool { return ended() > was })
	}
	d := status(t, s.state, "all work is done", func(d *control.Document) bool {
		return len(d.Sessions) == 0 && ended() >= n
	})
	if d.Upgrades != upgrades || d.PID != r.pid || d.UpgradedAt.IsZero() {
		t.Errorf("got %d upgrades of pid %d, want %d of %d", d.Upgrades, d.PID, upgrades, r.pid)
	}
	s.hangUp()
	after := vitalsOf(t, r.supervisor())
	for deadline := time.Now().Add(time.Minute); after.fds > before.fds+8; after = vitalsOf(t, r.supervisor()) {
		if time.Now().After(deadline) {
			t.Fatalf("got %d descriptors after %d upgrades, %d before", after.fds, upgrades, before.fds)
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.checkRest(r, after, after)
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	s.checkBooks(n, books.String()+r.read(s.state+"/journal.jsonl"))
	if left := mentions(t, s.state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
	slices.Sort(took)
	t.Logf("%d upgrades with %d sessions at once on average, %d at least; each took %s, at most %s; %s before, %s after",
		upgrades,
		carried/upgrades, fewest, took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond),
		before, after)
}
