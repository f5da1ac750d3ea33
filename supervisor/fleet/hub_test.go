package fleet

import (
	"math/rand/v2"
	"testing"
	"time"
)

// R1: a look every 300 s takes place every 300 s on average, however late the ticks come that it is looked at in. The
// scheduler that this follows took 360.4 s, because each look was counted from when the last one really was.
func TestBalancingCadence(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const every, looks = 5 * time.Minute, 100
	h := NewHub(nil, nil, nil)
	var first, last time.Time
	now := noon
	for n := 0; n <= looks; {
		if h.Due(now, every) {
			if last = now; n == 0 {
				first = now
			}
			n++
		}
		now = now.Add(time.Minute + time.Duration(rng.Int64N(int64(200*time.Millisecond))))
	}
	if mean := last.Sub(first) / looks; (mean - every).Abs() > time.Second {
		t.Errorf("a look every %s, want every %s", mean, every)
	}
	h.next = now.Add(time.Hour) // the interval was longer before a reload
	if h.Due(now, every); h.next.Sub(now) > every {
		t.Errorf("the next look is in %s", h.next.Sub(now))
	}
}
