package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// R1: a cycle every 300 s takes place every 300 s on average, however late the ticks that ask for it. The scheduler
// that this one follows took 360.4 s, because it counted from when the last cycle really took place.
func TestCadence(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const every, cycles = 5 * time.Minute, 100
	h := NewHub(nil, nil, nil)
	config := &threads.Config{Stealing: threads.Stealing{PerCycle: 1, Every: every}}
	var first, last time.Time
	now := noon
	for n := 0; n <= cycles; {
		if h.Due(config, now) {
			if last = now; n == 0 {
				first = now
			}
			n++
		}
		now = now.Add(time.Minute + time.Duration(rng.Int64N(int64(200*time.Millisecond))))
	}
	if mean := last.Sub(first) / cycles; (mean - every).Abs() > time.Second {
		t.Errorf("a cycle every %s, want every %s", mean, every)
	}
	h.next = now.Add(time.Hour) // the interval was longer before a reload
	if h.Due(config, now); h.next.Sub(now) > every {
		t.Errorf("the next cycle is in %s", h.next.Sub(now))
	}
}
