package supervisor

import "time"

// kick wakes the loop of one thread.
type kick struct {
	wake chan struct{} // 1-buffered: a kick during a tick is not lost, and ten are one
	need time.Time     // the tick wants facts requested at this time or later; guarded by the supervisor's mu
}

// kickThread wakes a thread's loop, which then decides on facts requested no earlier than need.
func (s *Supervisor) kickThread(name string, need time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kickLocked(name, need)
}

// kickAll wakes every loop.
func (s *Supervisor) kickAll(need time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kickAllLocked(need)
}

func (s *Supervisor) kickAllLocked(need time.Time) {
	for name := range s.kicks {
		s.kickLocked(name, need)
	}
}

func (s *Supervisor) kickLocked(name string, need time.Time) {
	k := s.kicks[name]
	if k == nil {
		return
	}
	if need.After(k.need) {
		k.need = need
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// touchStatus says that the status is another now.
func (s *Supervisor) touchStatus() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// lookAtPorts has the TCP listeners compared with the configuration.
func (s *Supervisor) lookAtPorts() {
	select {
	case s.replug <- struct{}{}:
	default:
	}
}
