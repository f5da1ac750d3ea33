package threads

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Code is the stable name of a reason. Programs may rely on it; the text beside it may change.
type Code string

// Reason is why something is not started, or why a session is stopped. Only the operands that its code uses are set.
type Reason struct {
	Code   Code
	Agent  string
	Thread string
	Refs   []forge.Ref
	Count  int
	Limit  int
	Until  time.Time
	Note   string // a label, a login, or words of the forge or of an agent
}

// The codes of items, in the order in which the rules are asked.
const (
	NotRead           Code = "not-read"
	StaleFacts        Code = "stale-facts"
	Closed            Code = "closed"
	NotBacklog        Code = "not-backlog"
	Tracking          Code = "convoy"
	SkipLabel         Code = "label"
	AssignedHuman     Code = "assigned-human"
	ClaimedElsewhere  Code = "claimed-elsewhere"
	ClaimLeft         Code = "claim-left"
	HasPull           Code = "has-pull"
	MergedNotClosed   Code = "merged-not-closed"
	PullRejected      Code = "pr-rejected"
	StagedConvoy      Code = "staged-convoy"
	BlockersUnknown   Code = "blockers-unknown"
	BlocksItself      Code = "blocks-itself"
	BlockerCycle      Code = "blocker-cycle"
	BlockerMissing    Code = "blocker-missing"
	BlockerUnreadable Code = "blocker-unreadable"
	BlockerCancelled  Code = "blocker-cancelled"
	BlockerOpen       Code = "blocked"
	BlockerUnmerged   Code = "blocker-unmerged"
	Superseded        Code = "superseded"
	Draft             Code = "draft"
	CIPending         Code = "ci-pending"
	NotOurs           Code = "not-ours"
	PeopleReview      Code = "people-review"
	MergeManual       Code = "merge-manual"
	HumanObjects      Code = "human-objects"
	MergeLate         Code = "merge-late"
	MergeQueued       Code = "merge-queued"
	TooManyRounds     Code = "too-many-rounds"
	NotDue            Code = "not-due"
	GaveUp            Code = "gave-up"
	CoolDown          Code = "cool-down"
	HasSession        Code = "running"
	ChainBusy         Code = "chain-busy"
	Unreviewed        Code = "unreviewed"
	Refused           Code = "refused"
)

// The codes of candidates, in the order in which the rules are asked: of several candidates the one that came
// furthest names the item's reason.
const (
	NoRole        Code = "no-role"
	NoSkill       Code = "no-skill"
	PinnedTo      Code = "pinned"
	NotOnRoute    Code = "not-on-route"
	AuthorFirst   Code = "author-first"
	FinisherFirst Code = "finisher-first"
	OwnWork       Code = "own-work"
	LocalPair     Code = "local-pair"
	NoReviewer    Code = "no-reviewer"
	NoProgram     Code = "no-program"
	NoToken       Code = "no-token"
	AgentHeld     Code = "agent-held"
	Paused        Code = "paused"
	ThreadPark    Code = "parked"
	OverBudget    Code = "over-budget"
	NoRoom        Code = "no-room"
	AgentBusy     Code = "agent-busy"
	NoSlot        Code = "no-slot"
	SlotKept      Code = "slot-kept"
)

// The codes of marks that stand for no hold.
const (
	ConvoyOver Code = "convoy-over"
)

// The codes of agents that count as sick, and of issues that an idle agent does not take over from a busy one, in the order
// in which the rules are asked.
const (
	AgentSick    Code = "sick"
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
	RuleBroken     Code = "rule-broken"
)

// CodeDoc explains a code to people: it makes the text of a Reason, and the troubleshooting table of the README.
type CodeDoc struct {
	Code Code
	// Means is what the user reads first.
	Means string
	// Mend is what the user can do; empty where waiting is right.
	Mend string
	text func(Reason) string
}

// Codes documents every code, in rule order.
func Codes() []CodeDoc { return codeDocs }

