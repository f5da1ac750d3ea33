package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// retryLabels are the labels that retry removes.
var retryLabels = []string{forge.LabelBlocked, forge.LabelCancelled, forge.LabelNeedsHuman, forge.LabelNeedsAnswer}

// retry gives an issue or pull request a fresh start: it clears failures, cool-downs, refusals, review rounds and
// a rejected pull request, removes their labels, and puts backlog back on an open issue. The retry of an issue
// includes our agents' open pull requests for it. The command may be repeated.
func (cm *commands) retry(_ context.Context, r control.ItemRequest, report *control.Report) error {
	t, err := cm.find("retry", "", r.Ref)
	if err != nil {
		return err
	}
	if t.closed {
		return control.Conflict("cannot retry %s: it is closed, reopen it", t.Ref)
	}
	family := cm.withPulls(t)
	if cm.state.cancelling(family) {
		return control.NotNow("cannot retry %s now: it is being cancelled", t.Ref)
	}
	forgotten := family
	if t.chain != t.Ref { // a pull request's attempts are counted on its issue
		forgotten = append(slices.Clone(family), t.chain)
	}
	report.Subject = t.String()
	write := cm.state.beginWrite(t.Ref)
	err = cm.forgive(report, t, forgotten)
	for _, item := range family {
		if err == nil {
			err = cm.liftLabels(report, t, item)
		}
	}
	if err == nil && t.has(forge.LabelCancelled) {
		err = cm.bringBack(report, t.Ref)
	}
	cm.kicks.all(write.end())
	cm.touchStatus()
	if err != nil {
		return notDone("retry", t.Ref, err)
	}
	switch x := cm.state.sessionOn(family...); {
	case x != nil:
		report.Note = x.Agent + " works on it"
	case t.heldBy != "":
		report.Note = "it waits for the claim of " + t.heldBy + ", which retry does not take away: if that host is gone, " +
			"disinto release " + typed(r.Ref, t.Ref)
	case len(report.Did) == 0:
		report.Note = "retry found nothing to clear: see disinto why " + typed(r.Ref, t.Ref)
	}
	cm.log.Info(fmt.Sprintf("[%s] retried by hand", wordsOf(cm.state.config(), t.Ref, "")))
	return nil
}

// forgive journals the retry and reports what it clears.
func (cm *commands) forgive(report *control.Report, t *target, items []forge.Ref) error {
	said := ledger.Record{At: time.Now(), Retry: &ledger.Retry{}}
	for _, item := range items {
		said.Retry.Refs = append(said.Retry.Refs, ledger.Ref(item))
	}
	config, retried := cm.state.config(), cm.state.chain(t.Ref).Retried
	cm.view(func(snap threads.Snapshot) {
		login := snap.OpenerOf(t.chain, snap.Facts.Pull(t.Ref))
		if said.Retry.Opener = login; snap.OpenedBy(login) >= config.Forge.MaxSessionsDay {
			report.Add("daily limit of %s starts again", login)
		}
	})
	for _, item := range items {
		cm.reportForgotten(report, item, said.At)
	}
	for i := range t.pulls {
		p := &t.pulls[i]
		byPerson := config.AgentByLogin(p.Author) != nil && config.AgentByLogin(p.ClosedBy) == nil
		if p.Closed && !p.Merged && byPerson && p.Ended.After(retried) {
			report.Add("rejected pull request %s forgotten", p.Short())
		}
	}
	if err := cm.state.append(said); err != nil {
		return fmt.Errorf("%w: %w", err, forge.ErrUnavailable)
	}
	cm.state.wakeChores(items) // failed merges and marks are due now, too
	return nil
}

