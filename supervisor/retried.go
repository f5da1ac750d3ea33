package supervisor

import (
	"context"
	"strings"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// retried is retry for a person: after the next decision on the item it also names the agent or the
// thread that holds the item all the same, and what ends that. Retry ends no hold of an agent, so "back-off ended"
// alone was read as "it starts".
func (cm *commands) retried(ctx context.Context, r control.ItemRequest, report *control.Report) error {
	if err := cm.shown(cm.retry)(ctx, r, report); err != nil {
		return err
	}
	item, err := cm.item("", r.Ref)
	if err != nil {
		return nil // retry has found it: the configuration has changed since
	}
	if ex, err := cm.explain(item); err == nil && ex.Code.Class() == threads.Busy {
		report.Note = "it still " + ex.Verdict
		if ex.Mend != "" {
			report.Note += "; to change that: " + strings.ReplaceAll(ex.Mend, "`", "")
		}
	}
	return nil
}
