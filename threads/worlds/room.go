package worlds

import (
	"math"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// crowd makes another program on the machine take memory or disk for up to half an hour.
func (w *world) crowd(*repo) {
	if w.tight {
		return
	}
	w.log("the machine is full")
	w.tight = true
	w.After(w.between(time.Minute, 30*time.Minute), func() {
		w.log("the machine has room again")
		w.tight = false
	})
}

// room returns the room on the supervisor's own machine. A lack of either memory or disk holds everything.
func (w *world) room() *threads.Room {
	r := &threads.Room{Memory: math.MaxInt64, Disk: 2000}
	switch {
	case !w.tight || w.tightElsewhere():
	case w.seed%2 == 0:
		r.Memory = 999
	default:
		r.Disk = 1999
	}
	return r
}
