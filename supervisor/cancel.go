package supervisor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// cancel ends the session on an issue or pull request, labels it cancelled and releases the claim; the item stays
// open. Once the cancel is journalled, nothing starts on the item, whatever the forge shows. The cancel of an issue
// includes the open pull requests of our agents for it: a merge would close the issue. The command may be repeated.
func (cm *commands) cancel(_ context.Context, r control.ItemRequest, report *control.Report) error {
	item, err := cm.item("", r.Ref)
	if err != nil {
		return err
	}
	report.Subject = item.String()
	t, err := cm.fetchTarget(item)
	switch {
	case errors.Is(err, forge.ErrUnavailable) && cm.state.knownOpen(item):
		t = &target{Ref: item, chain: item} // the session can be ended without the forge
	case err != nil:
		return notDone("cancel", item, err)
	case t.closed && cm.state.sessionOn(item) == nil:
		report.Note = "closed, nothing to cancel"
		return nil
	case t.has(forge.LabelConvoy):
		return control.Conflict("cannot cancel %s: it is a convoy, use disinto batch cancel %s", item,
			typed(r.Ref, item))
	}
	chores, sessions := cm.clerk.beginCancel(cm.withPulls(t), false)
	awaitEnds(report, sessions)
	if len(chores) == 0 && len(sessions) == 0 {
		return control.Conflict("cannot cancel %s: another command cancels it already", item)
	}
	for _, c := range chores {
		cm.clerk.do(c)
		reportCancelled(report, c, item, cm.state.cancelLeft(c))
	}
	if len(report.Did) == 0 && report.Pending == "" {
		report.Note = "cancelled already"
	}
	return nil
}

// reportCancelled reports a chore's steps, or why the chore is pending. item is the item that the person named.
func reportCancelled(report *control.Report, c *chore, item forge.Ref, left string) {
	of := ""
	if c.ref != item {
		of = c.ref.Short() + " "
	}
	for _, did := range c.did {
		report.Add("%s%s", of, did)
	}
	if left != "" && report.Pending == "" {
		report.Pending = "nothing starts on it; " + cmp.Or(of, "it ") + "is labelled when the forge allows it: " + left
	}
}

// beginCancel journals a cancel and under the same lock ends the sessions on the items: a session reserved before is
// among them, and none is reserved after. It returns those sessions, and the chores to do once they have ended, except
// chores that another goroutine does already.
func (k *clerk) beginCancel(items []forge.Ref, closing bool) (chores []*chore, sessions []*session) {
	said := ledger.Record{At: time.Now(), Cancel: &ledger.Cancel{Close: closing}}
	for _, item := range items {
		said.Cancel.Refs = append(said.Cancel.Refs, ledger.Ref(item))
	}
	k.state.recordThen(said, func(b *state) { chores, sessions = b.cancelLocked(items) })
	for _, x := range sessions {
		k.of(x.RunID).Info(x.tag + " stopping: " + threads.Reason{Code: threads.StopCancelled}.Text())
	}
	return chores, sessions
}
