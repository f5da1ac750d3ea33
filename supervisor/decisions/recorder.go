package decisions

import (
	"path/filepath"
	"sync"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// waiting is how many decisions may wait to be written. Each holds a copy of the history.
const waiting = 8

// Recorder takes decisions in and writes them. Its methods may be called by any goroutine, but Keep by one only.
type Recorder struct {
	queue chan decision

	mu   sync.Mutex // guards what follows
	lost *lost      // since the last decision that was taken in
}

// decision is one decision on its way to the disk.
type decision struct {
	*threads.FrozenDecision
	lost    *lost
	written chan<- struct{} // of Settle, instead of a decision
}

// NewRecorder returns a recorder. What it takes in waits until Keep is called.
func NewRecorder() *Recorder { return &Recorder{queue: make(chan decision, waiting)} }

// Take takes in a decision of a time, and has it copied. It does not wait: where the writer is behind, the decision is
// lost, and the next one says so.
func (r *Recorder) Take(now time.Time, frozen func() *threads.FrozenDecision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == cap(r.queue) { // under mu it only gets shorter
		if r.lost == nil {
			r.lost = &lost{From: now}
		}
		r.lost.N++
		return
	}
	r.queue <- decision{FrozenDecision: frozen(), lost: r.lost}
	r.lost = nil
}

// Settle waits until everything that was taken in before is written, or done is closed.
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

// Options say where a recorder writes, and for whom.
type Options struct {
	StateDir string
	Program  string // version of disinto
	Upgraded bool   // the last image of this process went on until now
	// Trouble is told why decisions cannot be written, and nil when they can be again.
	Trouble func(error)
}

// Keep writes decisions until done is closed, and then what was taken in before.
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
