package threads

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// MaxAttempts is how often an item may fail before a person is asked.
const MaxAttempts = 5

// HalfWritten is how long in-progress without an assignee may be another supervisor's claim on its way: it writes the
// label first.
const HalfWritten = 60 * time.Second

// itemRule says why an item cannot be worked on, whoever would do it. Rules are asked in order and the first objection
// counts, so a rule may rely on what those before it refused.
type itemRule struct {
	name string // the question, as `why` prints it
	why  func(v *view, w *work) (Reason, bool)
}

// The rules of each kind of work. Their order is part of what users see: the first objection is the one shown.
var (
	issueRules = []itemRule{
		{"open", isClosed},
		{"nobody works on it", hasSession},
		{"labelled backlog", notBacklog},
		{"repository read", notRead},
		{"facts newer than our writes", staleFacts},
		{"pull request not merged", merged},
		{"no label in the way", skipLabel},
		{"no person assigned", assignedHuman},
		{"not claimed by another host", claimedElsewhere},
		{"no claim left over", claimLeft},
		{"no open pull request", hasPull},
		{"pull request not rejected", pullRejected},
		{"not in a staged convoy", stagedConvoy},
		{"blockers known", blockersUnknown},
		{"not blocked by itself", blocksItself},
		{"not on a dependency cycle", onCycle},
		{"every blocker closed", blockersOpen},
		{"not refused by an agent", refused},
		{"attempts left", gaveUp},
		{"cool-down over", coolDown},
		{"chain free", chainBusy},
		{"review has room", unreviewed},
	}
	pullRules = []itemRule{
		{"open", isClosed},
		{"nobody works on it", hasSession},
		{"repository read", notRead},
		{"facts newer than our writes", staleFacts},
		{"no label in the way", skipLabel},
		{"no claim left over", claimLeft},
		{"not a draft", draft},
		{"next step is ours", notOurs},
		{"somebody may review", peopleReview},
		{"CI reported", ciPending},
		{"rounds left", tooManyRounds},
		{"not refused by an agent", refused},
		{"attempts left", gaveUp},
		{"cool-down over", coolDown},
		{"chain free", chainBusy},
		{"supervisor merges", mergeManual},
		{"no person objects", humanObjects},
		{"merges cleanly", mergeLate},
	}
	scheduleRules = []itemRule{
		{"nobody works on it", hasSession},
		{"repository read", notRead},
		{"due", notDue},
		{"cool-down over", coolDown},
	}
)

// rulesFor returns the item rules that an item has to pass.
func rulesFor(w *work) []itemRule {
	switch {
	case w.issue != nil:
		return issueRules
	case w.pull != nil:
		return pullRules
	}
	return scheduleRules
}

// objection is the first answer that is no.
func (v *view) objection(w *work) (why Reason, no bool) {
	for _, rule := range rulesFor(w) {
		if why, no := rule.why(v, w); no {
			return why, true
		}
	}
	return Reason{}, false
}

func isClosed(_ *view, w *work) (Reason, bool) {
	closed := w.issue != nil && w.issue.Closed || w.pull != nil && w.pull.Closed
	return Reason{Code: Closed}, closed
}

func notBacklog(_ *view, w *work) (Reason, bool) {
	return Reason{Code: NotBacklog}, !w.has(forge.LabelBacklog)
}

func notRead(v *view, w *work) (Reason, bool) {
	repo, known := v.Facts.Repo(w.Ref.Repo)
	return Reason{Code: NotRead}, !known || repo.AsOf.IsZero()
}

func staleFacts(v *view, w *work) (Reason, bool) {
	repo, _ := v.Facts.Repo(w.Ref.Repo)
	return Reason{Code: StaleFacts}, v.stale(repo, w.Ref, w.Chain)
}

func hasSession(v *view, w *work) (Reason, bool) {
	s := v.byItem[itemKey{w.Ref, w.Item.Role}]
	if s == nil {
		return Reason{}, false
	}
	return Reason{Code: HasSession, Agent: s.Agent, Thread: s.Thread}, true
}

// merged holds an issue whose pull request is merged: the work is done, only the issue is still open. Forgejo closes it
// by the closing keyword, except while the issue has open dependencies, and then it says nothing.
func merged(v *view, w *work) (Reason, bool) {
	for _, p := range v.pulls[w.Ref] {
		if p.Merged && p.Ended.After(w.issue.Reopened) {
			return Reason{Code: MergedNotClosed, Refs: openDependencies(w.issue)}, true
		}
	}
	return Reason{}, false
}

