package supervisor

import (
	"context"
	"time"
)

// startLoops starts a loop for every configured thread that has none.
func (s *Supervisor) startLoops() {
	cfg := s.books.config()
	if cfg == nil || !s.gate.isOpen() {
		return
	}
	for i := range cfg.Threads {
		name := cfg.Threads[i].Name
		if k := s.kicks.add(name); k != nil {
			s.inLoop("the loop of "+name, func() { s.loop(s.until, name, k.wake) })
		}
	}
}

// loop ticks one thread until ctx is done or the thread is no longer configured.
func (s *Supervisor) loop(ctx context.Context, name string, wake <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	rested := time.Now() // since when the loop waits
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-wake:
		}
		if ctx.Err() != nil {
			return
		}
		t := s.books.config().Thread(name)
		if t == nil {
			s.kicks.remove(name)
			s.startLoops() // a reload may have configured the thread again meanwhile
			return
		}
		// A timer accepts facts that another thread has read since the last tick, so that twenty threads do not scan twenty
		// times as often. A kick requires facts requested after it.
		need := rested
		if half := time.Now().Add(-t.Interval / 2); half.Before(need) {
			need = half
		}
		if k := s.kicks.need(name); k.After(need) {
			need = k
		}
		timer.Reset(s.tick(ctx, name, need))
		rested = time.Now()
	}
}
