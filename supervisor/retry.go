package supervisor

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// retryLabels are what retry takes off.
var retryLabels = []string{forge.LabelBlocked, forge.LabelCancelled, forge.LabelNeedsHuman}

// retryItem lets an issue or pull request begin anew: it forgets failures, rests, refusals, review rounds and a rejected pull
// request, takes off the labels that said so, and puts backlog back on an open issue. Of an issue it means the open pull
// requests of our agents too. It may be repeated.
func (s *Supervisor) retryItem(_ context.Context, r control.ItemRequest, report *control.Report) error {
	item, err := s.item(r.Ref)
	if err != nil {
		return err
	}
	t, err := s.see(item)
	switch {
	case err != nil:
		return notDone("retry", item, err)
	case t.closed:
		return control.Refuse(http.StatusConflict, "cannot retry %s: it is closed, reopen it", item)
	}
	family := s.family(t)
	if s.cancelling(family) {
		return control.Refuse(http.StatusServiceUnavailable, "cannot retry %s now: it is being cancelled", item)
	}
	// A pull request's attempts are counted on its issue.
	forgotten := family
	if t.chain != item {
		forgotten = append(slices.Clone(family), t.chain)
	}
	report.Subject = item.String()
	grip := s.grip(item)
	err = s.forgive(report, t, forgotten)
	for _, one := range family {
		if err == nil {
			err = s.relabel(report, t, one)
		}
	}
	s.kickAll(grip.letGo())
	s.touchStatus()
	if err != nil {
		return notDone("retry", item, err)
	}
	report.Note = s.worker(family)
	if len(report.Did) == 0 && report.Note == "" {
		report.Note = "nothing was in its way that retry can take away: see disinto why " + r.Ref
	}
	s.log.Info(fmt.Sprintf("[%s] retried by hand", wordsOf(s.currentConfig(), item, "")))
	return nil
}

// forgive journals the retry and says what that forgets.
func (s *Supervisor) forgive(report *control.Report, t *thing, items []forge.Ref) error {
	said := ledger.Record{At: time.Now(), Retry: &ledger.Retry{}}
	for _, item := range items {
		said.Retry.Refs = append(said.Retry.Refs, ledger.Ref(item))
	}
	s.mu.Lock()
	for _, item := range items {
		s.forgottenLocked(report, item, said.At)
	}
	for i := range t.pulls {
		p := &t.pulls[i]
		rejected := p.Closed && !p.Merged && s.config.AgentByLogin(p.Author) != nil && s.config.AgentByLogin(p.ClosedBy) == nil
		if rejected && p.Ended.After(s.history.Chain(t.Ref).Retried) {
			report.Add("rejected pull request %s forgotten", p.Short())
		}
	}
	s.mu.Unlock()
	if err := s.append(said); err != nil {
		return fmt.Errorf("%w: %w", err, forge.ErrUnavailable)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, c := range s.chores { // a merge or mark that failed does not rest any longer either
		if !c.working && slices.Contains(items, k.ref) {
			delete(s.chores, k)
		}
	}
	return nil
}

// itemKinds are the kinds of work on an issue or pull request.
var itemKinds = []agents.Kind{agents.KindIssue, agents.KindReview, agents.KindRework}

// forgottenLocked says what is in the books about an item that a retry takes out of them.
func (s *Supervisor) forgottenLocked(report *control.Report, item forge.Ref, now time.Time) {
	h := s.history
	failures, rests := 0, h.Item((&threads.Merge{Ref: item}).Key()).CoolDown.After(now)
	for _, kind := range itemKinds {
		a := h.Chain(item).Attempt(kind)
		failures += a.Count
		rests = rests || a.Until.After(now) || h.Item(threads.Key{Kind: kind, Ref: item}).CoolDown.After(now)
	}
	switch {
	case failures == 1:
		report.Add("1 failed attempt forgotten")
	case failures > 1:
		report.Add("%d failed attempts forgotten", failures)
	}
	if rests {
		report.Add("cool-down ended")
	}
	if h.Chain(item).HasRefusal() {
		report.Add("refusal forgotten")
	}
	if h.Chain(item).Asked > 0 || s.hasRoundsLocked(item) {
		report.Add("review rounds forgotten")
	}
	if h.Chain(item).CIFixes > 0 {
		report.Add("CI fixes forgotten")
	}
}

// hasRoundsLocked reports whether agents requested changes on a pull request since the last retry.
func (s *Supervisor) hasRoundsLocked(item forge.Ref) bool {
	p := s.facts.Pull(item)
	return p != nil && slices.ContainsFunc(p.Reviews, func(r forge.Review) bool {
		return r.Verdict == forge.ChangesRequested && s.config.AgentByLogin(r.Author) != nil && r.Submitted.After(s.history.Chain(item).Retried)
	})
}

// relabel takes off the labels that keep an item from being worked on, and puts backlog back on an issue.
func (s *Supervisor) relabel(report *control.Report, t *thing, item forge.Ref) error {
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
	if err := s.label(item, add, remove); err != nil {
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

// worker says who works on one of some items; empty when nobody does.
func (s *Supervisor) worker(items []forge.Ref) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range items {
		for _, x := range s.sessions {
			if x.Item.Ref == item {
				return x.Agent + " works on it"
			}
		}
	}
	return ""
}

func (s *Supervisor) currentConfig() *threads.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}