func skipLabel(_ *view, w *work) (Reason, bool) {
	label := forge.SkipLabel(w.labels())
	return Reason{Code: SkipLabel, Note: label}, label != ""
}

func assignedHuman(v *view, w *work) (Reason, bool) {
	for _, login := range w.assignees() {
		if !v.isAgent(login) {
			return Reason{Code: AssignedHuman, Note: login}, true
		}
	}
	return Reason{}, false
}

func claimedElsewhere(v *view, w *work) (Reason, bool) {
	for _, login := range w.assignees() {
		if !v.ours(login) {
			return Reason{Code: ClaimedElsewhere, Note: login}, true
		}
	}
	return Reason{}, false
}

// claimLeft holds an item that carries a claim although no session is on it. reconcile takes the claim off; until the
// forge shows that, the item is not free.
func claimLeft(v *view, w *work) (Reason, bool) {
	if !w.has(forge.LabelInProgress) {
		return Reason{}, false
	}
	agent := v.History.Claimed[w.Ref]
	for _, login := range w.assignees() {
		if a := v.Config.AgentByLogin(login); a != nil {
			agent = a.Name
		} else if v.isAgent(login) {
			return Reason{Code: ClaimedElsewhere, Note: login}, true
		}
	}
	return Reason{Code: ClaimLeft, Agent: agent}, true
}

func hasPull(v *view, w *work) (Reason, bool) {
	var open []forge.Ref
	for _, p := range v.pulls[w.Ref] {
		if !p.Closed {
			open = append(open, p.Ref)
		}
	}
	return Reason{Code: HasPull, Refs: open}, len(open) > 0
}

// pullRejected holds an issue after a person closed our pull request for it: doing the same again would not please them
// more. Reopening the issue, or retry, says to go on.
func pullRejected(v *view, w *work) (Reason, bool) {
	for _, p := range v.pulls[w.Ref] {
		rejected := p.Closed && !p.Merged && v.ours(p.Author) && !v.isAgent(p.ClosedBy)
		if rejected && p.Ended.After(w.issue.Reopened) && p.Ended.After(v.History.Retried[w.Ref]) {
			return Reason{Code: PullRejected, Refs: []forge.Ref{p.Ref}}, true
		}
	}
	return Reason{}, false
}

func stagedConvoy(v *view, w *work) (Reason, bool) {
	convoy, in := v.staged[w.Ref]
	if !in {
		return Reason{}, false
	}
	return Reason{Code: StagedConvoy, Refs: []forge.Ref{convoy}}, true
}

// blockersUnknown also holds every issue while the members of a staged convoy are not read: it may be one of them.
func blockersUnknown(v *view, w *work) (Reason, bool) {
	for _, b := range w.issue.Blockers {
		if b.State == forge.BlockerUnknown && b.Ref != w.Ref {
			return Reason{Code: BlockersUnknown}, true
		}
	}
	if !w.issue.BlockersKnown {
		return Reason{Code: BlockersUnknown}, true
	}
	return Reason{Code: BlockersUnknown, Refs: v.unread}, len(v.unread) > 0
}

func blocksItself(_ *view, w *work) (Reason, bool) {
	for _, b := range w.issue.Blockers {
		if b.Ref == w.Ref {
			return Reason{Code: BlocksItself}, true
		}
	}
	return Reason{}, false
}

func onCycle(v *view, w *work) (Reason, bool) {
	cycle, on := v.cycles[w.Ref]
	return Reason{Code: BlockerCycle, Refs: cycle}, on
}

// blockersOpen fails closed: only a blocker that is known to be closed lets work begin. What a person has to mend is
// named before what only takes time.
func blockersOpen(_ *view, w *work) (Reason, bool) {
	for _, c := range []struct {
		state forge.BlockerState
		code  Code
	}{
		{forge.BlockerMissing, BlockerMissing},
		{forge.BlockerUnreadable, BlockerUnreadable},
		{forge.BlockerCancelled, BlockerCancelled},
		{forge.BlockerOpen, BlockerOpen},
		{forge.BlockerUnmerged, BlockerUnmerged},
	} {
		if refs := blockersIn(w.issue, c.state); len(refs) > 0 {
			return Reason{Code: c.code, Refs: refs}, true
		}
	}
	return Reason{}, false
}

