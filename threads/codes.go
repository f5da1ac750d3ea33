package threads

// Code is the stable name of a reason. Programs may rely on it; a reason's text may change.
type Code string

// The codes of items, in rule order.
const (
	NotRead           Code = "not-read"
	RepoOff           Code = "repo-off"
	NoPush            Code = "cannot-push"
	StaleFacts        Code = "stale-facts"
	Closed            Code = "closed"
	NotBacklog        Code = "not-backlog"
	Tracking          Code = "convoy"
	NeedsAnswer       Code = "needs-answer"
	SkipLabel         Code = "label"
	AssignedHuman     Code = "assigned-human"
	ClaimedElsewhere  Code = "claimed-elsewhere"
	ClaimLeft         Code = "claim-left"
	HasPull           Code = "has-pull"
	PeoplesPull       Code = "peoples-pull"
	MergedNotClosed   Code = "merged-not-closed"
	PullRejected      Code = "pr-rejected"
	Duplicate         Code = "duplicate"
	StagedConvoy      Code = "staged-convoy"
	BlockersUnknown   Code = "blockers-unknown"
	TextTooLong       Code = "text-too-long"
	BlocksItself      Code = "blocks-itself"
	BlockerCycle      Code = "blocker-cycle"
	BlockerMissing    Code = "blocker-missing"
	BlockerUnreadable Code = "blocker-unreadable"
	BlockerCancelled  Code = "blocker-cancelled"
	BlockerOpen       Code = "blocked"
	BlockerUnmerged   Code = "blocker-unmerged"
	Superseded        Code = "superseded"
	BaseChanged       Code = "base-changed"
	NoPlan            Code = "plan-not-approved"
	Draft             Code = "draft"
	CIPending         Code = "ci-pending"
	CIStuck           Code = "ci-stuck"
	MainRed           Code = "main-red"
	NotOurs           Code = "not-ours"
	PeopleReview      Code = "people-review"
	Uninvited         Code = "uninvited"
	Unasked           Code = "unasked"
	NotLast           Code = "not-last"
	MergeManual       Code = "merge-manual"
	HumanObjects      Code = "human-objects"
	MergeRefused      Code = "merge-refused"
	MergeAgain        Code = "merge-again"
	MergeLate         Code = "merge-late"
	MergeQueued       Code = "merge-queued"
	TooManyRounds     Code = "too-many-rounds"
	NotDue            Code = "not-due"
	GaveUp            Code = "gave-up"
	CoolDown          Code = "cool-down"
	SetupFailed       Code = "setup-failed"
	Draining          Code = "draining"
	RepoFull          Code = "repo-full"
	EgressRefused     Code = "egress-refused"
	HasSession        Code = "running"
	ChainBusy         Code = "chain-busy"
	ReviewLimit       Code = "review-limit"
	OpenerLimit       Code = "opener-limit"
	Unreviewed        Code = "unreviewed"
	Refused           Code = "refused"
	PushRefused       Code = "push-refused"
	TooBigToReview    Code = "too-big-to-review"
	OverLimit         Code = "over-limit"
	TalkUnread        Code = "comments-unread"
	PlanWaits         Code = "plan-waits"
	PlanUnlabelled    Code = "plan-unlabelled"
	Splitting         Code = "splitting"
	SplitRefused      Code = "split-refused"
)

// The codes of candidates, in rule order. The candidate that passed most rules gives the item its reason.
const (
	NoRole        Code = "no-role"
	NotInRepo     Code = "not-in-repo"
	NoSkill       Code = "no-skill"
	PinnedTo      Code = "pinned"
	NotOnRoute    Code = "not-on-route"
	AuthorFirst   Code = "author-first"
	AskerFirst    Code = "asker-first"
	OnRung        Code = "on-rung"
	OwnWork       Code = "own-work"
	LocalPair     Code = "local-pair"
	NoReviewer    Code = "no-reviewer"
	NoAccess      Code = "no-access"
	AnotherFirst  Code = "another-first"
	NoProgram     Code = "no-program"
	NoToken       Code = "no-token"
	AgentHeld     Code = "agent-held"
	TokenRejected Code = "token-rejected"
	NoAnswer      Code = "no-answer"
	AgentFailing  Code = "agent-failing"
	Paused        Code = "paused"
	ThreadPark    Code = "parked"
	ThreadDown    Code = "backend-down"
	OverBudget    Code = "over-budget"
	OverWindow    Code = "over-window"
	WindowKept    Code = "reserve"
	NoRoom        Code = "no-room"
	NoPlace       Code = "no-place"
	NoNode        Code = "no-node"
	NoNomad       Code = "no-nomad"
	Starting      Code = "starting"
	AgentBusy     Code = "agent-busy"
	NoSlot        Code = "no-slot"
	SlotKept      Code = "slot-kept"
)

