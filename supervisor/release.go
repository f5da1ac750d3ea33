package supervisor

import (
	"context"
	"net/http"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// releaseItem takes our claim off an issue or pull request, after the session on it, if there is one, was ended. It stays in
// the queue: an issue whose label backlog is gone gets it back, because some agent programs take it off. After a session
// it rests for a minute, so that a person can say what is next. It may be repeated.
func (s *Supervisor) releaseItem(_ context.Context, r control.ItemRequest, report *control.Report) error {
	item, err := s.item(r.Ref)
	if err != nil {
		return err
	}
	before, err := s.see(item)
	if err != nil {
		return notDone("release", item, err)
	}
	if _, foreign := s.claimants(before); before.has(forge.LabelInProgress) && len(foreign) > 0 {
		return control.Refuse(http.StatusConflict, "cannot release %s: it is claimed by %s, which another host runs", item,
			strings.Join(foreign, " and "))
	}
	report.Subject = item.String()
	grip := s.grip(item)
	s.mu.Lock()
	sessions := s.endLocked([]forge.Ref{item}, threads.StopReleased)
	s.mu.Unlock()
	reportEnded(report, sessions)
	err = s.releaseNow(report, item, before, len(sessions) > 0)
	s.kickAll(grip.letGo())
	s.touchStatus()
	if err != nil {
		return notDone("release", item, err)
	}
	return nil
}

// free takes another supervisor's claim away, or one that shows as none because it was never finished.
func (s *Supervisor) free(report *control.Report, t *thing) error {
	if t.heldBy == "" && t.has(forge.LabelInProgress) {
		return nil
	}
	var was string
	err := s.call(s.base, callTimeout, func(ctx context.Context, f Forge) (err error) {
		was, err = f.Free(ctx, t.Ref)
		return err
	})
	if err == nil && was != "" {
		report.Add("claim of %s taken away", was)
	}
	return err
}

// releaseNow takes off what the session left, and says what was there before.
func (s *Supervisor) releaseNow(report *control.Report, item forge.Ref, before *thing, ran bool) error {
	t, err := s.see(item)
	if err != nil {
		return err
	}
	if err := s.free(report, t); err != nil {
		return err
	}
	was, err := s.unclaim(t)
	if err != nil {
		return err
	}
	claimed := was || before.has(forge.LabelInProgress) && !t.has(forge.LabelInProgress)
	switch ours, _ := s.claimants(t); {
	case claimed:
		report.Add("claim released")
	case ran:
	case len(ours) > 0:
		report.Note = "not claimed, but pinned to " + strings.Join(ours, " and ") + ": unassign it to let any agent take it"
	default:
		report.Note = "no claim of ours is on it"
	}
	if (claimed || ran) && !t.pull && !t.closed && !t.has(forge.LabelBacklog) {
		if err := s.label(item, []string{forge.LabelBacklog}, nil); err != nil {
			return err
		}
		report.Add("label backlog put back")
	}
	return nil
}