// reportForgotten reports the history that a retry clears from an item.
func (cm *commands) reportForgotten(report *control.Report, item forge.Ref, now time.Time) {
	chain, toll := cm.state.chain(item), cm.state.toll(item)
	why, rests := cm.state.rests(item, now)
	if why != "" {
		why = ": " + why
	}
	limits := &cm.state.config().Forge
	failures := 0
	for _, a := range chain.Attempts {
		failures += a.Count
		rests = rests || a.Until.After(now)
	}
	if failures == 1 {
		report.Add("1 failed attempt forgotten")
	} else if failures > 1 {
		report.Add("%d failed attempts forgotten", failures)
	}
	for _, one := range []struct {
		held  bool
		words string
	}{
		{rests, "back-off ended" + why},
		{chain.HasRefusal(), "refusal forgotten"},
		{
			toll.Rounds > 0 || toll.Reviews >= limits.MaxReviews() || cm.hasRounds(item, chain.Retried),
			"review rounds forgotten",
		},
		{toll.CIFixes > 0, "CI fixes forgotten"},
		{toll.Sessions >= limits.MaxSessions(), "limit of sessions starts again"},
	} {
		if one.held && !slices.Contains(report.Did, one.words) { // an issue and its pull request share rounds
			report.Add("%s", one.words)
		}
	}
}

// hasRounds reports whether agents requested changes on a pull request since a time.
func (cm *commands) hasRounds(item forge.Ref, since time.Time) bool {
	config, p := cm.state.config(), cm.state.pull(item)
	return p != nil && slices.ContainsFunc(p.Reviews, func(r forge.Review) bool {
		byAgent := config.AgentByLogin(r.Author) != nil
		return byAgent && r.Verdict == forge.ChangesRequested && r.Submitted.After(since)
	})
}

// backKey replaces the key of the comment about a cancelled blocker, so that another cancel writes the comment again.
const backKey = "blocker-retried"

// bringBack removes needs-human from the issues that have it only because this blocker was cancelled, so that a retry
// undoes a cancel for them, too.
func (cm *commands) bringBack(report *control.Report, item forge.Ref) error {
	for _, waiting := range cm.state.orphansOf(item) {
		write := cm.state.beginWrite(waiting)
		err := cm.label(waiting, nil, []string{forge.LabelNeedsHuman})
		if err == nil {
			cm.state.record(ledger.Record{At: time.Now(), Told: &ledger.Told{Ref: ledger.Ref(waiting), Key: backKey}})
			report.Add("%s label %s removed", waiting.Short(), forge.LabelNeedsHuman)
		}
		cm.kicks.all(write.end())
		if err != nil {
			return err
		}
	}
	return nil
}

// orphansOf returns the open issues that were handed to a person because of this cancelled blocker and no other that
// is still cancelled.
func (st *state) orphansOf(item forge.Ref) (list []forge.Ref) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i := range st.facts.Issues {
		is := &st.facts.Issues[i]
		words := strings.Fields(st.ledger.Chain(is.Ref).Told)
		if is.Closed || !is.Has(forge.LabelNeedsHuman) || len(words) == 0 || words[0] != string(threads.BlockerCancelled) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(words[1:]), func(w string) bool { return w == item.String() })
		cancelled := func(w string) bool {
			ref, err := forge.ParseRef(w, "")
			on := st.facts.Issue(ref)
			return err == nil && on != nil && on.Has(forge.LabelCancelled)
		}
		if len(others) < len(words)-1 && !slices.ContainsFunc(others, cancelled) {
			list = append(list, is.Ref)
		}
	}
	return list
}

// liftLabels removes the skip labels from one item of t's family, and puts backlog back on an issue.
func (cm *commands) liftLabels(report *control.Report, t *target, item forge.Ref) error {
	labels, of := t.labels, ""
	if item != t.Ref {
		p := t.pulls[slices.IndexFunc(t.pulls, func(p forge.Pull) bool { return p.Ref == item })]
		labels, of = p.Labels, item.Short()+" "
	}
	var add, remove []string
	for _, l := range retryLabels {
		if slices.Contains(labels, l) {
			remove = append(remove, l)
		}
	}
	if item == t.Ref && !t.pull && !t.has(forge.LabelBacklog) && !t.has(forge.LabelConvoy) {
		add = append(add, forge.LabelBacklog)
	}
	if len(add)+len(remove) == 0 {
		return nil
	}
	if err := cm.label(item, add, remove); err != nil {
		return err
	}
	for _, l := range remove {
		report.Add("%slabel %s removed", of, l)
	}
	for _, l := range add {
		report.Add("%slabel %s put back", of, l)
	}
	return nil
}
