package threads

import (
	"cmp"
	"slices"
	"strconv"
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

// The codes of candidates, in the order in which the rules are asked. The candidate that passed most rules names the
// item's reason.
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

// The code of a mark that corresponds to no hold.
const (
	ConvoyOver Code = "convoy-over"
)

// The codes of sick agents, and of issues that an idle agent does not take over from a busy one, in the order in
// which the rules are asked.
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

// Text is the reason in words, without the item: "blocked by #12".
func (r Reason) Text() string {
	doc := docs[r.Code]
	if doc == nil {
		return string(r.Code)
	}
	text, other, found := strings.Cut(doc.text, "|")
	if found && (r.Agent != "" || len(r.Refs) > 0) {
		text = other
	}
	return r.expand(text)
}

// Mend is the remedy for a person; empty where waiting is right.
func (r Reason) Mend() string {
	if doc := docs[r.Code]; doc != nil {
		return doc.Mend
	}
	return ""
}

// expand fills the operands into a text, each named in braces.
func (r *Reason) expand(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		operand, rest, _ := strings.Cut(rest, "}")
		b.WriteString(r.operand(operand))
		text = rest
	}
}

func (r *Reason) operand(name string) string {
	switch name {
	case "agent":
		return r.Agent
	case "thread":
		return r.Thread
	case "who":
		return cmp.Or(r.Agent, r.Thread, "everything")
	case "refs":
		return join(r.Refs, ", ")
	case "circle":
		return join(r.Refs, " -> ")
	case "count":
		return strconv.Itoa(r.Count)
	case "limit":
		return strconv.Itoa(r.Limit)
	case "note":
		return r.Note
	case "time":
		return r.Until.Format(time.RFC3339)
	case "until":
		if r.Until.IsZero() {
			return ""
		}
		return " until " + r.Until.Format(time.RFC3339)
	}
	return "{" + name + "}"
}

// Key identifies the reason among those that were commented: its code and references, without what changes by itself.
func (r *Reason) Key() string {
	refs := slices.Clone(r.Refs)
	slices.SortFunc(refs, forge.Ref.Compare)
	return string(r.Code) + " " + join(slices.Compact(refs), " ")
}

func join(refs []forge.Ref, sep string) string {
	s := make([]string, len(refs))
	for i, r := range refs {
		s[i] = r.String()
		if r.IsZero() { // the forge does not say which one
			s[i] = "a hidden issue"
		}
	}
	return strings.Join(s, sep)
}
