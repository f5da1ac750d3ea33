package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// convoys makes, starts, shows and cancels convoys. A chore of the clerk ends them.
type convoys struct {
	*core
	scanner *scanner
	clerk   *clerk
}

// start removes the label staged from a convoy, so that its members may start. The command may be repeated.
func (v *convoys) start(ctx context.Context, r control.ItemRequest, report *control.Report) error {
	t, err := v.findConvoy("start", r.Ref)
	if err != nil {
		return err
	}
	report.Subject = t.String()
	switch {
	case t.closed || t.has(forge.LabelCancelled):
		return control.Conflict("cannot start %s: it is over", t)
	case !t.has(forge.LabelStaged):
		report.Note = "started already"
		return nil
	}
	need, err := v.relabel(t.Ref, nil, []string{forge.LabelStaged})
	v.kicks.all(need)
	if err != nil {
		return notDone("start", t.Ref, err)
	}
	v.scanner.awaitShown(ctx)
	report.Add("started")
	return nil
}

// findConvoy reads the convoy that a command names.
func (v *convoys) findConvoy(verb, said string) (*target, error) {
	t, err := v.find(verb, "", said)
	if err == nil && !t.has(forge.LabelConvoy) {
		err = control.Conflict("cannot %s %s: it is not a convoy", verb, t)
	}
	return t, err
}

// cancel cancels every unfinished member, and the convoy last. Sessions end before anything is labelled. Once
// the cancel is journalled, nothing starts on any of them, whatever the forge shows. After a restart the supervisor
// cancels the rest. The command may be repeated.
func (v *convoys) cancel(_ context.Context, r control.ConvoyCancelRequest, report *control.Report) error {
	t, err := v.findConvoy("cancel", r.Ref)
	if err != nil {
		return err
	}
	report.Subject = t.String()
	if t.closed {
		report.Note = "closed, nothing to cancel"
		return nil
	}
	items, begun, err := v.cancellable(t, r.Drain)
	if err != nil {
		return notDone("cancel", t.Ref, err)
	}
	chores, sessions := v.clerk.beginCancel(items, r.Close)
	awaitEnds(report, sessions)
	cancelled, convoy := 0, ""
	for _, c := range chores {
		v.clerk.do(c)
		if c.ref == t.Ref {
			convoy = strings.Join(c.did, ", ")
		} else if len(c.did) > 0 {
			cancelled++
		}
		if left := v.state.cancelLeft(c); left != "" {
			report.Pending = fmt.Sprintf("nothing starts any more; %s is labelled when the forge allows it: %s",
				c.ref.Short(), left)
		}
	}
	if cancelled > 0 {
		report.Add("%d of %d issues and pull requests cancelled", cancelled, len(items)-1)
	}
	if convoy != "" {
		report.Add("convoy %s", convoy)
	}
	if len(begun) > 0 {
		report.Note = "continues to its end: " + mention(t.Repo, begun)
	} else if len(report.Did) == 0 && report.Pending == "" {
		report.Note = "cancelled already"
	}
	return nil
}

// cancellable returns a convoy's members that can be cancelled, with our agents' pull requests for them, and the
// convoy itself last. Each stands after its dependencies, because the forge closes issues in that order only. With
// drain, it leaves out the members with a session or pull request, and returns them as begun.
func (v *convoys) cancellable(convoy *target, drain bool) (items, begun []forge.Ref, err error) {
	members, err := v.membersOf(convoy.Ref)
	if err != nil {
		return nil, nil, err
	}
	for _, b := range members {
		if b.State == forge.BlockerClosed || b.State == forge.BlockerCancelled || b.Ref.IsZero() {
			continue
		}
		t, err := v.fetchTarget(b.Ref)
		switch {
		case errors.Is(err, forge.ErrNotFound):
			continue
		case err != nil:
			return nil, nil, err
		case t.closed:
			continue
		}
		family := v.withPulls(t)
		if drain && (len(family) > 1 || t.pull || v.state.sessionOn(b.Ref) != nil) {
			begun = append(begun, b.Ref)
			continue
		}
		items = append(items, family...)
	}
	return append(items, convoy.Ref), begun, nil
}

// membersOf reads a convoy's members from the forge, in the order of their waves as far as known.
func (v *convoys) membersOf(convoy forge.Ref) ([]forge.Blocker, error) {
	members, err := v.blockers(convoy)
	if err != nil {
		return nil, err
	}
	shown := v.convoyOf(&forge.Issue{
		Ref: convoy, Labels: []string{forge.LabelConvoy}, Blockers: members, BlockersKnown: true,
	})
	place := func(b forge.Blocker) int {
		return slices.IndexFunc(shown.Members, func(m threads.Member) bool { return m.Ref() == b.Ref })
	}
	slices.SortStableFunc(members, func(a, b forge.Blocker) int { return place(a) - place(b) })
	return members, nil
}

func (v *convoys) convoyOf(is *forge.Issue) (convoy threads.Convoy) {
	v.view(func(snap threads.Snapshot) { convoy = threads.ConvoyOf(snap, is) })
	return convoy
}

// list answers with all open convoys, from memory, or with the one in ?ref=. It reads that one from the forge if it
// is closed, because the facts drop its members, or if the supervisor has written to it since the last scan.
func (v *convoys) list(_ context.Context, query url.Values, answer *control.Convoys) error {
	answer.Convoys = []threads.Convoy{}
	said := query.Get("ref")
	if said == "" {
		v.view(func(snap threads.Snapshot) { answer.Convoys = append(answer.Convoys, threads.Convoys(snap)...) })
		return nil
	}
	item, err := v.item("", said)
	if err != nil {
		return err
	}
	is, old := v.state.issue(item)
	if is == nil || is.Closed || old || !is.Has(forge.LabelConvoy) {
		if is, err = v.readConvoy(item); err != nil {
			return err
		}
	}
	answer.Convoys = append(answer.Convoys, v.convoyOf(is))
	return nil
}

// readConvoy reads a convoy from the forge.
func (v *convoys) readConvoy(item forge.Ref) (*forge.Issue, error) {
	t, err := v.findConvoy("show", item.String())
	if err != nil {
		return nil, err
	}
	members, err := v.blockers(item)
	if err != nil {
		return nil, notDone("show", item, err)
	}
	return &forge.Issue{
		Ref: item, Title: t.title, Closed: t.closed, Labels: t.labels, Blockers: members, BlockersKnown: true,
	}, nil
}
