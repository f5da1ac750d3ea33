package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/threads"
)

// Reload puts a new configuration in force for later starts. A running session keeps the configuration that it was
// started with, even if its thread or agent is gone. A nil client keeps the present one. Reload may be called from any
// goroutine.
func (s *Supervisor) Reload(cfg *threads.Config, client Forge) {
	s.init()
	s.reloadRenaming(cfg, func() {
		if s.forge.set(client) {
			s.sessions.accounts.forget()
			s.scanner.scans.restart()
			for _, c := range s.state.chores {
				c.retryAt = time.Time{} // it may have been refused for the old token
			}
		}
	})
	s.planner.startLoops()
	s.services.serving.poke()
	s.lookAtPorts()
	s.kicks.all(time.Now())
	s.touchStatus()
}

// SetError sets the current error of the configuration file; nil means that the file is valid. The last valid
// configuration stays in force.
func (s *Supervisor) SetError(err error) {
	s.init()
	s.state.setConfigError(err)
	s.touchStatus()
}

// lookAtPorts asks for a comparison of the TCP listeners with the configuration.
func (s *Supervisor) lookAtPorts() {
	select {
	case s.replug <- struct{}{}:
	default:
	}
}
