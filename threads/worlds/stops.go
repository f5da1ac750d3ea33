package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// stopsInTime checks that no session continues on closed work, or on a head that is gone, once a scan has returned that
// began after both the change and the session's start.
func stopsInTime(in *inspection) error {
	for i := range in.s.Sessions {
		s := &in.s.Sessions[i]
		asOf, err := in.asOf(s.Item.Ref, s.Item.Chain)
		if err != nil || s.State != threads.Running || s.Item.Kind == agents.KindSchedule || !asOf.After(s.Started) {
			continue
		}
		told := slices.ContainsFunc(in.plan.Stops, func(st threads.Stop) bool { return st.RunID == s.RunID })
		if why := in.overdue(s, asOf); why != "" && !told {
			return fmt.Errorf("%s continues %s %s: %s", s.RunID, s.Item.Kind, s.Item.Ref, why)
		}
	}
	return nil
}

// overdue returns why a session must stop, if every scan since then has shown the reason.
func (in *inspection) overdue(s *threads.Session, then time.Time) string {
	if is := in.forge.issue(s.Item.Ref); is != nil {
		if stood(is.obstacle[issueClosed], then) && !in.forge.mergedBy(s, in.Now) {
			return "it is closed"
		}
	} else if p := in.forge.pull(s.Item.Ref); stood(p.obstacle[pullClosed], then) && !in.forge.mergedBy(s, in.Now) &&
		!(in.s.Facts.Pull(p.Ref) != nil && in.attends(s.Role) && p.Merged) { // the facts are older
		return "it is closed"
	} else if s.Item.Kind == agents.KindReview && p.HeadSHA != s.Item.HeadSHA && !p.moved.After(then) {
		return "its head moved"
	} else if s.Item.Kind == agents.KindReview && p.Base != s.Item.Base && !p.Retargeted.After(then) {
		return "its base moved"
	}
	labels, assignees, open := in.fact(s.Item.Ref)
	a := in.cfg.Agent(s.Agent)
	switch {
	case open && slices.Contains(labels, forge.LabelCancelled):
		return "it is cancelled"
	case open && a != nil && !slices.Contains(assignees, a.Login):
		return "the agent was unassigned"
	}
	return ""
}

// fact returns the labels and assignees of an issue or pull request in the facts.
func (in *inspection) fact(ref forge.Ref) (labels, assignees []string, open bool) {
	if is := in.s.Facts.Issue(ref); is != nil {
		return is.Labels, is.Assignees, !is.Closed
	}
	if p := in.s.Facts.Pull(ref); p != nil {
		return p.Labels, p.Assignees, !p.Closed
	}
	return nil, nil, false
}

// wordKept checks that a label of ours that a person removed returns only after another session, or for a blocker
// that was cancelled since.
func wordKept(in *inspection) error {
	for i := range in.plan.Marks {
		m := &in.plan.Marks[i]
		is := in.forge.issue(m.Ref)
		if is == nil || is.freed.IsZero() || m.Action != threads.ActBlocked && m.Action != threads.ActNeedsHuman ||
			m.Reason.Code == threads.BlockerCancelled {
			continue
		}
		if asOf, err := in.asOf(m.Ref); err == nil && asOf.After(is.freed) {
			return fmt.Errorf("%s %s, %q: a person removed the label at %s, and no session has run since",
				m.Action, m.Ref, m.Reason.Text(), is.freed.Sub(epoch))
		}
	}
	return nil
}
