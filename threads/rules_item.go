package threads

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// MaxAttempts is how often an item may fail before the supervisor labels it blocked, for a person.
const MaxAttempts = 5

// HalfWritten is how long in-progress without an assignee counts as another supervisor's half-written claim: a claim
// writes the label first.
const HalfWritten = 60 * time.Second

// itemRule returns why no agent can work on an item; nil when one can. The first objection counts, so a rule may rely
// on those before it.
type itemRule struct {
	name string // the condition, as `why` prints it
	why  func(v *view, w *work) *Reason
}

// The rules of each kind of work. Users see the first objection, so the order matters.
var (
	issueRules = []itemRule{
		{"open", isClosed},
		{"no agent works on it", hasSession},
		{"labelled backlog", notBacklog},
		{"repository read", notRead},
		{"branches can be pushed", noPush},
		{"facts newer than our writes", staleFacts},
		{"pull request not merged", merged},
		{"no question open", needsAnswer},
		{"no label in the way", skipLabel},
		{"no person assigned", assignedHuman},
		{"not claimed by another host", claimedElsewhere},
		{"no claim left over", claimLeft},
		{"no open pull request", hasPull},
		{"pull request not rejected", pullRejected},
		{"rounds left", roundsLeft},
		{"not filed twice", duplicate},
		{"not in a staged convoy", stagedConvoy},
		{"blockers known", blockersUnknown},
		{"not blocked by itself", blocksItself},
		{"not on a dependency cycle", onCycle},
		{"every blocker closed", blockersOpen},
		{"not refused by an agent", refused},
		{"within the issue's limit", issueLimit},
		{"comments read", talkUnread},
		{"no plan waits for people", planHolds},
		{"attempts left", gaveUp},
		{"back-off over", coolDown},
		{"chain free", chainBusy},
		{"new work may start", draining},
		{"its repository may start work", repoFree},
		{"its opener's sessions left", openerLimit},
		{"review has room", unreviewed},
		{"labelled to be planned", planUnlabelled},
	}
	pullRules = []itemRule{
		{"open", isClosed},
		{"no agent works on it", hasSession},
		{"repository read", notRead},
		{"facts newer than our writes", staleFacts},
		{"no question open", needsAnswer},
		{"no label in the way", skipLabel},
		{"no claim left over", claimLeft},
		{"its commits are not merged", unnoted},
		{"its issue is open", superseded},
		{"goes where we merge", strayBase},
		{"its issue's plan approved", unplannedPull},
		{"not a draft", draft},
		{"next step is ours", notOurs},
		{"a review agent exists", peopleReview},
		{"review asked for", uninvited},
		{"a session handed it in last", unworked},
		{"CI reported", ciPending},
		{"rounds left", roundsLeft},
		{"not too big to review", tooBig},
		{"not refused by an agent", refused},
		{"within the issue's limit", issueLimit},
		{"attempts left", gaveUp},
		{"back-off over", coolDown},
		{"chain free", chainBusy},
		{"its branch is not red", mainRed},
		{"its repository may start work", repoFree},
		{"its author's reviews left", reviewLimit},
		{"its opener's sessions left", openerLimit},
		{"supervisor merges", mergeManual},
		{"no person objects", humanObjects},
		{"not refused by the forge", mergeRefused},
		{"first to be up to date", mergeBehind},
		{"merges cleanly", mergeLate},
	}
	scheduleRules = []itemRule{
		{"no agent works on it", hasSession},
		{"repository read", notRead},
		{"due", notDue},
		{"back-off over", coolDown},
		{"new work may start", draining},
		{"its repository may start work", repoFree},
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

// objection returns the first objection of an item rule; nil when there is none.
func (v *view) objection(w *work) *Reason {
	rules := rulesFor(w)
	for i := range rules {
		if why := rules[i].why(v, w); why != nil {
			return why
		}
	}
	return nil
}

// when returns a reason without operands if it holds, and nil otherwise.
func when(holds bool, code Code) *Reason {
	if holds {
		return &Reason{Code: code}
	}
	return nil
}

func isClosed(_ *view, w *work) *Reason {
	return when(w.issue != nil && w.issue.Closed || w.pull != nil && w.pull.Closed, Closed)
}

// unqueued is shared, because most issues of a large tracker lack backlog.
var unqueued = &Reason{Code: NotBacklog}

func notBacklog(_ *view, w *work) *Reason {
	switch {
	case w.has(forge.LabelBacklog):
		return nil
	case w.has(forge.LabelConvoy):
		return tracking(w.issue)
	}
	return unqueued
}

func notRead(_ *view, w *work) *Reason {
	if w.repo != nil && w.repo.Off != "" {
		return &Reason{Code: RepoOff, Note: w.repo.Off}
	}
	switch {
	case w.repo == nil:
		return &Reason{Code: NotRead}
	case w.repo.AsOf.IsZero():
		return &Reason{Code: NotRead, Until: w.repo.LastRead}
	}
	return nil
}

func staleFacts(v *view, w *work) *Reason {
	return when(w.stale, StaleFacts)
}

func hasSession(_ *view, w *work) *Reason {
	s := w.session()
	if s == nil {
		return nil
	}
	return &Reason{Code: HasSession, Agent: s.Agent, Thread: s.Thread}
}

// merged holds an open issue whose pull request is merged. Forgejo closes the issue by the closing keyword, but not
// while the issue has open dependencies. It does not report that.
func merged(v *view, w *work) *Reason {
	for _, p := range w.pulls {
		if p.Merged && p.Ended.After(w.issue.Reopened) || v.landed(p) {
			return &Reason{Code: MergedNotClosed, Refs: openDependencies(w.issue)}
		}
	}
	return nil
}

// skipLabel adds the cause to a label that we wrote: "labelled needs-human" alone sends a person to the comments.
func skipLabel(v *view, w *work) *Reason {
	labels := w.labels()
	i := slices.IndexFunc(labels, func(l string) bool { // needsAnswer handles the other label
		return l != forge.LabelNeedsAnswer && forge.Skips(l)
	})
	if i < 0 {
		return nil
	}
	switch label := labels[i]; {
	case label == forge.LabelConvoy && w.issue != nil:
		return tracking(w.issue)
	default:
		return &Reason{Code: SkipLabel, Note: label, Why: v.labelledFor(w, label), Refs: v.cancelledBlockers(w.issue)}
	}
}

// labelledFor returns why we wrote a label; empty where a person wrote it. Attempts are counted by chain, so the
// label blocked is recorded with the issue, even where a pull request carries it.
func (v *view) labelledFor(w *work, label string) string {
	for _, ref := range []forge.Ref{w.Ref, w.Chain} {
		if l := v.History.Chain(ref).Labelled; l.Label == label {
			return l.Why
		}
	}
	return ""
}

func assignedHuman(v *view, w *work) *Reason {
	for _, login := range w.assignees() {
		if !v.isAgent(login) {
			return &Reason{Code: AssignedHuman, Note: login}
		}
	}
	return nil
}

func claimedElsewhere(v *view, w *work) *Reason {
	for _, login := range w.assignees() {
		if !v.ours(login) {
			return &Reason{Code: ClaimedElsewhere, Note: login}
		}
	}
	return nil
}

// claimLeft holds an item with a claim of ours and no session. reconcile releases the claim. Until the forge shows
// the release, the item is not free.
func claimLeft(v *view, w *work) *Reason {
	if !w.has(forge.LabelInProgress) {
		return nil
	}
	if by := w.heldBy(); by != "" { // another supervisor's agents may use our accounts
		return &Reason{Code: ClaimedElsewhere, Note: by}
	}
	agent := w.past.Claimed
	for _, login := range w.assignees() {
		switch a := v.Config.AgentByLogin(login); {
		case a != nil && (agent != "" || v.takesItems(a)):
			agent = a.Name
		case a != nil, v.isAgent(login):
			return &Reason{Code: ClaimedElsewhere, Note: login}
		}
	}
	return &Reason{Code: ClaimLeft, Agent: agent}
}

// takesItems reports whether an agent takes issues or pull requests. An agent with scheduled roles only has no claim
// of ours: its program assigned the items to itself, as upstream's pollers do.
func (v *view) takesItems(a *agents.Agent) bool {
	return v.Config.hasRole(a, func(r *agents.Role) bool { return r.On.Items() })
}

// pullRejected holds an issue after a person closed our pull request for it unmerged. Reopening the issue, or a
// retry, asks for another attempt.
func pullRejected(v *view, w *work) *Reason {
	for _, p := range w.pulls {
		rejected := !p.Merged && v.ours(p.Author) && !v.isAgent(p.ClosedBy)
		if rejected && p.Ended.After(w.issue.Reopened) && p.Ended.After(w.past.Retried) {
			return &Reason{Code: PullRejected, Refs: []forge.Ref{p.Ref}}
		}
	}
	return nil
}

// closedAgain holds an issue after agents closed its pull requests unmerged more often than reviewers may request
// changes. Closing a pull request rejects it. Without this rule a reviewer that closes pull requests keeps the issue
// going round for as long as there is money. Reopening the issue resets nothing: agents can do that, too.
func closedAgain(v *view, w *work) *Reason {
	n, last := -w.past.Asked, (*forge.Pull)(nil)
	for _, p := range w.pulls {
		if p.Ended.After(w.past.Retried) && !p.Merged && v.ours(p.Author) && v.isAgent(p.ClosedBy) {
			n, last = n+1, p
		}
	}
	if n <= v.Config.Forge.MaxReviewRounds {
		return nil
	}
	return &Reason{Code: TooManyRounds, Note: string(CauseClosed), Count: n, Refs: []forge.Ref{last.Ref}}
}

func stagedConvoy(v *view, w *work) *Reason {
	convoy, in := v.staged[w.Ref]
	if !in {
		return nil
	}
	return &Reason{Code: StagedConvoy, Refs: []forge.Ref{convoy}}
}

// blockersUnknown has a reason of its own for a text that is too long, because only a person can shorten it. It also
// holds every issue while the members of a staged convoy are not read, because any issue may be a member.
func blockersUnknown(v *view, w *work) *Reason {
	if !w.issue.BlockersKnown {
		return unknown(w.issue)
	}
	for _, b := range w.issue.Blockers {
		if b.State == forge.BlockerUnknown && b.Ref != w.Ref {
			return &Reason{Code: BlockersUnknown}
		}
	}
	if len(v.unread) > 0 {
		return &Reason{Code: BlockersUnknown, Refs: v.unread}
	}
	return nil
}

// unknown returns the reason of an issue whose blockers are not known.
func unknown(is *forge.Issue) *Reason {
	if is.Cut {
		return &Reason{Code: TextTooLong}
	}
	return &Reason{Code: BlockersUnknown}
}

func blocksItself(_ *view, w *work) *Reason {
	return when(slices.ContainsFunc(w.issue.Blockers, func(b forge.Blocker) bool { return b.Ref == w.Ref }), BlocksItself)
}

func onCycle(v *view, w *work) *Reason {
	cycle, on := v.cycles[w.Ref]
	if on {
		return &Reason{Code: BlockerCycle, Refs: cycle}
	}
	return nil
}

// blockersOpen fails closed: only a blocker that is known to be closed lets work start. Blockers that need a person
// are named before those that only take time.
func blockersOpen(v *view, w *work) *Reason {
	if len(w.issue.Blockers) == 0 { // most issues have none; looking for each state took a tenth of a plan's time
		return nil
	}
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
		refs := blockersIn(w.issue, c.state)
		if c.code == BlockerCancelled {
			refs = v.cancelledBlockers(w.issue)
		}
		if len(refs) > 0 {
			return &Reason{Code: c.code, Refs: refs}
		}
	}
	return nil
}

func blockersIn(is *forge.Issue, state forge.BlockerState) []forge.Ref {
	return blockersThat(is, func(b forge.Blocker) bool { return b.State == state })
}

func blockersThat(is *forge.Issue, fit func(forge.Blocker) bool) (refs []forge.Ref) {
	for _, b := range is.Blockers {
		if fit(b) {
			refs = append(refs, b.Ref)
		}
	}
	return refs
}

// openDependencies returns the blockers for which the forge refuses to close an issue. References in the issue's text
// are not among them, because the forge does not know them.
func openDependencies(is *forge.Issue) []forge.Ref {
	return blockersThat(is, func(b forge.Blocker) bool { return b.State == forge.BlockerOpen && !b.InBody })
}

// superseded holds our pull request when all its issues are done without it: another one was merged, or a person
// closed the issue. To rework and merge it would do the work twice, the second time over the first.
func superseded(v *view, w *work) *Reason {
	if !w.stage.own || !v.unwanted(w.pull) {
		return nil
	}
	return &Reason{Code: Superseded, Refs: w.pull.Closes}
}

// unwanted reports whether a pull request is for issues that are all done without it.
func (v *view) unwanted(p *forge.Pull) bool {
	undone := func(ref forge.Ref) bool {
		is := v.Facts.Issue(ref)
		return is == nil || !is.Closed && !slices.ContainsFunc(v.pulls[ref], func(o *forge.Pull) bool {
			return o.Merged && o.Ended.After(is.Reopened)
		})
	}
	return len(p.Closes) > 0 && !slices.ContainsFunc(p.Closes, undone)
}

// strayBase holds our pull request to a branch that the configuration does not name. Approved there, its diff may be
// a few harmless lines; retargeted to the default branch, the same head may bring much more.
func strayBase(_ *view, w *work) *Reason {
	if !w.stage.stray {
		return nil
	}
	return &Reason{Code: BaseChanged, Note: w.pull.Base}
}

func draft(_ *view, w *work) *Reason {
	return when(w.pull.Draft, Draft)
}

// notOurs leaves a person's pull request to its author: we review it, but neither rework nor merge it. The pull
// requests of other hosts' agents belong to those hosts.
func notOurs(v *view, w *work) *Reason {
	if w.Kind == agents.KindReview || w.stage.own || w.pull.Closed { // a closed one has no next step
		return nil
	}
	if v.isAgent(w.pull.Author) {
		return &Reason{Code: ClaimedElsewhere, Note: w.pull.Author}
	}
	return &Reason{Code: NotOurs, Note: w.pull.Author}
}

func peopleReview(v *view, w *work) *Reason {
	return when(w.Kind == agents.KindReview && len(v.reviews) == 0, PeopleReview)
}

func refused(v *view, w *work) *Reason {
	if c := w.past; c.HasRefusal() {
		return &Reason{Code: cmp.Or(c.RefusedAs, Refused), Note: c.Refused}
	}
	return nil
}

func gaveUp(v *view, w *work) *Reason {
	a := v.attempts(w)
	if a.Count >= MaxAttempts && !a.Marked {
		return &Reason{Code: GaveUp, Count: a.Count}
	}
	return nil
}

func coolDown(v *view, w *work) *Reason {
	until := w.memo.CoolDown
	a := v.attempts(w)
	failed := !a.Marked && a.Until.After(until)
	if failed {
		until = a.Until
	}
	switch {
	case !v.later(until):
		return setupRests(v, w)
	case failed:
		return a.rests()
	}
	return &Reason{Code: CoolDown, Until: until, Why: w.memo.CoolWhy}
}

// setupRests holds the issues of a repository whose setup failed, except those that are only planned.
func setupRests(v *view, w *work) *Reason {
	h := v.History.Repo(w.Ref.Repo)
	if h.SetupFails == 0 || w.issue == nil || w.Cause.Plans() || !v.later(h.SetupUntil) {
		return nil
	}
	return &Reason{Code: SetupFailed, Until: h.SetupUntil, Note: h.SetupWhy}
}

func chainBusy(v *view, w *work) *Reason {
	s := v.intruder(w)
	if s == nil {
		return nil
	}
	return &Reason{Code: ChainBusy, Agent: s.Agent, Refs: []forge.Ref{s.Item.Ref}}
}

func unreviewed(v *view, w *work) *Reason {
	n, limit := v.waiting[w.Ref.Repo], v.Config.Forge.MaxUnreviewed
	if n >= limit && !v.mayRepair(w) {
		return &Reason{Code: Unreviewed, Count: n, Limit: limit}
	}
	return nil
}

func notDue(v *view, w *work) *Reason {
	if v.later(w.Since) {
		return &Reason{Code: NotDue, Until: w.Since}
	}
	return nil
}
