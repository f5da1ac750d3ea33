package supervisor

import (
	"context"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
)

// adoptState gives this supervisor a new identity, and ends the pause that a twin caused. The claims of its old
// identity count as another supervisor's from then on. So no session or service may run: it would be found by its old
// identity only.
func (s *Supervisor) adoptState(_ context.Context, _ control.AdoptRequest, report *control.Report) error {
	s.state.close(true)
	defer s.state.close(false)
	d := s.Document()
	running := len(d.Sessions)
	for i := range d.Services {
		if d.Services[i].PID != 0 {
			running++
		}
	}
	if running > 0 {
		return control.Conflict("cannot adopt %s: %s or services run: wait for their end, or disinto pause, cancel and stop "+
			"them", s.StateDir, control.Count(running, "session"))
	}
	id, err := journal.NewInstance(s.StateDir)
	if err != nil {
		return err
	}
	s.state.become(id)
	s.id.Store(&id)
	if err := s.state.rewrite(); err != nil {
		s.journalled(err)
	}
	s.log.Info("this supervisor has adopted " + s.StateDir + ": it has a new identity, " + id)
	report.Add("adopted: its new identity is %s", id)
	if s.state.pausedForTwin() {
		err = s.pausing.setPauses(report, &control.PauseRequest{}, []threads.Pause{{}}, true)
	}
	report.Subject = s.StateDir
	return err
}

// become changes the identity, and drops what it claimed under the old one.
func (st *state) become(id string) {
	st.lockToChange()
	defer st.mu.Unlock()
	st.instance, st.twin = id, forge.Peer{}
	for _, r := range st.ledger.Select(func(c *threads.ChainHistory) bool { return c.Claimed != "" }) {
		st.ledger.Drop(r)
	}
}
