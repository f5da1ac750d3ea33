package supervisor

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// inherit continues the sessions of the previous image, and reports whether there was one. That image left no stale
// processes.
func (s *Supervisor) inherit() bool {
	h := s.Inherited
	if h == nil {
		return false
	}
	s.problems.inherit(h.Upkeep)
	for _, x := range s.state.inherit(h) {
		s.sessions.inSession(x, s.sessions.resume)
	}
	for _, x := range s.services.serving.inherit(h.Services, s.base) {
		s.services.inService(x)
	}
	s.log.Info(fmt.Sprintf("disinto %s continues %s and %s of the previous image", s.Version,
		control.Count(len(h.Sessions), "session"), control.Count(len(h.Services), "service")))
	return true
}

func (st *state) inherit(h *Handover) (list []*session) {
	st.lockToChange()
	defer st.mu.Unlock()
	st.life = life{started: h.Started, upgrades: h.Upgrades, upgraded: time.Now()}
	for i := range h.Sessions {
		x := continued(&h.Sessions[i], st.ledger.Open[h.Sessions[i].Session.RunID].Stop, st.cfg, st.base, st.environ)
		st.sessions[x.RunID] = x
		list = append(list, x)
	}
	return list
}

// inherits reports whether a run continues from the previous image.
func (rn *sessionRunner) inherits(run string) bool {
	return rn.inherited != nil && slices.Contains(rn.inherited.Runs(), run)
}
