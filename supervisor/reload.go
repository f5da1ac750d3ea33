package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// Reload puts a new configuration in force, for future work only: sessions that run keep what they were started with,
// threads and agents that are gone finish what they have. A nil client keeps the present one. It may be called by any
// goroutine.
func (s *Supervisor) Reload(cfg *threads.Config, client Forge) {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	if client != nil && client != s.client {
		s.client = client
		s.verified, s.admitted = make(map[agents.Secret]string), make(map[workplace]bool)
		s.scans.prepared, s.scans.prepareAt, s.scans.retryAt = false, time.Time{}, time.Time{}
	}
	s.config, s.configErr = cfg, nil
	s.generation++
	for _, a := range s.history.Agents {
		if a.HeldUntil.IsZero() {
			a.Hold(time.Time{}, "")
		}
	}
	s.startLoopsLocked()
	s.lookAtPorts()
	for name := range s.kicks {
		s.kickLocked(name, time.Now())
	}
	s.touchStatus()
}

// lookAtPorts has the TCP listeners compared with the configuration.
func (s *Supervisor) lookAtPorts() {
	select {
	case s.replug <- struct{}{}:
	default:
	}
}

// SetError shows what is wrong with the configuration as its file is now. The last good one stays in force; nil means
// that the file is good again.
func (s *Supervisor) SetError(err error) {
	s.init()
	s.mu.Lock()
	s.configErr = err
	s.mu.Unlock()
	s.touchStatus()
}