var codeDocs = []CodeDoc{
	{NotRead, "the repository has not been read yet, or cannot be read now", "see the forge line of `disinto status`", fixed("the forge is not read")},
	{StaleFacts, "we wrote to it, and the next scan has not come back", "", fixed("waits for the next scan of the forge")},
	{Closed, "it is closed", "reopen it", fixed("closed")},
	{NotBacklog, "it does not carry the label `backlog`", "add `backlog`", fixed("not labelled backlog")},
	{Tracking, "it is a convoy, which closes when its members are merged", "", func(r Reason) string {
		return fmt.Sprintf("a convoy, %d of %d members closed", r.Count, r.Limit)
	}},
	{SkipLabel, "a label keeps it from being worked on", "remove the label; after `blocked`, `disinto retry`", noted("labelled %s")},
	{AssignedHuman, "a person is assigned", "unassign the person", noted("assigned to %s")},
	{ClaimedElsewhere, "an agent of another host works on it", "if that host is gone: disinto release REF", noted("claimed by %s")},
	{ClaimLeft, "a claim of ours is left over and being released", "", claimLeftText},
	{HasPull, "an open pull request is for it", "", refs("waits for its pull request %s")},
	{MergedNotClosed, "its pull request is merged, but the forge refuses to close it", "close what it depends on", mergedText},
	{PullRejected, "a person closed its pull request unmerged", "`disinto retry`, or reopen the issue", refs("pull request %s was rejected")},
	{StagedConvoy, "it is in a staged convoy", "`disinto convoy start`, or remove `staged` from the convoy", refs("convoy %s is staged")},
	{BlockersUnknown, "its dependencies could not be read yet", "", blockersUnknownText},
	{BlocksItself, "it depends on itself", "edit its dependencies", fixed("depends on itself")},
	{BlockerCycle, "its dependencies form a circle", "remove one dependency of the circle", func(r Reason) string { return "dependency cycle: " + join(r.Refs, " -> ") }},
	{BlockerMissing, "it depends on something that does not exist", "correct the number", refs("depends on %s, which does not exist")},
	{BlockerUnreadable, "it depends on something that our account may not read", "give the supervisor's account read access", refs("depends on %s, which we may not read")},
	{BlockerCancelled, "it depends on cancelled work", "remove the dependency, or `disinto retry` what was cancelled; then remove `needs-human`", refs("depends on %s, which was cancelled")},
	{BlockerOpen, "it depends on open issues", "", refs("blocked by %s")},
	{BlockerUnmerged, "a blocker was closed without a merge, and require_merged is set", "", refs("%s is closed but not merged")},
	{Superseded, "what our pull request is for is done without it: by another one, or a person closed it", "close the pull request; to have it all the same, reopen the issue, or merge by hand", refs("%s is done without it")},
	{Draft, "the pull request is a draft", "mark it ready", fixed("draft")},
	{CIPending, "its checks have not all reported", "", fixed("waits for CI")},
	{NotOurs, "a person's pull request: what follows is theirs to do", "", noted("waits for %s")},
	{PeopleReview, "there is no review agent, so people review", "review it, or hire a review agent", fixed("waits for a person's review")},
	{MergeManual, "it is approved, and merge is set to manual", "merge it", fixed("approved, people merge")},
	{HumanObjects, "a person requested changes, or an agent that is no longer configured", "that person approves, or anybody who may write dismisses the review", noted("changes requested by %s")},
	{MergeLate, "the forge has not said yet whether it merges cleanly", "", fixed("waits for the forge to check mergeability")},
	{MergeQueued, "another pull request of the repository is merged first", "", refs("merged after %s")},
	{TooManyRounds, "the limit of review rounds or CI fixes is reached", "look at it, then `disinto retry`", func(r Reason) string { return fmt.Sprintf("%s %d times, needs a person", r.Note, r.Count) }},
	{NotDue, "its next run is later", "", until("next run %s")},
	{GaveUp, "its attempts are used up", "`disinto retry`", func(r Reason) string { return fmt.Sprintf("gave up after %d attempts", r.Count) }},
	{CoolDown, "it failed and is tried again later", "`disinto retry` to try now", until("next try %s")},
	{HasSession, "an agent works on it", "", func(r Reason) string { return r.Agent + " works on it" }},
	{ChainBusy, "a session on the same issue or pull request has to end first", "", func(r Reason) string { return "waits for " + r.Agent + " on " + join(r.Refs, ", ") }},
	{Refused, "an agent refused it", "answer the agent's comment, then remove `needs-human`", noted("refused: %s")},
	{Unreviewed, "too many pull requests wait for review", "add a review agent, or raise max_unreviewed", func(r Reason) string {
		return fmt.Sprintf("%d of %d pull requests wait for review", r.Count, r.Limit)
	}},

	{NoRole, "no agent has a role for it", "hire an agent", noted("no agent for %s")},
	{NoSkill, "no agent has all its skills", "add the skill to an agent, or remove the label", noted("no agent with skill %s")},
	{PinnedTo, "it is assigned to an agent that cannot start it now", "unassign it to let any agent take it", func(r Reason) string { return "pinned to " + r.Agent }},
	{NotOnRoute, "its skill is routed to other agents", "add the agent to `[routes]`", func(r Reason) string { return r.Agent + " is not on its route" }},
	{AuthorFirst, "it goes to the author of the pull request, who is not free", "", func(r Reason) string { return "waits for its author " + r.Agent + untilWords(r.Until) }},
	{FinisherFirst, "it goes first to the agent that finished what it depends on, for as long as `affinity_wait` says", "", func(r Reason) string {
		return "waits for " + r.Agent + ", who finished what it depends on," + untilWords(r.Until)
	}},
	{OwnWork, "nobody reviews their own work", "add a second review agent", func(r Reason) string { return r.Agent + " wrote it" }},
	{LocalPair, "a local model's work is not reviewed by a local model", "add a review agent on an API thread", func(r Reason) string { return "local work needs a reviewer that is not local, " + r.Agent + " is" }},
	{NoReviewer, "no review agent may review what this agent writes", "add a review agent on an API thread", func(r Reason) string { return "nobody may review the work of " + r.Agent }},
	{NoProgram, "the agent's role has no program", "set `command` in the role's table", func(r Reason) string { return "role " + r.Note + " has no program" }},
	{NoToken, "the agent has no forge token", "set its token", func(r Reason) string { return r.Agent + " has no forge token: set $" + r.Note }},
	{AgentHeld, "the agent cannot work", "see the reason", func(r Reason) string { return r.Agent + " is held: " + r.Note + untilWords(r.Until) }},
	{Paused, "somebody said `disinto pause`", "`disinto resume`", func(r Reason) string { return cmp.Or(r.Agent, r.Thread, "everything") + " is paused" }},
	{ThreadPark, "the thread is parked", "", func(r Reason) string { return r.Thread + " is parked" + untilWords(r.Until) + ": " + r.Note }},
	{OverBudget, "the day's budget of the agent or of its thread is used up", "raise `budget`, or wait for the next day (UTC)", func(r Reason) string {
		return fmt.Sprintf("%s has used %s today%s", cmp.Or(r.Agent, r.Thread), r.Note, untilWords(r.Until))
	}},
	{NoRoom, "the machine has too little memory or disk left", "free some, or lower `min_free_memory` or `min_free_disk`", noted("%s")},
	{AgentBusy, "every agent that could take it works", "", func(r Reason) string { return r.Agent + " works on " + join(r.Refs, ", ") }},
	{NoSlot, "every slot of the thread is taken", "", func(r Reason) string {
		return fmt.Sprintf("no free slot on %s (%d of %d taken)", r.Thread, r.Count, r.Limit)
	}},
	{SlotKept, "a slot is kept for the agent whose pull request is about to be judged, and whose context it holds", "`hold` of the thread; 0s keeps none", func(r Reason) string {
		return "a slot of " + r.Thread + " is kept for " + r.Agent + untilWords(r.Until) + ": " + join(r.Refs, ", ") + " is in review"
	}},

	{AgentSick, "the agent's sessions achieve nothing: its queue is long because it does not work", "see `disinto logs AGENT`", func(r Reason) string {
		return fmt.Sprintf("%s achieved nothing in %d sessions", r.Agent, r.Count)
	}},
	{StolenBefore, "it changed hands once, and stays now", "", fixed("moved before")},
	{WorkBegun, "an agent worked on it already", "", func(r Reason) string { return r.Agent + " worked on it" }},
	{TooUrgent, "it is too urgent to be moved", "`priority` in `[stealing]`", func(r Reason) string {
		return fmt.Sprintf("priority %d stays, from %d on issues move", r.Count, r.Limit)
	}},
	{NoSkillSaid, "no skill label says who can do it, and there is too much at stake", "label it `skill/...`", func(r Reason) string {
		return fmt.Sprintf("no skill label, and priority %d: without one from %d on", r.Count, r.Limit)
	}},
	{NotBusy, "its agent has few enough issues", "", func(r Reason) string { return fmt.Sprintf("%s has only %d", r.Agent, r.Count) }},
	{StealLimit, "enough moves at a time", "", stealLimitText},
	{ConvoyOver, "every member of the convoy is closed, and it is being closed", "", fixed("all its members are closed")},

	{StopClosed, "its issue or pull request was closed", "", fixed("closed on the forge")},
	{StopReassigned, "it was given to somebody else", "", noted("assigned to %s")},
	{StopLabelled, "it was labelled `cancelled`", "", noted("labelled %s")},
	{StopCancelled, "somebody said `disinto cancel`", "`disinto retry`", fixed("cancelled by hand")},
	{StopReleased, "somebody said `disinto release`", "", fixed("released by hand")},
	{StopHeadMoved, "the pull request changed under its reviewer", "", fixed("the head moved during the review")},
	{RuleBroken, "working on it would break a rule that must hold: a mistake of disinto itself", "report it, with the log", noted("kept back by a check: %s")},
}

