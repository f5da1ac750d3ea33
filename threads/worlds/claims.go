package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// claimable is an issue or a pull request, as far as claims need it.
type claimable struct {
	labels, assignees *[]string
	updated           *time.Time
	closed            bool
	pull              bool
}

func (s *server) claimable(ref forge.Ref) (it claimable, found bool) {
	if is := s.issue(ref); is != nil {
		return claimable{&is.Labels, &is.Assignees, &is.Updated, is.Closed, false}, true
	}
	if p := s.pull(ref); p != nil {
		return claimable{&p.Labels, &p.Assignees, &p.Updated, p.Closed, true}, true
	}
	return claimable{}, false
}

// taken reports whether the account cannot claim the item. A person's assignment prevents the claim of an issue, but
// not of a pull request.
func (it claimable) taken(login string) bool {
	foreign := slices.ContainsFunc(*it.assignees, func(l string) bool { return l != login })
	unfit := !it.pull && (foreign || forge.SkipLabel(*it.labels) != "")
	return it.closed || unfit || slices.Contains(*it.labels, forge.LabelInProgress)
}

// claimSteps returns the requests of a claim: the first checks the item and writes the label, the second the
// assignee.
func (s *server) claimSteps(ref forge.Ref, login string) []func() error {
	label := func() error {
		it, found := s.claimable(ref)
		if !found || it.taken(login) {
			return fmt.Errorf("cannot claim %s: %w", ref, forge.ErrTaken)
		}
		*it.labels = sim.With(*it.labels, forge.LabelInProgress)
		s.touch(it.updated)
		return nil
	}
	return []func() error{label, func() error { return s.assign(ref, login, "") }}
}

// releaseSteps returns the requests of a release: the assignee, then the label. The label stays if another host has
// claimed the item meanwhile.
func (s *server) releaseSteps(ref forge.Ref, login string) []func() error {
	unlabel := func() error {
		it, found := s.claimable(ref)
		if found && !slices.ContainsFunc(*it.assignees, s.w.bot) {
			*it.labels = sim.Without(*it.labels, forge.LabelInProgress)
			s.touch(it.updated)
		}
		return nil
	}
	return []func() error{func() error { return s.assign(ref, "", login) }, unlabel}
}

// assign adds and removes an assignee. The forge never refuses that.
func (s *server) assign(ref forge.Ref, add, remove string) error {
	if it, found := s.claimable(ref); found {
		*it.assignees = sim.With(sim.Without(*it.assignees, remove), add)
		s.touch(it.updated)
	}
	return nil
}

// handOver reassigns an issue that waits for one account to another.
func (s *server) handOver(ref forge.Ref, from, to string) error {
	it, found := s.claimable(ref)
	if !found || it.taken(from) || !slices.Contains(*it.assignees, from) {
		return fmt.Errorf("cannot give %s to %s: %w", ref, to, forge.ErrTaken)
	}
	*it.assignees = []string{to}
	s.touch(it.updated)
	return nil
}

// markSteps returns the requests of a mark.
func (s *server) markSteps(m threads.Mark, login string) []func() error {
	label := func(l string) []func() error {
		return []func() error{func() error {
			if is := s.issue(m.Ref); is != nil {
				is.marked, is.freed = s.w.Now, time.Time{}
			}
			if it, found := s.claimable(m.Ref); found {
				*it.labels = sim.With(*it.labels, l)
				s.touch(it.updated)
			}
			return nil
		}}
	}
	switch m.Action {
	case threads.ActRoute:
		return []func() error{func() error { return s.handOver(m.Ref, s.w.logins[m.From], login) }}
	case threads.ActRelease:
		return s.releaseSteps(m.Ref, login)
	case threads.ActUnlabel:
		return s.releaseSteps(m.Ref, "")
	case threads.ActBlocked:
		return label(forge.LabelBlocked)
	case threads.ActNeedsHuman:
		return label(forge.LabelNeedsHuman)
	case threads.ActAsk:
		return s.speak(m)
	case threads.ActAnswered:
		return s.heard(m)
	case threads.ActPlanFirst:
		return []func() error{func() error { s.tag(m.Ref, forge.LabelPlanFirst, ""); return nil }}
	case threads.ActTell:
		return []func() error{func() error { return nil }} // no part of the simulator reads comments
	case threads.ActClose, threads.ActEndConvoy:
		return []func() error{func() error {
			if p := s.pull(m.Ref); p != nil {
				s.end(p, "boss")
				return nil
			}
			return s.close(s.issue(m.Ref))
		}}
	}
	panic("no such action: " + m.Action)
}
