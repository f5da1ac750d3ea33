package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// startConvoy lets the members of a staged convoy be worked on. It does what taking the label staged off does, and may be
// repeated.
func (s *Supervisor) startConvoy(ctx context.Context, r control.ItemRequest, report *control.Report) error {
	t, err := s.seeConvoy("start", r.Ref)
	if err != nil {
		return err
	}
	report.Subject = t.String()
	switch {
	case t.closed || t.has(forge.LabelCancelled):
		return control.Refuse(http.StatusConflict, "cannot start %s: it is over", t)
	case !t.has(forge.LabelStaged):
		report.Note = "started already"
		return nil
	}
	grip := s.grip(t.Ref)
	err = s.label(t.Ref, nil, []string{forge.LabelStaged})
	s.kickAll(grip.letGo())
	if err != nil {
		return notDone("start", t.Ref, err)
	}
	s.shown(ctx)
	report.Add("started")
	return nil
}

// shown waits, as long as sling does, until a scan shows what was written: who asks next is to see it.
func (s *Supervisor) shown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, slingTime)
	defer cancel()
	s.freshly(ctx)
}

// seeConvoy looks at a convoy on the forge.
func (s *Supervisor) seeConvoy(command, said string) (*thing, error) {
	item, err := s.item(said)
	if err != nil {
		return nil, err
	}
	t, err := s.see(item)
	switch {
	case err != nil:
		return nil, notDone(command, item, err)
	case !t.has(forge.LabelConvoy):
		return nil, control.Refuse(http.StatusConflict, "cannot %s %s: it is no convoy", command, item)
	}
	return t, nil
}

// cancelConvoy cancels every member that is not done, and the convoy last. Sessions end before anything is labelled; from
// the journal record on nothing starts on any of them, whatever the forge shows, and a supervisor that is started again
// finishes what this one could not. It may be repeated.
func (s *Supervisor) cancelConvoy(_ context.Context, r control.ConvoyCancelRequest, report *control.Report) error {
	t, err := s.seeConvoy("cancel", r.Ref)
	if err != nil {
		return err
	}
	report.Subject = t.String()
	if t.closed {
		report.Note = "closed, nothing to cancel"
		return nil
	}
	items, begun, err := s.cancellable(t, r.Drain)
	if err != nil {
		return notDone("cancel", t.Ref, err)
	}
	chores, sessions := s.beginCancel(items, r.Close)
	reportEnded(report, sessions)
	slices.SortFunc(chores, func(a, b *chore) int { return cmp.Compare(slices.Index(items, a.ref), slices.Index(items, b.ref)) })
	cancelled := 0
	for _, c := range chores {
		s.do(c)
		if len(c.did) > 0 && c.ref != t.Ref {
			cancelled++
		}
		if left := s.cancelLeft(c); left != "" {
			report.Pending = fmt.Sprintf("nothing starts any more; %s is labelled when the forge lets us: %s", c.ref.Short(), left)
		}
	}
	concludeCancel(report, cancelled, len(items)-1, begun, chores, t)
	return nil
}

func concludeCancel(r *control.Report, cancelled, of int, begun []forge.Ref, chores []*chore, t *thing) {
	if cancelled > 0 {
		r.Add("%d of %d issues and pull requests cancelled", cancelled, of)
	}
	for _, c := range chores {
		if c.ref == t.Ref && len(c.did) > 0 {
			r.Add("convoy %s", strings.Join(c.did, ", "))
		}
	}
	if len(begun) > 0 {
		r.Note = "goes on to its end: " + mention(t.Repo, begun)
	} else if len(r.Did) == 0 && r.Pending == "" {
		r.Note = "cancelled already"
	}
}

// cancellable are the members of a convoy that are to be cancelled, each after what it depends on, so that the forge lets
// them be closed in that order, with the pull requests of our agents for them; the convoy itself comes last. With drain,
// those that were begun are left out, and returned.
func (s *Supervisor) cancellable(convoy *thing, drain bool) (items, begun []forge.Ref, err error) {
	members, err := s.membersOf(convoy.Ref)
	if err != nil {
		return nil, nil, err
	}
	for _, b := range members {
		if b.State == forge.BlockerClosed || b.State == forge.BlockerCancelled || b.Ref.IsZero() {
			continue
		}
		t, err := s.see(b.Ref)
		switch {
		case errors.Is(err, forge.ErrNotFound):
			continue
		case err != nil:
			return nil, nil, err
		case t.closed:
			continue
		}
		family := s.family(t)
		if drain && (len(family) > 1 || t.pull || s.hasSession(b.Ref)) {
			begun = append(begun, b.Ref)
			continue
		}
		items = append(items, family...)
	}
	return append(items, convoy.Ref), begun, nil
}

// membersOf reads the members of a convoy afresh, in the order of their waves as far as it is known.
func (s *Supervisor) membersOf(convoy forge.Ref) (members []forge.Blocker, err error) {
	members, err = s.blockers(convoy)
	if err != nil {
		return nil, err
	}
	shown := s.convoyOf(&forge.Issue{Ref: convoy, Labels: []string{forge.LabelConvoy}, Blockers: members, BlockersKnown: true})
	place := func(b forge.Blocker) int {
		return slices.IndexFunc(shown.Members, func(m threads.Member) bool { return m.Ref() == b.Ref })
	}
	slices.SortStableFunc(members, func(a, b forge.Blocker) int { return place(a) - place(b) })
	return members, nil
}

func (s *Supervisor) blockers(item forge.Ref) (all []forge.Blocker, err error) {
	err = s.call(s.base, callTimeout, func(ctx context.Context, f Forge) (err error) {
		all, err = f.Blockers(ctx, item)
		return err
	})
	return all, err
}

func (s *Supervisor) convoyOf(is *forge.Issue) threads.Convoy {
	room := s.room()
	s.mu.Lock()
	defer s.mu.Unlock()
	return threads.ConvoyOf(s.snapshotLocked(time.Now(), room), is)
}

// convoys answers with all open convoys, from memory, or with one. The forge is asked about one that is closed, because the
// facts forget its members, and about one that we have just written to.
func (s *Supervisor) convoys(query url.Values) (control.Convoys, error) {
	list, err := s.listConvoys(query.Get("ref"))
	return control.Convoys{Convoys: append([]threads.Convoy{}, list...)}, err
}

func (s *Supervisor) listConvoys(said string) ([]threads.Convoy, error) {
	leave, err := s.enterCommand()
	if err != nil {
		return nil, err
	}
	defer leave()
	if said == "" {
		room := s.room()
		s.mu.Lock()
		defer s.mu.Unlock()
		return threads.Convoys(s.snapshotLocked(time.Now(), room)), nil
	}
	item, err := s.item(said)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	is := s.facts.Issue(item)
	repo, _ := s.facts.Repo(item.Repo)
	old := !repo.AsOf.After(s.history.Touched[item])
	s.mu.Unlock()
	if is == nil || is.Closed || old || !is.Has(forge.LabelConvoy) {
		if is, err = s.readConvoy(item); err != nil {
			return nil, err
		}
	}
	return []threads.Convoy{s.convoyOf(is)}, nil
}

// readConvoy asks the forge about a convoy.
func (s *Supervisor) readConvoy(item forge.Ref) (*forge.Issue, error) {
	t, err := s.seeConvoy("show", item.String())
	if err != nil {
		return nil, err
	}
	members, err := s.blockers(item)
	if err != nil {
		return nil, notDone("show", item, err)
	}
	return &forge.Issue{Ref: item, Title: t.title, Closed: t.closed, Labels: t.labels, Blockers: members, BlockersKnown: true}, nil
}
