package decisions

import (
	"path/filepath"
	"sync"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// waiting bounds the queue of unwritten decisions. Each holds a copy of the history.
const waiting = 8

// Recorder receives decisions and writes them. Any goroutine may call its methods, except Keep: one only.
type Recorder struct {
	queue chan decision

	mu   sync.Mutex // guards the fields below
	lost *lost      // since the last queued decision
}

// decision is one decision in the queue.
type decision struct {
	*threads.FrozenDecision
	lost    *lost
	written chan<- struct{} // of Settle, instead of a decision
}

// NewRecorder returns a recorder. Its decisions wait in the queue until Keep is called.
func NewRecorder() *Recorder { return &Recorder{queue: make(chan decision, waiting)} }

// Take queues a decision, which frozen copies. It does not wait: if the queue is full, the decision is lost, and the
// next one reports that.
func (r *Recorder) Take(now time.Time, frozen func() *threads.FrozenDecision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == cap(r.queue) { // under mu the queue only gets shorter
		if r.lost == nil {
			r.lost = &lost{From: now}
		}
		r.lost.N++
		return
	}
	r.queue <- decision{FrozenDecision: frozen(), lost: r.lost}
	r.lost = nil
}

// Settle waits until everything in the queue is written, or done is closed.
func (r *Recorder) Settle(done <-chan struct{}) {
	written := make(chan struct{})
	for asked := false; !asked; {
		r.mu.Lock()
		if asked = len(r.queue) < cap(r.queue); asked {
			r.queue <- decision{written: written}
		}
		r.mu.Unlock()
		if !asked {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
	select {
	case <-written:
	case <-done:
	}
}

// Options configure a recorder.
type Options struct {
	StateDir string
	Program  string // version of disinto
	Upgraded bool   // the last image of this process ran until now
	// Trouble receives the reason why decisions cannot be written, and nil when they can be again.
	Trouble func(error)
}

// Keep writes decisions until done is closed, and then the rest of the queue.
func (r *Recorder) Keep(o Options, done <-chan struct{}) {
	w := &writer{Options: o, dir: filepath.Join(o.StateDir, Folder), after: started}
	if o.Upgraded {
		w.after = became
	}
	for {
		select {
		case d := <-r.queue:
			w.take(&d)
			continue
		case <-done:
		}
		for {
			select {
			case d := <-r.queue:
				w.take(&d)
				continue
			default:
			}
			w.end(stopped, time.Now())
			return
		}
	}
}