// The codes of marks that correspond to no hold.
const (
	ConvoyOver   Code = "convoy-over"
	Answered     Code = "answered"
	PlanApproved Code = "plan-approved"
	PlanReturned Code = "plan-returned"
)

// The codes of issues that an idle agent does not take over from a busy one, in rule order.
const (
	StolenBefore Code = "stolen-before"
	WorkBegun    Code = "begun"
	TooUrgent    Code = "too-urgent"
	NoSkillSaid  Code = "no-skill-said"
	NotBusy      Code = "not-busy"
	StealLimit   Code = "steal-limit"
)

// The codes of stopped sessions and of violations.
const (
	StopClosed     Code = "item-closed"
	StopReassigned Code = "item-reassigned"
	StopLabelled   Code = "item-labelled"
	StopHeadMoved  Code = "head-moved"
	StopCancelled  Code = "item-cancelled"
	StopReleased   Code = "item-released"
	StopOverLimit  Code = "limit-reached"
	StopOverBudget Code = "budget-used"
	RuleBroken     Code = "rule-broken"
)

// Class is the state of an item that a Code holds. Convoys, the simulator and the supervisor classify reasons by the
// table below only.
type Class int

// The classes of codes.
const (
	NoHold  Class = iota + 1 // of a mark, a stop, a sick agent, an issue that is not moved, or a broken rule
	Blocked                  // something else has to happen first
	Ready                    // only a short rest, or room in the review, is missing
	Begun                    // it is being worked on, or is done and not yet closed
	Failed                   // it was rejected or refused, or its attempts or its budget are used up
	Unfit                    // no agent may take it: the codes of candidate rules
	Busy                     // an agent may take it, but none can now: the codes of free rules and of slot rules
)

// Ends is the event that ends a wait.
type Ends int

// The events that end a wait.
const (
	ByItself Ends = iota // time, the work of agents, or our own next write
	ByScan               // the next scan of the forge may end it
	ByPerson             // only a person can end it, who may not know of it
	ByChoice             // only a person can end it, who chose this wait
)

// CodeDoc classifies a code and explains it to people: the text of a Reason and docs/codes.md come from it.
type CodeDoc struct {
	Code  Code
	Class Class
	Ends  Ends
	Means string // the explanation
	Mend  string // the remedy for a person; empty where waiting is right
	// text is the template of Reason.Text, with operands in braces; see Reason.operand. The part after a bar is for a
	// reason that has an agent or references.
	text string
}

// Codes returns the documentation of every code, in rule order. The caller must not change it.
func Codes() []CodeDoc { return codeDocs }

// Class returns the class of a code; 0 for an unknown code.
func (c Code) Class() Class { return docs[c].Class }

// Means explains the code to people; empty for an unknown code.
func (c Code) Means() string { return docs[c].Means }

// Ends returns the event that ends a wait for this reason.
func (c Code) Ends() Ends { return docs[c].Ends }

var docs = func() map[Code]CodeDoc {
	byCode := make(map[Code]CodeDoc, len(codeDocs))
	for _, d := range codeDocs {
		byCode[d.Code] = d
	}
	return byCode
}()

func doc(code Code, class Class, ends Ends, text, means, mend string) CodeDoc {
	return CodeDoc{Code: code, Class: class, Ends: ends, Means: means, Mend: mend, text: text}
}

