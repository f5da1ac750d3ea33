package threads

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// reconcile holds the forge against the running table: sessions whose item went away are stopped, claims without a
// session are released, and labels that we owe are written. It acts only on facts newer than our own writes.
func (d *decision) reconcile() {
	for i := range d.Sessions {
		if why, stop := d.stopReason(&d.Sessions[i]); stop {
			d.plan.Stops = append(d.plan.Stops, Stop{RunID: d.Sessions[i].RunID, Reason: why})
		}
	}
	for i := range d.Facts.Issues {
		if is := &d.Facts.Issues[i]; !is.Closed && d.readable(is.Ref, is.Ref) {
			d.markIssue(is)
		}
	}
	for i := range d.Facts.Pulls {
		p := &d.Facts.Pulls[i]
		if !p.Closed && d.readable(p.Ref, d.stages[i].chain) {
			var w work
			d.fillPull(&w, p, &d.stages[i])
			d.markClaim(&w, p.Updated)
			d.markEnd(&w)
		}
	}
}

// readable reports whether the facts of ref may be acted on.
func (v *view) readable(ref, chain forge.Ref) bool {
	repo, known := v.Facts.Repo(ref.Repo)
	return known && !repo.AsOf.IsZero() && !v.stale(repo, ref, chain)
}

// stopReason says why a session must end. Being told to stop twice does no harm, but it is not told.
func (d *decision) stopReason(s *Session) (Reason, bool) {
	if s.State != Running || s.Item.Kind == agents.KindSchedule {
		return Reason{}, false
	}
	repo, known := d.Facts.Repo(s.Item.Ref.Repo)
	if !known || !repo.AsOf.After(s.Started) || d.stale(repo, s.Item.Ref, s.Item.Chain) {
		return Reason{}, false
	}
	if s.Item.Kind == agents.KindIssue {
		return d.stopIssue(s)
	}
	return d.stopPull(s)
}

func (d *decision) stopIssue(s *Session) (Reason, bool) {
	is := d.Facts.Issue(s.Item.Ref)
	switch {
	case is == nil || is.Closed:
		return Reason{Code: StopClosed}, !d.ownMerge(s)
	case is.Has(forge.LabelCancelled):
		return Reason{Code: StopLabelled, Note: forge.LabelCancelled}, true
	}
	return d.stopTaken(s, is.Assignees)
}

// ownMerge reports whether an issue was closed by what its session came to: a program that waits for its own merge is then
// about to end by itself. A merge from before its time, or of what somebody else did, is no reason to go on.
func (d *decision) ownMerge(s *Session) bool {
	a := d.Config.Agent(s.Agent)
	return slices.ContainsFunc(d.pulls[s.Item.Ref], func(p *forge.Pull) bool {
		return p.Merged && p.Ended.After(s.Started) && (a == nil || p.Author == a.Login)
	})
}

func (d *decision) stopPull(s *Session) (Reason, bool) {
	p := d.Facts.Pull(s.Item.Ref)
	switch {
	case p == nil || p.Closed:
		return Reason{Code: StopClosed}, p == nil || !p.Merged || !d.waitsForReview(s)
	case s.Item.Kind == agents.KindReview && p.HeadSHA != s.Item.HeadSHA:
		return Reason{Code: StopHeadMoved}, true
	case p.Has(forge.LabelCancelled):
		return Reason{Code: StopLabelled, Note: forge.LabelCancelled}, true
	}
	return d.stopTaken(s, p.Assignees)
}

// stopTaken ends a session whose item now belongs to somebody else, or to nobody: a person took our agent off.
func (d *decision) stopTaken(s *Session, assignees []string) (Reason, bool) {
	a := d.Config.Agent(s.Agent)
	if a == nil || slices.Contains(assignees, a.Login) {
		return Reason{}, false
	}
	if len(assignees) == 0 {
		return Reason{Code: StopReassigned, Note: "nobody"}, true
	}
	return Reason{Code: StopReassigned, Note: assignees[0]}, true
}

// markIssue finds what is to be written on an open issue.
func (d *decision) markIssue(is *forge.Issue) {
	var w work
	d.fillIssue(&w, is)
	d.markClaim(&w, is.Updated)
	if why, done := merged(d.view, &w); done {
		if _, refused := coolDown(d.view, &w); len(why.Refs) == 0 && !refused {
			d.mark(Mark{Action: ActClose, Ref: is.Ref, Reason: why})
		}
		return
	}
	d.markEnd(&w)
}

// markClaim releases a claim that no session stands behind.
func (d *decision) markClaim(w *work, updated time.Time) {
	why, left := claimLeft(d.view, w)
	if !left || why.Code != ClaimLeft {
		return
	}
	if _, running := hasSession(d.view, w); running {
		return
	}
	switch {
	case why.Agent != "":
		d.mark(Mark{Action: ActRelease, Ref: w.Ref, Agent: why.Agent, Reason: why})
	case !d.later(updated.Add(HalfWritten)):
		d.mark(Mark{Action: ActUnlabel, Ref: w.Ref, Reason: why})
	}
}

// markEnd asks for a person where agents have come to an end with an item. Where another label keeps everybody off it, that
// can wait. Where the very label is there, its mark was written and never acknowledged: it is asked for again until it
// is, or what led to it would count once more when a person takes the label off.
func (d *decision) markEnd(w *work) {
	action, label, why := d.endOf(w)
	if action != "" && (forge.SkipLabel(w.labels()) == "" || w.has(label)) {
		d.mark(Mark{Action: action, Ref: w.Ref, Item: w.Item, Reason: why})
	}
}

// endOf says what has to be written when agents can get no further with an item; no action means that they can.
func (d *decision) endOf(w *work) (action Action, label string, why Reason) {
	if why, no := refused(d.view, w); no {
		return ActNeedsHuman, forge.LabelNeedsHuman, why
	}
	if w.Kind == agents.KindRework && w.stage.own {
		if why, no := tooManyRounds(d.view, w); no {
			return ActNeedsHuman, forge.LabelNeedsHuman, why
		}
	}
	if why, no := gaveUp(d.view, w); no {
		return ActBlocked, forge.LabelBlocked, why
	}
	return "", "", Reason{}
}

func (d *decision) mark(m Mark) { d.plan.Marks = append(d.plan.Marks, m) }
