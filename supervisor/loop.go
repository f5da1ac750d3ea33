package supervisor

import (
	"context"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// wakeFloor is the shortest wait of a loop that nobody kicked. A wake-up that the scheduler asks for again and again
// must not become a storm of scans.
const wakeFloor = time.Second

// startLoops begins a loop for every configured thread that has none.
func (s *Supervisor) startLoops() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looping = true
	s.startLoopsLocked()
	s.loops.Go(func() { s.keepHub(s.until) })
}

func (s *Supervisor) startLoopsLocked() {
	if s.config == nil || !s.looping || s.until.Err() != nil {
		return
	}
	for i := range s.config.Threads {
		name := s.config.Threads[i].Name
		if s.kicks[name] != nil {
			continue
		}
		k := &kick{wake: make(chan struct{}, 1)}
		k.wake <- struct{}{}
		s.kicks[name] = k
		s.loops.Go(func() { s.loop(s.until, name, k) })
	}
}

// loop ticks one thread until ctx is done or the thread is configured no more.
func (s *Supervisor) loop(ctx context.Context, name string, k *kick) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-k.wake:
		}
		if ctx.Err() != nil {
			return
		}
		need, ok := s.wanted(name, k)
		if !ok {
			return
		}
		timer.Reset(s.tick(ctx, name, need))
	}
}

// wanted says how new the facts of a tick have to be. For a kick it is when that happened. A timer is content with what
// another thread read within half its interval, so that twenty threads do not scan twenty times as often.
func (s *Supervisor) wanted(name string, k *kick) (need time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.threadLocked(name)
	if t == nil {
		delete(s.kicks, name)
		return time.Time{}, false
	}
	need = time.Now().Add(-t.Interval / 2)
	if k.need.After(need) {
		need = k.need
	}
	return need, true
}

func (s *Supervisor) threadLocked(name string) *threads.Thread {
	if s.config == nil {
		return nil
	}
	return s.config.Thread(name)
}

// delayLocked is how long a thread waits for its next tick if nobody kicks it.
func (s *Supervisor) delayLocked(name string, now time.Time) time.Duration {
	t := s.threadLocked(name)
	if t == nil {
		return 0
	}
	delay := t.IdleInterval
	if s.activeLocked() {
		delay = t.Interval
	}
	if wake := s.plan.NextWake; !wake.IsZero() {
		delay = min(delay, max(wake.Sub(now), wakeFloor))
	}
	return delay
}

// activeLocked reports whether there is work: something that runs, or that the next scans may let run. Items that wait for
// a person or a clock are looked at when there is none.
func (s *Supervisor) activeLocked() bool {
	if len(s.history.Select(cancelled))+len(s.history.Steals)+len(s.sessions)+len(s.plan.Starts)+len(s.plan.Merges)+len(s.plan.Marks) > 0 {
		return true
	}
	for i := range s.plan.Holds {
		if s.plan.Holds[i].Reason.Code.Ends() == threads.ByScan {
			return true
		}
	}
	return false
}
