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

// stopRule says why a running session must end; nil when it may go on. The first objection counts.
type stopRule struct {
	name string
	why  func(d *decision, s *Session) *Reason
}

var stopRules = []stopRule{
	{"its item is open", stopClosed},
	{"its head is what it reviews", stopHeadMoved},
	{"its item is not cancelled", stopCancelled},
	{"its item is its agent's", stopTaken},
}

// A spareRule says of a session whose item was closed that this is its own doing: it is then about to end by itself.
type spareRule struct {
	name string
	so   func(d *decision, s *Session) bool
}

var spareRules = []spareRule{
	{"closed by its own merge", ownMerge},
	{"merged while it waits for that", mergeAwaited},
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
	for i := range spareRules {
		if spareRules[i].so(d, s) {
			return nil
		}
	}
	for i := range stopRules {
		if why := stopRules[i].why(d, s); why != nil {
			return why
		}
	}
	return nil
}

// itemOf is the issue or the pull request of a session, as the facts have it. Neither means that it is gone.
func (d *decision) itemOf(s *Session) (*forge.Issue, *forge.Pull) {
	if s.Item.Kind == agents.KindIssue {
		return d.Facts.Issue(s.Item.Ref), nil
	}
	return nil, d.Facts.Pull(s.Item.Ref)
}

func isOpen(is *forge.Issue, p *forge.Pull) bool {
	return is != nil && !is.Closed || p != nil && !p.Closed
}

// ownMerge reports whether an issue was closed by what its session came to. A merge from before its time, or of what
// somebody else did, is no reason to go on.
func ownMerge(d *decision, s *Session) bool {
	is, _ := d.itemOf(s)
	return s.Item.Kind == agents.KindIssue && !isOpen(is, nil) && slices.ContainsFunc(d.pulls[s.Item.Ref], func(p *forge.Pull) bool {
		return p.Merged && p.Ended.After(s.Started) && p.Author == s.Login
	})
}

func mergeAwaited(d *decision, s *Session) bool {
	_, p := d.itemOf(s)
	return p != nil && p.Merged && d.waitsForReview(s)
}

func stopClosed(d *decision, s *Session) *Reason {
	if isOpen(d.itemOf(s)) {
		return nil
	}
	return &Reason{Code: StopClosed}
}

func stopHeadMoved(d *decision, s *Session) *Reason {
	_, p := d.itemOf(s)
	if s.Item.Kind == agents.KindReview && p != nil && p.HeadSHA != s.Item.HeadSHA {
		return &Reason{Code: StopHeadMoved}
	}
	return nil
}

func stopCancelled(d *decision, s *Session) *Reason {
	is, p := d.itemOf(s)
	if is != nil && is.Has(forge.LabelCancelled) || p != nil && p.Has(forge.LabelCancelled) {
		return &Reason{Code: StopLabelled, Note: forge.LabelCancelled}
	}
	return nil
}

// stopTaken ends a session whose item now belongs to somebody else, or to nobody: a person took our agent off.
func stopTaken(d *decision, s *Session) *Reason {
	var assignees []string
	switch is, p := d.itemOf(s); {
	case is != nil:
		assignees = is.Assignees
	case p != nil:
		assignees = p.Assignees
	}
	a := d.Config.Agent(s.Agent)
	if a == nil || slices.Contains(assignees, a.Login) {
		return nil
	}
	if len(assignees) == 0 {
		return &Reason{Code: StopReassigned, Note: "nobody"}
	}
	return &Reason{Code: StopReassigned, Note: assignees[0]}
}

// markRule finds something that is to be written on an open issue or pull request, whoever else writes what; nil when
// there is nothing.
type markRule struct {
	name string
	due  func(d *decision, w *work) *Mark
}

var markRules = []markRule{
	{"a claim that is left over is released", markRelease},
	{"half a claim is taken off", markUnlabel},
	{"a convoy that is over is ended", markConvoy},
	{"an issue that is merged is closed", markClose},
	{"who can mend it is asked", markEnd},
}