// Text is the reason in words, without the item: "blocked by #12".
func (r Reason) Text() string {
	for _, d := range codeDocs {
		if d.Code == r.Code {
			return d.text(r)
		}
	}
	return string(r.Code)
}

// Mend is what a person can do about it; empty where waiting is right.
func (r Reason) Mend() string {
	for _, d := range codeDocs {
		if d.Code == r.Code {
			return d.Mend
		}
	}
	return ""
}

// Key tells apart what was said from what was not: the code and what it is about, without what changes by itself.
func (r *Reason) Key() string {
	refs := slices.Clone(r.Refs)
	slices.SortFunc(refs, forge.Ref.Compare)
	return string(r.Code) + " " + join(slices.Compact(refs), " ")
}

func blockersUnknownText(r Reason) string {
	if len(r.Refs) == 0 {
		return "blockers unknown"
	}
	return "members of staged convoy " + join(r.Refs, ", ") + " unknown"
}

func mergedText(r Reason) string {
	if len(r.Refs) == 0 {
		return "merged, being closed"
	}
	return "merged, cannot close: " + join(r.Refs, ", ") + " open"
}

func claimLeftText(r Reason) string {
	if r.Agent == "" {
		return "labelled in-progress, and nobody is assigned"
	}
	return "claim of " + r.Agent + " is being released"
}

func stealLimitText(r Reason) string {
	if r.Agent == "" {
		return fmt.Sprintf("%d issues move already", r.Count)
	}
	return fmt.Sprintf("%s takes %d already", r.Agent, r.Count)
}

func fixed(s string) func(Reason) string { return func(Reason) string { return s } }
func noted(f string) func(Reason) string {
	return func(r Reason) string { return fmt.Sprintf(f, r.Note) }
}

func refs(f string) func(Reason) string {
	return func(r Reason) string { return fmt.Sprintf(f, join(r.Refs, ", ")) }
}

func until(f string) func(Reason) string {
	return func(r Reason) string { return fmt.Sprintf(f, r.Until.Format(time.RFC3339)) }
}

func untilWords(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " until " + t.Format(time.RFC3339)
}

func join(refs []forge.Ref, sep string) string {
	s := make([]string, len(refs))
	for i, r := range refs {
		s[i] = r.String()
		if r.IsZero() { // the forge says that there is one, and not which
			s[i] = "a hidden issue"
		}
	}
	return strings.Join(s, sep)
}
