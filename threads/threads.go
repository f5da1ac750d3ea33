// Package threads is the scheduler: it defines inference threads and decides what each does next.
//
// Decide is one pure function. It takes a Snapshot, which has everything known at one moment, and returns a Plan:
// what to start, stop, merge and mark, and why each other item waits. It reads no clock and does no I/O; the time is
// a field of the snapshot. The supervisor's tick, sling, why, status and the simulator all call it, so they always
// agree.
//
// Rules are ordered lists of functions that return why not: item rules in rules_item.go, candidate rules (an agent on
// a thread) in rules_candidate.go. To add one, write the function, its line in the list, its code and its row in
// codes.go, and a script in testdata.
package threads

import (
	"cmp"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Item is one piece of work.
type Item struct {
	Kind agents.Kind
	// Ref is the issue, the pull request, or for scheduled work the repository (number 0).
	Ref forge.Ref
	// Role is set for scheduled work only; other items go to any agent with a fitting role.
	Role string
	// Chain is the key of warmth, workspace and attempts: the issue that a pull request is for, else Ref itself.
	Chain    forge.Ref
	Title    string
	Priority int // 1 to 10, 1 first
	// Since is its age: the issue's creation, or when the review, the rework or the scheduled run fell due.
	Since   time.Time
	HeadSHA string // of a pull request
	Base    string // branch that the pull request goes to
	// Seen is when the pull request last changed, by the forge's clock, while it had this head and base.
	Seen time.Time
	// Reviewed is the ID of the newest review of the pull request when the session was claimed. Only newer reviews are
	// the session's.
	Reviewed int64
	Cause    Cause // of rework, of a review in spite of an approval, or of an issue to be planned
	// Comments has the IDs of the comments that the session has to read: our question or plan, and the answers. Sorted.
	Comments []int64
	// Author is the author of a person's pull request that is to be reviewed: its reviews count for that account.
	Author string
	// Opener is the account whose daily limit the session counts for; see Snapshot.OpenerOf. It is set in starts.
	Opener string
}

// Cause says why a pull request or an issue needs work of its kind.
type Cause string

// The causes of rework, in the order of the checks.
const (
	CauseChanges  Cause = "changes requested"
	CauseCI       Cause = "failed CI"
	CauseConflict Cause = "conflict"

	// The causes of a review of a head that a permitted account has approved.
	CauseBase     Cause = "base changed"
	CauseUnproven Cause = "approved outside a review session"

	// CausePlan asks for a plan of an issue, not for its implementation, and CauseSplit for a plan of issues into which it
	// is split.
	CausePlan  Cause = "plan"
	CauseSplit Cause = agents.CauseSplit

	// CauseClosed is not a cause of rework: an agent closed the pull request unmerged, and its issue starts again.
	CauseClosed Cause = "closed by an agent"
)

// Plans reports whether a session writes a plan of either kind, and no code.
func (c Cause) Plans() bool { return c == CausePlan || c == CauseSplit }

// Key identifies an item across scans. It is comparable.
type Key struct {
	Kind agents.Kind
	Ref  forge.Ref
	Role string
}

// Compare orders keys by reference, kind and role.
func (k Key) Compare(other Key) int {
	return cmp.Or(k.Ref.Compare(other.Ref), cmp.Compare(k.Kind, other.Kind), cmp.Compare(k.Role, other.Role))
}

// Key returns the item's identity.
func (i *Item) Key() Key { return Key{i.Kind, i.Ref, i.Role} }

// SessionState is the state of a session.
type SessionState string

// The states, in order. A session that ended is in no snapshot.
const (
	Reserved SessionState = "claiming" // committed by Decide, being claimed on the forge
	Running  SessionState = "running"
	Stopping SessionState = "stopping" // asked to end; the slot is still taken
)

// Session is one run of an agent's program on one item in one slot.
type Session struct {
	RunID   string
	Thread  string
	Slot    int
	Agent   string
	Login   string // the agent's account, even after a reload that dropped the agent
	Role    string
	Item    Item
	State   SessionState
	Attempt int // counted from 1
	Rung    int // of the ladder; see Start
	Started time.Time
	Used    agents.Usage // so far, as its program reports
	// PerSession and PerIssue are the limits of its role when it started.
	PerSession, PerIssue agents.Budget
}

// Snapshot is everything that Decide knows. Decide does not change it, and the caller must not change it until Decide
// has returned: the maps, slices and pointers are the caller's own, not copies.
type Snapshot struct {
	Now time.Time // the only clock; History's times are from it
	// Began is when the factory's first supervisor began. Work by the calendar that never ran waits for its first time
	// after that; if it is zero, such work is due.
	Began time.Time
	// Config is the configuration in force; if it is nil, the plan is empty. Sessions may have agents, roles and threads
	// that it no longer has.
	Config *Config
	// Facts are from the last scans, sorted by reference. A repository's AsOf is the time at which the request for its
	// facts began. Facts from before a write of ours are stale: see History.Touched.
	Facts forge.Facts
	// Sessions are all sessions that hold an agent, a slot and an item, sorted by RunID. A session holds them from the
	// moment its Start is committed, before its claim is on the forge, until its end is journalled and none of its
	// processes is left. If a session is missing here, its work runs twice.
	Sessions []Session
	// History has what the forge does not show, folded from all records up to now. A start counts once its record is on
	// disk. Other records report events that have already happened, and count even while the disk refuses them.
	History History
	// Fleet are the agents of other hosts, sorted by host and name. Only Rebalance uses them.
	Fleet []Remote
	// Typical is the median duration of sessions by kind; 0 where it is unknown. Only reasons mention it.
	Typical map[agents.Kind]time.Duration
	// Caches describes the caches of local threads' servers, by thread, as far as known.
	Caches map[string]ServerCache
	// Room is the free memory and disk. If it is nil, they are unknown and keep nothing from starting.
	Room *Room
	// Rooms has the room of the machines elsewhere that run an agent's sessions, by agent, where it is known.
	Rooms map[string]Room
	// Outages has the configured services that cannot be used now, by name. No other service keeps a session from
	// starting.
	Outages map[string]Outage
}

// Plan says what to do now. Each list is in the order of the decisions. A plan covers the whole factory, and the next
// one replaces it. What the caller does not commit under the lock of the snapshot is dropped, and the next plan has
// it again.
type Plan struct {
	// Starts are sessions to start. To commit one, make it a Reserved session of the next snapshot under the same lock
	// as Decide, so that no other plan gives away its agent, slot or item. Then, without the lock and in this order:
	// journal the start, claim the item on the forge, start the program. If the record of a start cannot be written, the
	// start is undone, and nothing else has happened. A failed claim is journalled as the end of the session. Starts may
	// be committed one by one: none relies on another.
	Starts []Start
	// Stops are running sessions to end. Each becomes Stopping, and keeps its agent and slot until none of its processes
	// is left and its end is journalled. To stop a session twice does no harm.
	Stops []Stop
	// Merges are pull requests to merge, at most one for each repository. The forge must refuse if the head is not
	// HeadSHA or the base not Base. Nothing is journalled: the forge shows the merge. Until the forge has answered, the
	// pull request, its issues and the repository (number 0) count as touched, so that nothing is merged on older facts.
	// A refusal becomes the CoolDown of Merge.Key, in memory only: after a restart the merge is tried again.
	Merges []Merge
	// Marks are writes to issues and pull requests, in any order. The write comes first and can be repeated. Its record
	// (of a release, a label or a comment) follows. Until History has the record, the same mark is planned again, even
	// after a crash between the two. Only the record of ActAnswered comes first, because its write removes the label
	// that shows the answer. ActUnlabel, ActClose, ActRoute, ActPlanFirst and ActEndConvoy have no record: the forge
	// shows them. Touched and CoolDown work as for Merges, under Mark.Key.
	Marks []Mark
	// Holds has one entry for each waiting item, in queue order, for display only.
	Holds []*Hold
	// Unqueued has one entry for each open issue without backlog that no agent works on, sorted by reference, for
	// display only.
	Unqueued []*Hold
	// NextWake is the earliest moment at which time alone changes the plan; zero if it never does. Until then, without
	// new facts or records, a new plan is the same.
	NextWake time.Time
}

// Start is one session to begin.
type Start struct {
	Item    Item
	Thread  string
	Slot    int // of the thread, from 0
	Agent   string
	Role    string // the role in which the agent takes the item
	Attempt int    // counted from 1
	Rung    int    // of a ladder that the chain has reached, counted from 1; 0 is below the ladder, or without one
	// PassedOver is the item that was ahead by priority and age and could have had this slot; zero without one. The
	// record of the start counts it.
	PassedOver Key
}

// session returns the session that the start becomes.
func (s *Start) session() *Session {
	return &Session{
		Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Role: s.Role, Item: s.Item, State: Reserved, Attempt: s.Attempt,
		Rung: s.Rung,
	}
}

// Stop ends a session.
type Stop struct {
	RunID  string
	Reason Reason
}

// Merge merges a pull request at exactly this head, into exactly this branch.
type Merge struct {
	Ref     forge.Ref
	HeadSHA string
	Base    string
}

// Key returns the key of the ItemHistory whose CoolDown holds back a merge that the forge refused.
func (m *Merge) Key() Key { return Key{Kind: stageMerge, Ref: m.Ref} }

// Action is the write that a Mark asks for.
type Action string

// The actions. Each can be repeated without harm.
const (
	ActRelease    Action = "release"     // release our claim: the agent's assignment first, then in-progress
	ActUnlabel    Action = "unlabel"     // remove in-progress from an item without assignee
	ActClose      Action = "close"       // close an issue whose pull request is merged
	ActBlocked    Action = "blocked"     // label blocked and say why
	ActNeedsHuman Action = "needs-human" // label needs-human and say why
	ActRoute      Action = "route"       // assign an issue to an agent of its route, or from one agent to a rung above
	ActAsk        Action = "ask"         // comment an agent's question or plan, and label the item as waiting
	ActAnswered   Action = "answered"    // record the answer, and write the label that it implies
	ActPlanFirst  Action = "plan-first"  // label plan-first
	ActSplit      Action = "split"       // file the issues of an approved split, and make the issue their convoy
	ActTell       Action = "tell"        // comment the reason, and do nothing else
	ActUpdate     Action = "update"      // merge the base into a pull request whose checks failed as the base's did
	ActEndConvoy  Action = "end-convoy"  // close a convoy whose members are all closed, and comment the result
)

// Mark changes labels, state or assignment of an issue or pull request.
type Mark struct {
	Action Action
	Ref    forge.Ref
	Item   Item   // only Key, Chain, Title and Comments are used; empty for actions that need none
	Agent  string // whose claim is released, or that gets the issue; empty for other actions
	From   string // the agent that loses the issue; empty where it is assigned to none
	Reason Reason
}

// Key returns the key of the ItemHistory whose CoolDown holds back a mark that the forge refused.
func (m *Mark) Key() Key { return Key{Kind: agents.KindIssue, Ref: m.Ref} }

// Hold says why an item waits.
type Hold struct {
	Item
	Reason *Reason // never nil; items that wait for the same thing share one
}
