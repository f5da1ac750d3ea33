package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// Reload puts a new configuration in force for what starts from now on. A running session keeps the one that it was
// started with, also when its thread or agent is gone. A nil client keeps the present one. It may be called from any
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

// SetError shows the error of the configuration file as it is now; nil means that the file is valid. The last valid
// configuration stays in force.
func (s *Supervisor) SetError(err error) {
	s.init()
	s.mu.Lock()
	s.configErr = err
	s.mu.Unlock()
	s.touchStatus()
}
