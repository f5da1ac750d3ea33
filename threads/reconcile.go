package threads

import (
	"cmp"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// reconcile compares the forge with the sessions: it stops sessions whose item is gone, releases claims without a
// session, and plans the marks that are due. It acts only on facts newer than our own writes.
func (d *decision) reconcile() {
	for i := range d.Sessions {
		why := overspent(d.Config, &d.History, &d.Sessions[i], d.Now)
		if why == nil {
			why = d.stopReason(&d.Sessions[i])
		}
		if why != nil {
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

// stopRule returns why a running session must end; nil when it may continue. The first objection counts.
type stopRule struct {
	name string
	why  func(d *decision, s *Session) *Reason
}

var stopRules = []stopRule{
	{"its item is open", stopClosed},
	{"head and base unchanged", stopHeadMoved},
	{"its item is not cancelled", stopCancelled},
	{"assigned to its agent", stopTaken},
}

// spareRule reports whether a session itself closed its item. The session will then end by itself.
type spareRule struct {
	name string
	so   func(d *decision, s *Session) bool
}

var spareRules = []spareRule{
	{"closed by its own merge", ownMerge},
	{"merged while it waits for that", mergeAwaited},
}

// stopReason returns why a running session must end; nil when it may continue.
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

// itemOf returns the issue or the pull request of a session, from the facts. Both are nil when it is gone.
func (d *decision) itemOf(s *Session) (*forge.Issue, *forge.Pull) {
	if s.Item.Kind == agents.KindIssue {
		return d.Facts.Issue(s.Item.Ref), nil
	}
	return nil, d.Facts.Pull(s.Item.Ref)
}

func isOpen(is *forge.Issue, p *forge.Pull) bool {
	return is != nil && !is.Closed || p != nil && !p.Closed
}

// ownMerge reports whether the merge of a session's own pull request closed its issue. Earlier merges and those of
// other authors do not count.
func ownMerge(d *decision, s *Session) bool {
	is, _ := d.itemOf(s)
	own := func(p *forge.Pull) bool { return p.Merged && p.Ended.After(s.Started) && p.Author == s.Login }
	return !isOpen(is, nil) && slices.ContainsFunc(d.pulls[s.Item.Ref], own)
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
	moved := p != nil && (p.HeadSHA != s.Item.HeadSHA || s.Item.Base != "" && p.Base != s.Item.Base)
	if s.Item.Kind == agents.KindReview && moved {
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

// stopTaken ends a session whose item is no longer assigned to its agent, because a person changed the assignment.
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

// markRule returns a write to an open issue or pull request that is due; nil when none is. Rules do not exclude one
// another.
type markRule struct {
	name string
	due  func(d *decision, w *work) *Mark
}

var markRules = []markRule{
	{"a leftover claim is released", markRelease},
	{"a half-written claim is removed", markUnlabel},
	{"a finished convoy is closed", markConvoy},
	{"a merged issue is closed", markClose},
	{"an answer is recorded", markReply},
	{"an issue to be planned is labelled", markPlanFirst},
	{"an approved split is filed", markSplit},
	{"a person is asked", markEnd},
}

// markItem plans the writes to an open issue or pull request that are due.
func (d *decision) markItem(w *work) {
	for i := range markRules {
		if m := markRules[i].due(d, w); m != nil {
			d.plan.Marks = append(d.plan.Marks, *m)
		}
	}
}

// leftOver returns the reason for a claim without a session; nil when there is none.
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

// markClose also closes an issue with failed attempts, and a pull request whose merge the forge does not show.
func markClose(d *decision, w *work) *Mark {
	why := merged(d.view, w)
	if w.pull != nil {
		why = unnoted(d.view, w)
	}
	if why == nil || len(why.Refs) > 0 {
		return nil
	}
	m := &Mark{Action: ActClose, Ref: w.Ref, Reason: *why}
	if d.later(d.History.Item(m.Key()).CoolDown) { // a pull request's review and rework have keys of their own
		return nil
	}
	return m
}

// endRule returns why agents can get no further with an item. action is the write that is due then.
type endRule struct {
	name   string
	action Action
	once   bool // the mark does not change the item, so a reason that was commented before does not count again
	own    bool // the reason follows from how our sessions ended, whatever was written on the forge since
	why    func(v *view, w *work) *Reason
}

var endRules = []endRule{
	{"refused by an agent", ActNeedsHuman, false, true, refused},
	{"out of money", ActNeedsHuman, false, false, outOfMoney},
	{"asked or planned by an agent", ActAsk, false, true, asks},
	{"out of rounds", ActNeedsHuman, true, false, outOfRounds},
	{"out of attempts", ActBlocked, false, true, gaveUp},
	{"split twice", ActNeedsHuman, false, false, splitTwice},
	{"waits for cancelled work", ActNeedsHuman, true, false, orphaned},
	{"filed twice", ActNeedsHuman, false, false, filedTwice},
	{"not worked on, or shown in part", ActTell, true, false, shelved},
	{"waits for itself", ActTell, true, false, circular},
}

func outOfRounds(v *view, w *work) *Reason {
	switch {
	case w.issue != nil && (notBacklog(v, w) != nil || hasPull(v, w) != nil): // the pull request gets the label
		return nil
	case w.pull != nil && (!w.stage.own || v.unwork(w.pull, w.stage) != nil):
		return nil
	case len(w.sessions) > 0 && tooManyRounds(v, w) == nil: // the last session may be all that is needed
		return nil
	}
	return roundsLeft(v, w)
}

// shelved returns why agents leave a pull request alone. Only the first reason counts: one is commented unless it was
// the last one commented, so two in turns would be commented for ever.
func shelved(v *view, w *work) *Reason {
	if w.pull == nil {
		return nil
	}
	return cmp.Or(superseded(v, w), strayBase(v, w), unworked(v, w), tooBig(v, w))
}

// markEnd asks for a person if agents can get no further with an item. It waits while another label keeps agents off.
// If the item already has the mark's own label, the mark's record was lost. The mark is then planned again until it is
// recorded: otherwise the old failures would count once more when a person removes the label.
func markEnd(d *decision, w *work) *Mark {
	if merged(d.view, w) != nil || w.pull != nil && unnoted(d.view, w) != nil {
		return nil
	}
	for i := range endRules {
		r := &endRules[i]
		why := r.why(d.view, w)
		if why == nil || r.once && w.past.Told == why.Key() {
			continue
		}
		if forge.SkipLabel(w.labels()) == "" || w.has(labelOf[r.action]) {
			return &Mark{Action: r.action, Ref: w.Ref, Item: w.Item, Reason: *why}
		}
		return nil
	}
	return nil
}

// LabelBeforeRelease returns the mark whose label keeps agents off an issue or pull request after a session on it has
// ended; nil when there is none. While the claim is on the forge, no other supervisor takes the item. Without this, a
// later plan would set the label about a second after the release: in that second another supervisor once started an
// issue that our agent had just refused. The facts may be older than the session, so only the rules about how it ended
// count.
func LabelBeforeRelease(s Snapshot, item forge.Ref) *Mark {
	if s.Config == nil {
		return nil
	}
	d := newDecision(newView(&s))
	w, err := d.find(item)
	if err != nil || w.issue == nil && w.pull == nil || merged(d.view, w) != nil {
		return nil
	}
	for i := range endRules {
		if r := &endRules[i]; r.own {
			if why := r.why(d.view, w); why != nil {
				return &Mark{Action: r.action, Ref: item, Item: w.Item, Reason: *why}
			}
		}
	}
	return nil
}

// labelOf has the label that an action writes.
var labelOf = map[Action]string{
	ActNeedsHuman: forge.LabelNeedsHuman, ActBlocked: forge.LabelBlocked, ActAsk: forge.LabelNeedsAnswer,
}