var codeDocs = []CodeDoc{
	doc(NotRead, Blocked, ByScan, "the forge is not read{last}",
		"the repository has not been read yet, or cannot be read now", "see the forge line of `disinto status`"),
	// The repository is one problem for a person, and not each of its ten thousand issues.
	doc(RepoOff, Blocked, ByChoice, "{note}",
		"its repository is archived or empty, has another name now, or uses Git LFS where `git-lfs` is not installed",
		"do what the reason says; work then continues by itself"),
	doc(NoPush, Blocked, ByChoice, "{note}",
		"no agent can push a branch `fix/issue-N`: there is a branch `fix`, or a rule protects such branches",
		"rename that branch, or let agents push to such branches"),
	doc(StaleFacts, Ready, ByScan, "waits for the next scan of the forge",
		"we wrote to it, and no scan has finished since", ""),
	doc(Closed, Blocked, ByChoice, "closed", "it is closed", "reopen it"),
	doc(NotBacklog, Blocked, ByChoice, "not labelled backlog", "it does not carry the label `backlog`", "add `backlog`"),
	doc(Tracking, Blocked, ByChoice, "a convoy, {count} of {limit} members closed",
		"it is a convoy, which closes when its members are merged", "see `disinto batch status REF` for its members"),
	doc(NeedsAnswer, Blocked, ByPerson,
		"a question waits for {person}: see its comments|{agent} asked {person} at {time}, no answer: {note}",
		"an agent asked a question, and no person has answered it",
		"answer in a comment below it, or remove `needs-answer` to let the agent continue without one"),
	doc(SkipLabel, Blocked, ByChoice, "labelled {note}{why}",
		"a label keeps it from being worked on",
		"remove the label; after `blocked` or `needs-human` settle what its comments ask, then `disinto retry REF`; "+
			"`disinto retry REF` also takes off `cancelled`"),
	doc(AssignedHuman, Blocked, ByChoice, "assigned to {note}", "a person is assigned", "unassign the person"),
	doc(ClaimedElsewhere, Begun, ByChoice, "claimed by {note}",
		"an agent of another host works on it", "if that host is gone: `disinto release REF`"),
	doc(ClaimLeft, Begun, ByScan, "labelled in-progress, and nobody is assigned|claim of {agent} is being released",
		"a claim of ours is left over and being released", ""),
	// A pull request may wait for a person for weeks; "it continues by itself" was wrong then.
	doc(HasPull, Begun, ByItself, "waits for its pull request {refs}", "an open pull request is for it",
		"see what the pull request waits for: `disinto why OTHER`"),
	doc(PeoplesPull, Begun, ByChoice, "waits for {refs} of {note}",
		"a person's open pull request is for it, which we do not continue",
		"merge or close the pull request, or take the issue out of its text"),
	doc(MergedNotClosed, Begun, ByItself, "merged, being closed|merged, cannot close: {refs} open",
		"its pull request is merged, and we close it, which the forge may refuse", "close what it depends on"),
	doc(PullRejected, Failed, ByPerson, "pull request {refs} was rejected",
		"a person closed its pull request unmerged", "`disinto retry REF`, or reopen the issue"),
	doc(Duplicate, Blocked, ByPerson, "an agent filed it again: {refs} has the same title",
		"an agent opened it, and an older issue of an agent with the same title is open, or was closed within the hour "+
			"before",
		"close it; if it is wanted all the same, `disinto retry REF`, or remove `needs-human`"),
	doc(StagedConvoy, Blocked, ByChoice, "convoy {refs} is staged",
		"it is in a staged convoy", "`disinto batch start OTHER`, or remove `staged` from the convoy"),
	doc(BlockersUnknown, Blocked, ByScan, "blockers unknown|members of staged convoy {refs} unknown",
		"its dependencies could not be read yet", ""),
	doc(TextTooLong, Blocked, ByPerson, "its text is too long to be searched for blockers",
		"its text is longer than 64 kB, or names more than 1,000 issues: the rest may name blockers",
		"shorten the text"),
	doc(BlocksItself, Blocked, ByPerson, "depends on itself", "it depends on itself", "edit its dependencies"),
	doc(BlockerCycle, Blocked, ByPerson, "dependency cycle: {circle}",
		"its dependencies form a circle", "remove one dependency of the circle"),
	doc(BlockerMissing, Blocked, ByPerson, "depends on {refs}, which does not exist",
		"it depends on something that does not exist", "correct the number"),
	doc(BlockerUnreadable, Blocked, ByPerson, "depends on {refs}, which we may not read",
		"it depends on something that our account may not read", "give the supervisor's account read access"),
	doc(BlockerCancelled, Blocked, ByPerson, "depends on {refs}, which was cancelled",
		"it depends on cancelled work",
		"remove the dependency, or `disinto retry OTHER`; then remove `needs-human`"),
	doc(BlockerOpen, Blocked, ByItself, "blocked by {refs}", "it depends on open issues", ""),
	doc(BlockerUnmerged, Blocked, ByPerson, "{refs} is closed but not merged",
		"a blocker was closed without a merge, and require_merged is set",
		"remove the dependency, or reopen OTHER, to have it done and merged"),
	doc(Superseded, Blocked, ByPerson, "{refs} is done without it",
		"the issue of our pull request was closed without it: by another pull request or by a person",
		"close the pull request; if it is still wanted, reopen the issue, or merge by hand"),
	doc(BaseChanged, Blocked, ByPerson, "its target is {note}, which we do not merge into",
		"our pull request goes to a branch that is neither the default branch nor named in `bases`",
		"edit its target branch, or name the branch in `bases` of `[forge]`; an approval then has to be repeated"),
	doc(NoPlan, Blocked, ByPerson, "the plan of {refs} is not approved",
		"our pull request is for an issue labelled `plan-first`, whose plan no person has approved",
		"label the issue `plan-approved`, or close the pull request"),
	doc(Draft, Blocked, ByChoice, "draft", "the pull request is a draft", "mark it ready"),
	doc(CIPending, Blocked, ByScan, "waits for CI", "its checks have not all reported", ""),
	doc(CIStuck, Blocked, ByPerson, "its checks have said nothing since {time}",
		"its checks have not all reported, and none has for six hours: a runner may be gone",
		"look at the runners, and start the checks again, or push"),
	doc(MainRed, Blocked, ByScan, "{note}",
		"checks of the branch that it goes to fail: it waits to be merged, or the same checks fail on it and no agent "+
			"reworks it; afterwards the branch is merged into it",
		"repair the branch, or revert the pull request that NEEDS YOU names; `merge_on_red` merges all the same"),
	doc(NotOurs, Blocked, ByChoice, "waits for {note}",
		"it is a person's pull request, and the next step is theirs", "its author continues, merges or closes it"),
	doc(PeopleReview, Blocked, ByPerson, "waits for a person's review",
		"there is no review agent, so people review", "review it, or hire a review agent"),
	doc(Uninvited, Blocked, ByPerson, "not labelled review, and {note} may not write here",
		"its author has no write access, and no person has asked for a review", "label it `review`, or review it"),
	doc(Unasked, Blocked, ByPerson, "{note} opened it outside a session on its issue, and no person asked for it",
		"an agent opened the pull request, and neither worked on its issue in a session nor has scheduled work",
		"label it `review`, review it, or close it"),
	doc(NotLast, Blocked, ByItself, "{refs} was handed in later for the same issue",
		"of the open pull requests of our agents for one issue, agents work only on the one handed in last",
		"close the other one, or label this one `review`"),
	doc(MergeManual, Blocked, ByPerson, "approved, people merge",
		"it is approved, and merge is set to manual", "merge it"),
	doc(HumanObjects, Blocked, ByPerson, "changes requested by {note}",
		"a person requested changes, or an agent that is no longer configured",
		"that person approves, or anyone with write access dismisses the review"),
	doc(MergeRefused, Blocked, ByPerson, "approved, and the forge refuses to merge it: {note}",
		"a rule of the forge or of the branch forbids the merge, or the forge does not get ready for it; it is tried again "+
			"within ten minutes",
		"do what the forge asks for, or merge it; `disinto retry REF` tries now"),
	doc(MergeAgain, Blocked, ByItself, "approved, and not merged yet: {note}; next try {time}",
		"the forge refused the merge for a cause that passes by itself, such as a check for conflicts", ""),
	doc(MergeLate, Blocked, ByScan, "waits for the forge to check mergeability",
		"the forge has not said yet whether it merges cleanly", ""),
	doc(MergeQueued, Blocked, ByItself, "merged after {refs}",
		"another pull request of the repository is merged first", ""),
	doc(TooManyRounds, Failed, ByPerson, "{note} {count} times, needs a person",
		"the limit of rounds, reviews, CI fixes or sessions of an issue and its pull requests is reached",
		"look at it, then `disinto retry REF`; removing `needs-human` resets nothing"),
	doc(NotDue, Blocked, ByItself, "next run {time}", "its next run is later", ""),
	doc(GaveUp, Failed, ByItself, "gave up after {count} attempts", "its attempts are used up", "`disinto retry REF`"),
	doc(CoolDown, Ready, ByItself, "{failed}next try {time}{why}",
		"it failed, or another supervisor claims it, and is tried again later",
		"`disinto retry REF` tries now; if a host that claims it is gone: `disinto release REF`"),
	doc(SetupFailed, Ready, ByItself, "setup fails: {note}; next try {time}",
		"the `setup` of its repository fails at the base commit, which counts as no attempt; people are told after three "+
			"times in a row",
		"see the log of the last session, or `disinto check --setup REPO`; `disinto retry REF` tries now"),
	doc(Draining, Busy, ByChoice, "the factory drains and starts no new work{note}", "a person said `disinto drain`",
		"`disinto resume`"),
	doc(RepoFull, Busy, ByItself, "{repo} has {count} of {limit} sessions",
		"as many sessions run in its repository as `max_sessions` allows there", "raise `max_sessions` of the repository"),
	doc(EgressRefused, Ready, ByItself, "{failed}next try {time}",
		"it failed, and its `egress` kept it from hosts that it tried to reach, perhaps only its CLI's statistics",
		"allow them, if it needs them: `disinto show REF` has the line for factory.toml; `disinto retry REF` tries now"),
	doc(HasSession, Begun, ByItself, "{agent} works on it", "an agent works on it", ""),
	doc(ChainBusy, Begun, ByItself, "waits for {agent} on {refs}",
		"a session on the same issue or pull request has to end first", ""),
	doc(ReviewLimit, Ready, ByItself, "pull requests of {note} had {count} of {limit} reviews an hour{until}",
		"its author's pull requests were reviewed often within the last hour", "raise `max_reviews_per_hour`"),
	doc(OpenerLimit, Ready, ByItself, "what {note} opened had {count} of {limit} sessions today{until}",
		"the issues and pull requests that one agent or stranger opened had many sessions today (UTC)",
		"raise `max_sessions_per_day`, or `disinto retry REF`"),
	doc(Refused, Failed, ByItself, "refused: {note}",
		"an agent refused it", "answer the agent's comment, then remove `needs-human`"),
	doc(PushRefused, Failed, ByItself, "{note}",
		"the forge refuses the agent's finished work, by a rule, a hook or a limit of size; its commits are kept",
		"remove what the forge objects to; then `disinto retry REF` pushes them, without another run of the model"),
	doc(TooBigToReview, Blocked, ByPerson, "not shown whole to its reviewer: {note}",
		"an agent reviewed it and asked for no change, but could not be shown all of it",
		"look at what was not shown, then approve it on the forge; a new head is reviewed by itself, and "+
			"`disinto retry REF` has this one reviewed again"),
	doc(OverLimit, Failed, ByItself, "{note}",
		"a session, or all sessions on the issue together, used as much as the role allows",
		"`disinto retry REF` allows as much again; `max_tokens` and `max_usd` of the role allow more"),
	doc(TalkUnread, Blocked, ByScan, "its comments are not read yet",
		"its labels say that it needs a plan, and the comments below it have not been read yet", ""),
	doc(PlanWaits, Blocked, ByPerson,
		"its plan waits for {person}|the plan of {agent} waits for {person} since {time}",
		"an agent wrote a plan, and no person with write access has approved it or sent it back",
		"`disinto approve REF`, or a thumbs-up to the plan; a comment sends it back"),
	doc(PlanUnlabelled, Ready, ByItself, "to be planned first, for {note}",
		"it needs a plan and is being labelled `plan-first`: a role with `plan = true` may take it, it is labelled "+
			"`split-first`, or an agent had to plan it", ""),
	doc(Splitting, Ready, ByItself, "its split is approved, and the issues are being filed",
		"a person approved the plan by which it is split: its issues are filed, and it becomes their batch", ""),
	doc(SplitRefused, Failed, ByPerson,
		"its split is refused: {note}|it is part of the batch {refs}, and is not split again",
		"the plan by which an agent would split it has a mistake, or it is part of a batch already",
		"change what it says, or remove `split-first`; then `disinto retry REF`"),
	doc(Unreviewed, Ready, ByItself, "{count} of {limit} pull requests wait for review",
		"too many pull requests wait for review", "review some, add a review agent, or raise `max_unreviewed`"),

	doc(NoRole, Unfit, ByPerson, "no agent for {note}", "no agent has a role for it", "hire an agent"),
	doc(NotInRepo, Unfit, ByPerson, "{agent} does not work in {repo}",
		"`agents` or `reviewers` of its repository name other agents", "add an agent with the role to them"),
	doc(NoSkill, Unfit, ByPerson, "no agent has the skill {note}",
		"no agent has all its skills", "add the skill to an agent, or remove the label"),
	doc(PinnedTo, Unfit, ByChoice, "pinned to {agent}",
		"it is assigned to an agent that cannot start it now", "unassign it to let any agent take it"),
	doc(NotOnRoute, Unfit, ByPerson, "{agent} is not on its route",
		"its skill is routed to other agents", "add the agent to `[routes]`"),
	doc(AuthorFirst, Unfit, ByItself, "waits for its author {agent}{until}",
		"it goes to the author of the pull request, who is not free", ""),
	doc(AskerFirst, Unfit, ByItself, "waits for {agent}, who asked or planned,{until}",
		"people answered this agent, which may continue first, for 30 minutes", ""),
	doc(OnRung, Unfit, ByItself, "goes to {agent}, rung {limit} of the ladder (rejected or failed: {count})",
		"it was rejected, or failed, as often as `escalate_after` says, and waits for the next agent of the ladder",
		"`disinto retry REF` starts below the ladder"),
	doc(OwnWork, Unfit, ByPerson, "{agent} wrote it", "no agent reviews its own work", "add a second review agent"),
	doc(LocalPair, Unfit, ByPerson, "local work needs a reviewer that is not local, {agent} is",
		"a local model's work is not reviewed by a local model", "add a review agent on an API thread"),
	doc(NoReviewer, Unfit, ByPerson, "nobody may review the work of {agent}",
		"no review agent may review what this agent writes", "add a review agent on an API thread"),
	doc(NoAccess, Unfit, ByPerson, "{agent} is held in {repo}: {note}{until}",
		"the agent's account lacks a right in this repository, and works in the others",
		"`disinto check --fix` gives it access; or name the agents of the repository in `agents` and `reviewers`"),
	doc(AnotherFirst, Unfit, ByItself, "{agent} failed at it, another agent goes first",
		"the agent failed at it, and another one that is idle goes first, for 30 minutes", ""),
	doc(NoProgram, Busy, ByPerson, "role {note} has no program",
		"the agent's role has no program", "set `cli` or `command` in the role's table"),
	doc(NoToken, Busy, ByPerson, "{agent} has no forge token: set ${note}",
		"the agent has no forge token", "set its token"),
	doc(AgentHeld, Busy, ByItself, "{agent} is held: {note}{until}", "the agent cannot work", "see the reason"),
	doc(TokenRejected, Busy, ByItself, "{agent} is held: {note}{until}",
		"the forge rejects the agent's token or its rights; we try the token again every five minutes",
		"`disinto hire-an-agent AGENT` again, which makes a new token"),
	doc(NoAnswer, Busy, ByItself, "{agent} is held: {note}{until}",
		"the agent's program cannot be started, the model did not answer its last session, or something killed it; "+
			"the next try waits 1 min to 1 h",
		"correct what its words say: sign in, pay, correct `model`, mend its program; then send disinto `HUP`, "+
			"which tries at once, or wait for the next try"),
	doc(AgentFailing, Busy, ByItself, "{note}{until}",
		"three sessions in a row failed, on different items, of an agent, or in the same way of several agents of a thread "+
			"or a role; one item is tried after 5 minutes, then after 10, and so on up to 4 hours, and counts as no attempt",
		"correct what its last words say (`disinto logs AGENT`): sign in, pay, mend its program; then send disinto `HUP`, "+
			"which tries at once, or wait for the next try"),
	doc(Paused, Busy, ByChoice, "{who} is paused{note}", "a person said `disinto pause`", "`disinto resume WHO`"),
	doc(ThreadPark, Busy, ByItself, "{thread} is rate limited{until}: {note}",
		"the provider of the thread's model limits its use", "wait, or name other threads in `fallback`"),
	doc(ThreadDown, Busy, ByItself, "{thread} is backing off{until}: {note}",
		"the thread's backend did not answer, or had no room; then a single session tries it", "see the reason"),
	doc(OverBudget, Busy, ByItself, "{who} has used {note} today{until}",
		"the day's budget of the agent, of its thread or of the repository is used up",
		"raise `budget`, or wait for the next day (UTC)"),
	doc(OverWindow, Busy, ByItself, "{thread} has used {note}{until}",
		"a window of the thread's subscription is used up", "wait, or raise `windows`"),
	doc(WindowKept, Busy, ByItself, "{thread} keeps the rest of its {note}{until}",
		"the rest of a window is kept for reviews and rework, and new issues wait", "wait, or lower `reserve`"),
	doc(NoRoom, Busy, ByItself, "{note}",
		"the machine has too little memory or disk left", "free some, or lower `min_free_memory` or `min_free_disk`"),
	doc(NoPlace, Busy, ByItself, "no node for {agent}: {note}{until}",
		"no machine of the cluster took the agent's last session", "see the reason; free some room on the nodes"),
	doc(NoNode, Busy, ByPerson, "no node can run {agent}: {note}",
		"no machine of the cluster can ever run the agent's sessions, whatever else runs there",
		"see the reason; `node`, `node_pool` and `driver` of the thread, `limits` and `user` of the agent, the nodes"),
	doc(NoNomad, Busy, ByItself, "{note}",
		"Nomad does not answer; its sessions continue, and new ones wait", "start Nomad, or correct `[nomad]`"),
	doc(Starting, Busy, ByItself, "{thread} waits for service {note}{until}",
		"the thread's inference server is one of our services, which cannot be used yet, has failed or was stopped",
		"`disinto logs SERVICE` shows what it printed"),
	doc(AgentBusy, Busy, ByItself, "{busy}{free}|{agent} works on {refs}{free}",
		"every agent that could take it works", ""),
	doc(NoSlot, Busy, ByItself, "no free slot on {thread} ({count} of {limit} taken)",
		"every slot of the thread is taken", ""),
	doc(SlotKept, Busy, ByItself, "a slot of {thread} is kept for {agent}{until}: {refs} is in review",
		"a slot is kept for the agent whose context it holds and whose pull request is in review",
		"`hold` of the thread; 0s keeps none"),

	doc(StolenBefore, NoHold, ByItself, "moved before", "it changed hands once, and stays now", ""),
	doc(WorkBegun, NoHold, ByItself, "{agent} worked on it", "an agent worked on it already", ""),
	doc(TooUrgent, NoHold, ByItself, "priority {count} stays, from {limit} on issues move",
		"it is too urgent to be moved", ""),
	doc(NoSkillSaid, NoHold, ByItself, "priority {count} without a skill label stays, from {limit} on issues move",
		"no skill label says who can do it, and it is too urgent to guess", "label it `skill/...`"),
	doc(NotBusy, NoHold, ByItself, "{agent} has only {count}", "its agent has few enough issues", ""),
	doc(StealLimit, NoHold, ByItself, "{count} issues move already|{agent} takes {count} already",
		"enough moves at a time", ""),
	doc(ConvoyOver, NoHold, ByItself, "all its members are closed",
		"every member of the convoy is closed, and it is being closed", ""),
	doc(Answered, NoHold, ByItself, "answered{by}", "its question was answered, or a person took `needs-answer` off", ""),
	doc(PlanApproved, NoHold, ByItself, "plan approved{by}", "a person gave its plan a thumbs-up", ""),
	doc(PlanReturned, NoHold, ByItself, "plan sent back{by}", "a person wrote a comment below its plan", ""),

	doc(StopClosed, NoHold, ByItself, "closed on the forge", "its issue or pull request was closed", ""),
	doc(StopReassigned, NoHold, ByItself, "assigned to {note}", "it was assigned to another account", ""),
	doc(StopLabelled, NoHold, ByItself, "labelled {note}", "it was labelled `cancelled`", ""),
	doc(StopCancelled, NoHold, ByItself, "cancelled by hand", "a person said `disinto cancel`", "`disinto retry REF`"),
	doc(StopReleased, NoHold, ByItself, "released by hand|released: {agent} was retired",
		"a person said `disinto release`, or retired its agent", ""),
	doc(StopHeadMoved, NoHold, ByItself, "head or base moved during the review",
		"the pull request changed under its reviewer", ""),
	doc(StopOverLimit, NoHold, ByItself, "{note}",
		"the session, or its issue, has used as much as its role allows", "`max_tokens` and `max_usd` of the role"),
	doc(StopOverBudget, NoHold, ByItself, "{who} has used {note} today{until}",
		"the day's budget of the agent, of its thread or of the repository is used up", "`budget`"),
	doc(RuleBroken, NoHold, ByItself, "kept back by a check: {note}",
		"working on it would break a rule that must hold: a mistake of disinto itself", "report it, with the log"),
}
