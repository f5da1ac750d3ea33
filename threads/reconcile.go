package threads

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// reconcile holds the forge against the running table: sessions whose item went away are stopped, claims without a
// session are released, and labels that we owe are written. It acts only on facts newer than our own writes.
func (d *decision) reconcile() {
	for i := range d.Sessions {
		if why := d.stopReason(&d.Sessions[i]); why != nil {
			d.plan.Stops = append(d.plan.Stops, Stop{RunID: d.Sessions[i].RunID, Reason: *why})
		}
	}
	for i := range d.items {
		w := &d.items[i]
		if w.role == nil && notRead(d.view, w) == nil && staleFacts(d.view, w) == nil {
			d.markItem(w)
		}
	}
}

// stopReason says why a session must end. Being told to stop twice does no harm, but it is not told.
func (d *decision) stopReason(s *Session) *Reason {
	if s.State != Running || s.Item.Kind == agents.KindSchedule {
		return nil
	}
	repo := d.repo(s.Item.Ref.Repo)
	if repo == nil || !repo.AsOf.After(s.Started) || d.stale(repo, s.Item.Ref, s.Item.Chain) {
		return nil
	}
	if s.Item.Kind == agents.KindIssue {
		return d.stopIssue(s)
	}
	return d.stopPull(s)
}

func (d *decision) stopIssue(s *Session) *Reason {
	is := d.Facts.Issue(s.Item.Ref)
	switch {
	case is == nil || is.Closed:
		if d.ownMerge(s) {
			return nil
		}
		return &Reason{Code: StopClosed}
	case is.Has(forge.LabelCancelled):
		return &Reason{Code: StopLabelled, Note: forge.LabelCancelled}
	}
	return d.stopTaken(s, is.Assignees)
}

// ownMerge reports whether an issue was closed by what its session came to: a program that waits for its own merge is then
// about to end by itself. A merge from before its time, or of what somebody else did, is no reason to go on.
func (d *decision) ownMerge(s *Session) bool {
	return slices.ContainsFunc(d.pulls[s.Item.Ref], func(p *forge.Pull) bool {
		return p.Merged && p.Ended.After(s.Started) && p.Author == s.Login
	})
}

func (d *decision) stopPull(s *Session) *Reason {
	p := d.Facts.Pull(s.Item.Ref)
	switch {
	case p != nil && p.Merged && d.waitsForReview(s):
		return nil
	case p == nil || p.Closed:
		return &Reason{Code: StopClosed}
	case s.Item.Kind == agents.KindReview && p.HeadSHA != s.Item.HeadSHA:
		return &Reason{Code: StopHeadMoved}
	case p.Has(forge.LabelCancelled):
		return &Reason{Code: StopLabelled, Note: forge.LabelCancelled}
	}
	return d.stopTaken(s, p.Assignees)
}

// stopTaken ends a session whose item now belongs to somebody else, or to nobody: a person took our agent off.
func (d *decision) stopTaken(s *Session, assignees []string) *Reason {
	a := d.Config.Agent(s.Agent)
	if a == nil || slices.Contains(assignees, a.Login) {
		return nil
	}
	if len(assignees) == 0 {
		return &Reason{Code: StopReassigned, Note: "nobody"}
	}
	return &Reason{Code: StopReassigned, Note: assignees[0]}
}

// markItem finds what is to be written on an open issue or pull request.
func (d *decision) markItem(w *work) {
	d.markClaim(w)
	if why := convoyOver(d.view, w); why != nil && !d.later(d.History.CoolDown[w.Key()]) {
		d.mark(Mark{Action: ActEndConvoy, Ref: w.Ref, Item: w.Item, Reason: *why})
	}
	why := merged(d.view, w)
	switch {
	case why == nil:
		d.markEnd(w)
	case len(why.Refs) == 0 && !d.later(d.History.CoolDown[w.Key()]): // failed attempts are no reason to leave it open
		d.mark(Mark{Action: ActClose, Ref: w.Ref, Reason: *why})
	}
}

// markClaim releases a claim that no session stands behind.
func (d *decision) markClaim(w *work) {
	why := claimLeft(d.view, w)
	if why == nil || why.Code != ClaimLeft || hasSession(d.view, w) != nil {
		return
	}
	switch {
	case why.Agent != "":
		d.mark(Mark{Action: ActRelease, Ref: w.Ref, Agent: why.Agent, Reason: *why})
	case !d.later(w.updated().Add(HalfWritten)):
		d.mark(Mark{Action: ActUnlabel, Ref: w.Ref, Reason: *why})
	}
}

// markEnd asks for a person where agents have come to an end with an item. Where another label keeps everybody off it, that
// can wait. Where the very label is there, its mark was written and never acknowledged: it is asked for again until it
// is, or what led to it would count once more when a person takes the label off.
func (d *decision) markEnd(w *work) {
	action, label, why := d.endOf(w)
	if action != "" && (forge.SkipLabel(w.labels()) == "" || w.has(label)) {
		d.mark(Mark{Action: action, Ref: w.Ref, Item: w.Item, Reason: *why})
	}
}

// endOf says what has to be written when agents can get no further with an item; no action means that they can.
func (d *decision) endOf(w *work) (action Action, label string, why *Reason) {
	if why := refused(d.view, w); why != nil {
		return ActNeedsHuman, forge.LabelNeedsHuman, why
	}
	if w.Kind == agents.KindRework && w.stage.own {
		if why := tooManyRounds(d.view, w); why != nil {
			return ActNeedsHuman, forge.LabelNeedsHuman, why
		}
	}
	if why := gaveUp(d.view, w); why != nil {
		return ActBlocked, forge.LabelBlocked, why
	}
	if why := orphaned(d.view, w); why != nil && !d.told(w.Ref, why) {
		return ActNeedsHuman, forge.LabelNeedsHuman, why
	}
	if why := circular(d.view, w); why != nil && !d.told(w.Ref, why) {
		return ActTell, "", why
	}
	return "", "", nil
}

func (d *decision) mark(m Mark) { d.plan.Marks = append(d.plan.Marks, m) }
