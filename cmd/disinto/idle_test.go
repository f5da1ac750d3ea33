package main

import (
	"os"
	"testing"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// idleMost is the most memory that an idle supervisor may have resident, in KiB: as much as pebble, which does much less.
const idleMost = 13 << 10

// TestIdle is the last part of make bench-init: what a supervisor costs that has nothing to do, with a forge that
// answers.
func TestIdle(t *testing.T) {
	if os.Getenv("DISINTO_BINARY") == "" {
		t.Skip("make bench-init runs it")
	}
	s := newSoak(t, soakThreads, 0, "0")
	r := s.start()
	status(t, s.state, "it has looked at the forge", func(d *control.Document) bool { return d.Forge.OK })
	time.Sleep(startTime + 2*time.Second) // by then it has given back what its start took
	before := vitalsOf(t, r.pid)
	time.Sleep(10 * time.Second)
	after := vitalsOf(t, r.pid)
	t.Logf("run at rest, with %d threads and agents: %s, %s of processor time in 10 s", soakThreads, after, after.cpu-before.cpu)
	if after.rss > idleMost {
		t.Errorf("%d KiB resident, want %d at most", after.rss, idleMost)
	}
}
