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

// stopsAllowed checks the reason of every stop. A program that waits for its own merge is not stopped when that merge
// closes its issue or pull request.
func stopsAllowed(in *inspection) error {
	for _, st := range in.plan.Stops {
		i := slices.IndexFunc(in.s.Sessions, func(s threads.Session) bool { return s.RunID == st.RunID })
		s := &in.s.Sessions[i]
		if in.spent(s) && s.State == threads.Running {
			continue
		}
		asOf, err := in.asOf(s.Item.Ref, s.Item.Chain)
		labels, assignees, open := in.fact(s.Item.Ref)
		p := in.s.Facts.Pull(s.Item.Ref)
		var ground bool
		switch st.Reason.Code {
		case threads.StopClosed:
			ground = !open && !in.forge.mergedBy(s, asOf)
		case threads.StopReassigned:
			ground = !slices.Contains(assignees, in.cfg.Agent(s.Agent).Login)
		case threads.StopLabelled:
			ground = slices.Contains(labels, st.Reason.Note)
		case threads.StopHeadMoved:
			ground = s.Item.Kind == agents.KindReview && (p.HeadSHA != s.Item.HeadSHA || p.Base != s.Item.Base)
		}
		if err != nil || !asOf.After(s.Started) || s.State != threads.Running || !ground {
			return fmt.Errorf("%s on %s %s: %s (%v)", s.RunID, s.Item.Kind, s.Item.Ref, st.Reason.Text(), err)
		}
	}
	return nil
}

// spent reports whether a session, its issue, its agent or its thread has reached a limit.
func (in *inspection) spent(s *threads.Session) bool {
	i := slices.IndexFunc(in.shell.runs, func(r *run) bool { return r.RunID == s.RunID })
	return in.shell.books.dear(in.shell.runs[i]) != "" || in.broke(s.Agent)
}

// marksDue checks the reason of every mark, and that no mark removes a session's claim.
func marksDue(in *inspection) error {
	for i := range in.plan.Marks {
		m := &in.plan.Marks[i]
		_, err := in.asOf(m.Ref)
		busy := slices.ContainsFunc(in.busy, func(s threads.Session) bool { return s.Item.Ref == m.Ref })
		claims := m.Action == threads.ActRelease || m.Action == threads.ActUnlabel
		if err == nil {
			err = readable(&m.Reason)
		}
		if err != nil || busy && claims || !in.due(m) {
			return fmt.Errorf("%s %s, %q: %v", m.Action, m.Ref, m.Reason.Text(), err)
		}
	}
	return nil
}

func (in *inspection) due(m *threads.Mark) bool {
	labels, assignees, open := in.fact(m.Ref)
	claimed := open && slices.Contains(labels, forge.LabelInProgress) && !slices.ContainsFunc(assignees, in.bot)
	h := held{inspection: in, is: in.s.Facts.Issue(m.Ref), Hold: &threads.Hold{Item: m.Item}}
	switch m.Action {
	case threads.ActRelease:
		return claimed && m.Agent != ""
	case threads.ActUnlabel:
		return claimed && !in.Now.Before(in.written(m.Ref).Add(halfWritten))
	case threads.ActClose:
		if p := in.s.Facts.Pull(m.Ref); p != nil {
			left := func(ref forge.Ref) bool {
				is := in.s.Facts.Issue(ref)
				return is != nil && !is.Closed
			}
			return open && in.landed(p) && !slices.ContainsFunc(p.Closes, left)
		}
		merged := h.ended(func(p *forge.Pull) bool { return p.Merged }) || h.hasLanded()
		return open && merged && !h.kept()
	case threads.ActBlocked:
		a := in.s.History.Chain(m.Item.Chain).Attempt(m.Item.Kind)
		return open && unmarked(labels, forge.LabelBlocked) && a.Count >= maxAttempts && !a.Marked
	case threads.ActNeedsHuman:
		refused := in.s.History.Chain(m.Ref).HasRefusal()
		waits := h.is != nil && m.Reason.Code == threads.BlockerCancelled && in.news(m)
		often := in.tooOften(&m.Item) && (h.is != nil || in.own(in.s.Facts.Pull(m.Ref)))
		return open && unmarked(labels, forge.LabelNeedsHuman) && (refused || waits || often || in.costly(&m.Item))
	case threads.ActTell:
		if m.Reason.Code == threads.Superseded {
			p := in.s.Facts.Pull(m.Ref)
			return open && in.news(m) && p != nil && in.own(p) && in.unwanted(p)
		}
		if m.Reason.Code == threads.BaseChanged {
			p := in.s.Facts.Pull(m.Ref)
			return open && in.news(m) && p != nil && in.stray(p)
		}
		itself := func(b forge.Blocker) bool { return b.Ref == m.Ref }
		self := m.Reason.Code == threads.BlocksItself && slices.ContainsFunc(h.is.Blockers, itself)
		return open && in.news(m) && (self || h.circle(m.Reason.Refs))
	case threads.ActRoute:
		return open && in.fallsBack(m)
	case threads.ActAsk, threads.ActAnswered, threads.ActPlanFirst:
		return open && in.spoken(m, labels)
	case threads.ActEndConvoy:
		over := h.is.BlockersKnown && len(h.is.Blockers) > 0 && len(states(h.is, forge.BlockerClosed)) == len(h.is.Blockers)
		return open && over && slices.Contains(labels, forge.LabelConvoy) && !stagedConvoy(h.is)
	}
	return false
}

// news reports whether people have not been told this before.
func (in *inspection) news(m *threads.Mark) bool {
	return in.s.History.Chain(m.Ref).Told != m.Reason.Key()
}

// unmarked reports whether a label may still be written: the item has no skip label, or only this one, and the factory
// does not know about it.
func unmarked(labels []string, label string) bool {
	return forge.SkipLabel(labels) == "" || slices.Contains(labels, label)
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

// written returns the facts' time of the last change to an issue or pull request.
func (in *inspection) written(ref forge.Ref) time.Time {
	if is := in.s.Facts.Issue(ref); is != nil {
		return is.Updated
	}
	return in.s.Facts.Pull(ref).Updated
}
