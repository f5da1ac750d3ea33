package pid1

import (
	"testing"
	"time"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at returns a time some seconds after midnight.
func at(seconds float64) time.Time {
	return midnight.Add(time.Duration(seconds * float64(time.Second)))
}

// readySince returns a watchman whose supervisor started at 0 and was ready at 1.
func readySince() *watchman {
	w := &watchman{grace: 7 * time.Second}
	w.started(at(0))
	w.isReady(at(1))
	w.got(at(1))
	return w
}

func TestWatchman(t *testing.T) {
	tests := []struct {
		name string
		do   func() *watchman
		now  float64
		want step
		next float64 // seconds after midnight, with wait; 0 for no time
	}{
		{"a supervisor that works", readySince, 2, wait, 31},
		{"a program that fails before it was ready", func() *watchman {
			w := &watchman{}
			w.started(at(0))
			w.died(at(1), false, false)
			return w
		}, 1, leave, 0},
		{"the first death", func() *watchman {
			w := readySince()
			w.died(at(3), false, false)
			return w
		}, 3, begin, 0},
		{"the second death soon after", func() *watchman {
			w := readySince()
			w.died(at(3), false, false)
			w.started(at(3))
			w.died(at(3), false, false)
			return w
		}, 3.5, wait, 4},
		{"the second death, rested", func() *watchman {
			w := readySince()
			w.died(at(3), false, false)
			w.started(at(3))
			w.died(at(3), false, false)
			return w
		}, 4, begin, 0},
		{"the ninth death rests a minute", func() *watchman {
			w := readySince()
			for range 9 {
				w.died(at(3), false, false)
			}
			return w
		}, 4, wait, 63},
		{"a death after a calm minute is the first again", func() *watchman {
			w := readySince()
			w.died(at(3), false, false)
			w.died(at(3), false, false)
			w.started(at(4))
			w.isReady(at(4))
			w.died(at(64), false, false)
			return w
		}, 64, begin, 0},
		{"silence", readySince, 31, rouse, 0},
		{"silence after CONT", func() *watchman {
			w := readySince()
			w.roused = at(31)
			return w
		}, 40, wait, 41},
		{"still silent", func() *watchman {
			w := readySince()
			w.roused = at(31)
			return w
		}, 41, kill, 0},
		{"a word after CONT", func() *watchman {
			w := readySince()
			w.roused = at(31)
			w.got(at(35))
			return w
		}, 41, wait, 65},
		{"silent again soon after CONT", func() *watchman {
			w := readySince()
			w.isRoused(at(31))
			w.got(at(32))
			return w
		}, 42, kill, 0},
		{"silent again, long after CONT", func() *watchman {
			w := readySince()
			w.isRoused(at(31))
			w.got(at(80))
			return w
		}, 110, rouse, 0},
		{"killed, but not dead", func() *watchman {
			w := readySince()
			w.roused, w.killed = at(31), true
			return w
		}, 100, wait, 0},
		{"no supervisor is ready for long", func() *watchman {
			w := readySince()
			w.died(at(3), false, false)
			w.started(at(3))
			w.got(at(302))
			return w
		}, 303, endAll, 0},
		{"that is said once", func() *watchman {
			w := readySince()
			w.died(at(3), false, false)
			w.started(at(3))
			w.got(at(302))
			w.lost = true
			return w
		}, 303, wait, 332},
		{"a program that was never ready has no time limit", func() *watchman {
			w := &watchman{}
			w.started(at(0))
			w.got(at(500))
			return w
		}, 500, wait, 530},
		{"the program of an upgrade follows at once", func() *watchman {
			w := readySince()
			w.died(at(3), true, true)
			return w
		}, 3, begin, 0},
		{"the program of an upgrade is not ready in time", func() *watchman {
			w := readySince()
			w.died(at(3), true, true)
			w.started(at(3))
			w.got(at(62))
			return w
		}, 63, kill, 0},
		{"a stop", func() *watchman {
			w := readySince()
			w.stop(at(2))
			return w
		}, 2, wait, 11.5},
		{"a stop that takes too long", func() *watchman {
			w := readySince()
			w.stop(at(2))
			return w
		}, 11.5, killAll, 0},
		{"a second stop leaves no grace", func() *watchman {
			w := readySince()
			w.stop(at(2))
			w.stop(at(3))
			return w
		}, 5.5, killAll, 0},
		{"a supervisor that has stopped", func() *watchman {
			w := readySince()
			w.stop(at(2))
			w.died(at(3), true, false)
			return w
		}, 3, leave, 0},
		{"a supervisor that dies after a stop leaves claims", func() *watchman {
			w := readySince()
			w.stop(at(2))
			w.died(at(3), false, false)
			return w
		}, 3, begin, 0},
		{"the one that was started to stop dies too", func() *watchman {
			w := readySince()
			w.stop(at(2))
			w.died(at(3), false, false)
			w.started(at(3))
			w.died(at(4), false, false)
			return w
		}, 4, leave, 0},
		{"an upgrade when a stop comes", func() *watchman {
			w := readySince()
			w.stop(at(2))
			w.died(at(3), true, true)
			return w
		}, 3, begin, 0},
		{"a stop between two deaths that were no failed starts", func() *watchman {
			w := readySince()
			w.died(at(3), false, false)
			w.started(at(3))
			w.isReady(at(3.5))
			w.died(at(4), false, false)
			w.stop(at(4.1))
			return w
		}, 4.1, begin, 0},
		{"the second death, after a stop", func() *watchman {
			w := readySince()
			w.died(at(3), false, false)
			w.started(at(3))
			w.isReady(at(3.5))
			w.stop(at(4))
			w.died(at(4.1), false, false)
			return w
		}, 4.1, begin, 0},
		{"a stop while supervisors cannot start", func() *watchman {
			w := readySince()
			w.died(at(3), false, false)
			w.started(at(3))
			w.died(at(3), false, false)
			w.stop(at(3.1))
			return w
		}, 3.1, leave, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, next := tt.do().next(at(tt.now))
			want := time.Time{}
			if tt.next != 0 {
				want = at(tt.next)
			}
			if got != tt.want || got == wait && !next.Equal(want) {
				t.Errorf("next = %d at %s, want %d at %s", got, next, tt.want, want)
			}
		})
	}
}

func TestWatchmanCounts(t *testing.T) {
	w := readySince()
	w.died(at(2), true, true)
	w.started(at(2))
	w.isReady(at(3))
	w.died(at(4), false, false)
	w.died(at(5), false, false)
	if w.upgrades != 1 || w.crashes != 2 {
		t.Errorf("got %d upgrades and %d crashes, want 1 and 2", w.upgrades, w.crashes)
	}
	if w.started(at(6)); w.isReady(at(7)) != true || w.isReady(at(8)) != false {
		t.Error("isReady must report the first time only")
	}
	w.died(at(9), true, true)
	w.started(at(9))
	w.died(at(10), false, false)
	if w.rolledBack(); w.upgrades != 1 || w.trial {
		t.Errorf("got %d upgrades after one that failed, want 1", w.upgrades)
	}
}