// markItem finds what is to be written on an open issue or pull request.
func (d *decision) markItem(w *work) {
	for i := range markRules {
		if m := markRules[i].due(d, w); m != nil {
			d.plan.Marks = append(d.plan.Marks, *m)
		}
	}
}

// leftOver is the claim that no session stands behind.
func (d *decision) leftOver(w *work) *Reason {
	why := claimLeft(d.view, w)
	if why == nil || why.Code != ClaimLeft || hasSession(d.view, w) != nil {
		return nil
	}
	return why
}

func markRelease(d *decision, w *work) *Mark {
	why := d.leftOver(w)
	if why == nil || why.Agent == "" {
		return nil
	}
	return &Mark{Action: ActRelease, Ref: w.Ref, Agent: why.Agent, Reason: *why}
}

func markUnlabel(d *decision, w *work) *Mark {
	why := d.leftOver(w)
	if why == nil || why.Agent != "" || d.later(w.updated().Add(HalfWritten)) {
		return nil
	}
	return &Mark{Action: ActUnlabel, Ref: w.Ref, Reason: *why}
}

func markConvoy(d *decision, w *work) *Mark {
	why := convoyOver(d.view, w)
	if why == nil || d.later(d.History.Item(w.Key()).CoolDown) {
		return nil
	}
	return &Mark{Action: ActEndConvoy, Ref: w.Ref, Item: w.Item, Reason: *why}
}

// markClose also closes an issue with failed attempts: they are no reason to leave it open.
func markClose(d *decision, w *work) *Mark {
	why := merged(d.view, w)
	if why == nil || len(why.Refs) > 0 || d.later(d.History.Item(w.Key()).CoolDown) {
		return nil
	}
	return &Mark{Action: ActClose, Ref: w.Ref, Reason: *why}
}

// endRule says that agents can get no further with an item, and what is to be written then.
type endRule struct {
	name   string
	action Action
	why    func(d *decision, w *work) *Reason
}

var endRules = []endRule{
	{"refused by an agent", ActNeedsHuman, func(d *decision, w *work) *Reason { return refused(d.view, w) }},
	{"out of rounds", ActNeedsHuman, outOfRounds},
	{"out of attempts", ActBlocked, func(d *decision, w *work) *Reason { return gaveUp(d.view, w) }},
	{"waits for what was cancelled", ActNeedsHuman, func(d *decision, w *work) *Reason { return d.news(w, orphaned(d.view, w)) }},
	{"for what is closed", ActTell, unwanted},
	{"waits for itself", ActTell, func(d *decision, w *work) *Reason { return d.news(w, circular(d.view, w)) }},
}

func outOfRounds(d *decision, w *work) *Reason {
	if w.Kind != agents.KindRework || !w.stage.own {
		return nil
	}
	return tooManyRounds(d.view, w)
}

func unwanted(d *decision, w *work) *Reason {
	if w.pull == nil {
		return nil
	}
	return d.news(w, superseded(d.view, w))
}

// news is a reason that people were not told of an item before.
func (d *decision) news(w *work, why *Reason) *Reason {
	if why == nil || d.told(w.Ref, why) {
		return nil
	}
	return why
}

// markEnd asks for a person where agents have come to an end with an item. Where another label keeps everybody off
// it, that can wait. Where the very label is there, its mark was written and never acknowledged: it is asked for
// again until it is, or what led to it would count once more when a person takes the label off.
func markEnd(d *decision, w *work) *Mark {
	if merged(d.view, w) != nil {
		return nil
	}
	for i := range endRules {
		r := &endRules[i]
		why := r.why(d, w)
		if why == nil {
			continue
		}
		if forge.SkipLabel(w.labels()) == "" || w.has(labelOf[r.action]) {
			return &Mark{Action: r.action, Ref: w.Ref, Item: w.Item, Reason: *why}
		}
		return nil
	}
	return nil
}

// labelOf is what an action leaves on the item; there is none for one that only tells.
var labelOf = map[Action]string{ActNeedsHuman: forge.LabelNeedsHuman, ActBlocked: forge.LabelBlocked}