func blockersIn(is *forge.Issue, state forge.BlockerState) []forge.Ref {
	var refs []forge.Ref
	for _, b := range is.Blockers {
		if b.State == state {
			refs = append(refs, b.Ref)
		}
	}
	return refs
}

// openDependencies are why the forge refuses to close an issue. References in its text are not among them: those are
// between people and us, and the forge does not know them.
func openDependencies(is *forge.Issue) []forge.Ref {
	var refs []forge.Ref
	for _, b := range is.Blockers {
		if b.State == forge.BlockerOpen && !b.InBody {
			refs = append(refs, b.Ref)
		}
	}
	return refs
}

func draft(_ *view, w *work) (Reason, bool) { return Reason{Code: Draft}, w.pull.Draft }

// notOurs leaves a person's pull request to its author: we review it, but neither rework nor merge it. Another host's
// agents are that host's business.
func notOurs(v *view, w *work) (Reason, bool) {
	if w.Kind == agents.KindReview || w.stage.own {
		return Reason{}, false
	}
	if v.isAgent(w.pull.Author) {
		return Reason{Code: ClaimedElsewhere, Note: w.pull.Author}, true
	}
	return Reason{Code: NotOurs, Note: w.pull.Author}, true
}

func peopleReview(v *view, w *work) (Reason, bool) {
	return Reason{Code: PeopleReview}, w.Kind == agents.KindReview && !v.hasReviewers()
}

// ciPending gates review and merge on green, or no, CI. Rework does not wait for it.
func ciPending(_ *view, w *work) (Reason, bool) {
	return Reason{Code: CIPending}, w.Kind != agents.KindRework && w.pull.CI == forge.CIPending
}

func tooManyRounds(v *view, w *work) (Reason, bool) {
	switch w.Cause {
	case CauseChanges:
		n := v.rounds(w.pull)
		return Reason{Code: TooManyRounds, Note: string(w.Cause), Count: n}, n > v.Config.Forge.MaxReviewRounds
	case CauseCI:
		n := v.History.CIFixes[w.Ref]
		return Reason{Code: TooManyRounds, Note: string(w.Cause), Count: n}, n >= v.Config.Forge.MaxCIFixes
	}
	return Reason{}, false
}

func refused(v *view, w *work) (Reason, bool) {
	words, did := v.History.Refused[w.Ref]
	return Reason{Code: Refused, Note: words}, did
}

func gaveUp(v *view, w *work) (Reason, bool) {
	a := v.attempts(&w.Item)
	return Reason{Code: GaveUp, Count: a.Count}, a.Count >= MaxAttempts && !a.Marked
}

func coolDown(v *view, w *work) (Reason, bool) {
	until := v.History.CoolDown[w.Key()]
	if a := v.attempts(&w.Item); !a.Marked && a.Until.After(until) {
		until = a.Until
	}
	return Reason{Code: CoolDown, Until: until}, v.later(until)
}

func chainBusy(v *view, w *work) (Reason, bool) {
	s := v.chainBusy(w.Chain, w.Kind)
	if s == nil {
		return Reason{}, false
	}
	return Reason{Code: ChainBusy, Agent: s.Agent, Refs: []forge.Ref{s.Item.Ref}}, true
}

func unreviewed(v *view, w *work) (Reason, bool) {
	n, limit := v.waiting[w.Ref.Repo], v.Config.Forge.MaxUnreviewed
	return Reason{Code: Unreviewed, Count: n, Limit: limit}, n >= limit && v.hasReviewers()
}

func mergeManual(v *view, w *work) (Reason, bool) {
	return Reason{Code: MergeManual}, w.Kind == stageMerge && !v.Config.Forge.MergeAuto
}

func humanObjects(_ *view, w *work) (Reason, bool) {
	return Reason{Code: HumanObjects, Note: w.stage.objector}, w.Kind == stageMerge && w.stage.objector != ""
}

// mergeLate waits until the forge has looked at this head and base. After a merge the base of every other pull request
// has moved, so facts from before our last merge in the repository say nothing.
func mergeLate(v *view, w *work) (Reason, bool) {
	repo, _ := v.Facts.Repo(w.Ref.Repo)
	late := w.pull.Mergeable != forge.MergeClean || v.stale(repo, forge.Ref{Repo: w.Ref.Repo})
	return Reason{Code: MergeLate}, w.Kind == stageMerge && late
}

func notDue(v *view, w *work) (Reason, bool) {
	return Reason{Code: NotDue, Until: w.Since}, v.later(w.Since)
}
