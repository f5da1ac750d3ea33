package worlds

import (
	"time"

	"codeberg.org/johba/disinto/threads"
)

// subscribe gives a thread the windows of a subscription.
func (w *world) subscribe(t *threads.Thread) {
	short := threads.Window{Length: w.between(time.Hour, 6*time.Hour).Truncate(time.Minute)}
	short.Tokens = int64(w.number(500, 6000))
	t.Windows = []threads.Window{short}
	if w.chance(0.5) {
		long := threads.Window{Length: 2 * short.Length}
		long.Tokens = short.Tokens + int64(w.number(0, 2000))
		t.Windows = append(t.Windows, long)
	}
	if w.chance(0.8) {
		t.Reserve = float64(w.number(1, 9)) / 10
	}
}
