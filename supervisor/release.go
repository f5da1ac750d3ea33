package supervisor

import (
	"context"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// release ends the session on an issue or pull request, if there is one, and releases our claim. The item stays in
// the queue: an issue without backlog gets it back, because some agent programs remove it. After a session the item
// rests for a minute, so that a person can decide the next step. The command may be repeated.
func (cm *commands) release(_ context.Context, r control.ItemRequest, report *control.Report) error {
	before, err := cm.find("release", "", r.Ref)
	if err != nil {
		return err
	}
	if _, foreign := cm.claimants(before); before.has(forge.LabelInProgress) && len(foreign) > 0 {
		return control.Conflict("cannot release %s: it is claimed by %s, which another host runs", before.Ref,
			strings.Join(foreign, " and "))
	}
	report.Subject = before.String()
	write := cm.state.beginWrite(before.Ref)
	sessions := cm.state.end([]forge.Ref{before.Ref}, threads.StopReleased)
	awaitEnds(report, sessions)
	err = cm.releaseNow(report, before, len(sessions) > 0)
	cm.kicks.all(write.end())
	cm.touchStatus()
	if err != nil {
		return notDone("release", before.Ref, err)
	}
	return nil
}

// releaseNow removes the session's claim, and reports what it found. ran is true if there was a session.
func (cm *commands) releaseNow(report *control.Report, before *target, ran bool) error {
	t, err := cm.fetchTarget(before.Ref)
	if err != nil {
		return err
	}
	if err := cm.free(report, t); err != nil {
		return err
	}
	was, err := cm.unclaim(t)
	if err != nil {
		return err
	}
	claimed := was || before.has(forge.LabelInProgress) && !t.has(forge.LabelInProgress)
	switch ours, _ := cm.claimants(t); {
	case claimed:
		report.Add("claim released")
	case ran:
	case len(ours) > 0:
		report.Note = "not claimed, but pinned to " + strings.Join(ours, " and ") + ": unassign it to let any agent take it"
	default:
		report.Note = "no claim of ours is on it"
	}
	if (claimed || ran) && !t.pull && !t.closed && !t.has(forge.LabelBacklog) {
		if err := cm.label(t.Ref, []string{forge.LabelBacklog}, nil); err != nil {
			return err
		}
		report.Add("label backlog put back")
	}
	return nil
}

// free removes another supervisor's claim, or a half-written one, which shows no label.
func (cm *commands) free(report *control.Report, t *target) error {
	if t.heldBy == "" && t.has(forge.LabelInProgress) {
		return nil
	}
	was, err := fetch(cm.core, func(ctx context.Context, f Forge) (string, error) { return f.Free(ctx, t.Ref) })
	if err == nil && was != "" {
		report.Add("claim of %s taken away", was)
	}
	return err
}
