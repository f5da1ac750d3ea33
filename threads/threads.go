// Package threads is the scheduler: it defines inference threads and decides what each does next.
//
// Decide is one pure function. It takes a Snapshot, everything that is known at one moment, and returns a Plan: what
// to start, stop, merge and mark, and for every item that waits the reason. It reads no clock and does no I/O; the
// time is a field of the snapshot. The supervisor's tick, sling, why, status and the simulator all call it, so they
// always agree.
//
// Rules are ordered lists of functions that return why not: item rules in rules_item.go, candidate rules (an agent on
// a thread) in rules_candidate.go. To add one, write the function, its line in the list, its code and its row in
// codes.go, a script in testdata, and an invariant in threads/sim.
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
	// Seen is the last change of the pull request by the forge's clock, when its head and base were these.
	Seen time.Time
	// Reviewed is the id of the newest review that the pull request had when the session was claimed. It and older ones
	// are not the session's.
	Reviewed int64
	Cause    Cause // of rework, of a review that an approval did not spare, and of an issue that is planned
	// Comments are those that the session is about: a question or plan of ours, and what people answered. Sorted.
	Comments []int64
	// Author is set for the review of a person's pull request: its reviews are counted for that account.
	Author string
}

// Cause says why a pull request needs rework.
type Cause string

// The causes, in the order in which they are looked for.
const (
	CauseChanges  Cause = "changes requested"
	CauseCI       Cause = "failed CI"
	CauseConflict Cause = "conflict"

	// The causes of a review although an account that may has approved the head.
	CauseBase     Cause = "base changed"
	CauseUnproven Cause = "approved outside a review session"

	// CausePlan has an issue planned, not implemented.
	CausePlan Cause = "plan"

	// CauseClosed is no cause of rework: an agent closed the pull request unmerged, and its issue is begun anew.
	CauseClosed Cause = "closed by an agent"
)

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

// Key is the item's identity.
func (i *Item) Key() Key { return Key{i.Kind, i.Ref, i.Role} }

// SessionState is the state of a session.
type SessionState string

// The states, in their order. A session that ended is in no snapshot.
const (
	Reserved SessionState = "claiming" // committed by Decide, being claimed on the forge
	Running  SessionState = "running"
	Stopping SessionState = "stopping" // told to end; the slot is still taken
)

// Session is one run of an agent's program on one item in one slot.
type Session struct {
	RunID   string
	Thread  string
	Slot    int
	Agent   string
	Login   string // the agent's account, also after a reload that dropped the agent
	Role    string
	Item    Item
	State   SessionState
	Attempt int // counted from 1
	Rung    int // of the ladder; see Start
	Started time.Time
	Used    agents.Usage // so far, as its program tells
	// PerSession and PerIssue are the limits of its role when it was started.
	PerSession, PerIssue agents.Budget
}

// Snapshot is everything that Decide knows. Decide changes nothing in it, and the caller changes nothing in it until
// Decide returned: the maps, slices and pointers are the caller's own, not copies.
type Snapshot struct {
	Now time.Time // the only clock; History's times are by it
	// Config is the configuration in force; nil when there is none, and then the plan is empty. Sessions may have agents,
	// roles and threads that it no longer has.
	Config *Config
	// Facts are from the last scans, sorted by reference. Each repository has the time at which the request for its
	// facts began (AsOf). Facts from before a write of ours are stale: see History.Touched.
	Facts forge.Facts
	// Sessions are all sessions that hold an agent, a slot and an item, sorted by RunID: from the moment a Start is
	// committed, before its claim is on the forge, until its end is journalled and no process of it is left. Leaving one
	// out runs work twice.
	Sessions []Session
	// History has what the forge does not show, folded from all records up to now: that of a start once it is on disk,
	// those of what already happened even while the disk refuses them.
	History History
	// Fleet are the agents of other hosts, sorted by host and name. Only Rebalance looks at them.
	Fleet []Remote
	// Typical is the median time that sessions of a kind took; 0 where that is not known. Only reasons speak of it.
	Typical map[agents.Kind]time.Duration
	// Caches has what is known of the caches of local threads' servers, by thread.
	Caches map[string]ServerCache
	// Room is the free memory and disk; nil when it is not known, and then it keeps nothing from starting.
	Room *Room
	// Rooms are those of the machines elsewhere that run a thread's sessions, by the thread's name, where they are known.
	Rooms map[string]Room
	// Outages has the services of the configuration that cannot be used now, by name. What is not in it keeps nothing
	// from starting.
	Outages map[string]Outage
}

// Plan says what to do now. Each list is in the order in which things were decided. A plan is made for the whole
// factory and is out of date as soon as another is made, so what is not committed under the lock that the snapshot
// was taken under is dropped: the next plan says it again.
type Plan struct {
	// Starts are sessions to begin. To commit one is to make it a Reserved session of the next snapshot, in the same hold
	// of the lock as Decide, so that no other plan gives its agent, slot or item away. Then, without the lock and in this
	// order: journal the start, claim the item on the forge, start the program.
	// A start whose record cannot be written is given back and nothing else happened. A claim that fails is journalled as
	// the end of the session. Starts may be committed one by one: none relies on another one being carried out.
	Starts []Start
	// Stops are running sessions to end. Each becomes Stopping, and keeps its agent and slot until no process of it is
	// left and its end is journalled. To stop a session twice does no harm.
	Stops []Stop
	// Merges are pull requests to merge, at most one for each repository. The forge must refuse when the head is not
	// HeadSHA or the base not Base. Nothing is journalled: the forge shows the merge. Until the forge answered, the pull
	// request, its issues and the repository (number 0) count as touched, so that nothing is merged on older facts. A
	// refusal becomes the CoolDown of Merge.Key, in memory only: after a restart it is tried again.
	Merges []Merge
	// Marks are writes to issues and pull requests, in any order. The write comes first and can be repeated. Its record
	// (of a release, a label or a comment) follows, and the same mark is planned again until History has it, also after a
	// crash between the two. Only the record of ActAnswered comes first, because the label that it takes off shows the
	// answer. ActUnlabel, ActClose, ActRoute, ActPlanFirst and ActEndConvoy have no record: the forge shows them. Touched
	// and CoolDown are as for Merges, under Mark.Key.
	Marks []Mark
	// Holds has one entry for each item that waits, in the order of the queue. They are for showing; nothing is done.
	Holds []*Hold
	// Unqueued has one entry for each open issue without backlog that no agent works on, sorted by reference. It is for
	// showing.
	Unqueued []*Hold
	// NextWake is the earliest moment at which the passing of time alone changes the plan; zero when none does. A new plan
	// before it, without new facts or records, is the same.
	NextWake time.Time
}

// Acts reports whether the plan does anything.
func (p *Plan) Acts() bool { return len(p.Starts)+len(p.Stops)+len(p.Merges)+len(p.Marks) > 0 }

// Start is one session to begin.
type Start struct {
	Item    Item
	Thread  string
	Slot    int // of the thread, from 0
	Agent   string
	Role    string // the role in which the agent takes the item
	Attempt int    // counted from 1
	Rung    int    // that the chain has reached on a ladder, counted from 1; 0 is below, or on none
	// PassedOver is the item that stood ahead by priority and age and could have had this slot; zero when there was none.
	// The record of the start counts it.
	PassedOver Key
}

// session is the session that the start becomes.
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

// Key is the key of the ItemHistory whose CoolDown holds back a merge that the forge refused.
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
	ActAsk        Action = "ask"         // comment an agent's question or plan, and label that it waits
	ActAnswered   Action = "answered"    // note the answer, and label what it means
	ActPlanFirst  Action = "plan-first"  // label plan-first
	ActTell       Action = "tell"        // say why, and no more
	ActEndConvoy  Action = "end-convoy"  // close a convoy whose members are all closed, and comment the result
)

// Mark changes labels, state or assignment of an issue or pull request.
type Mark struct {
	Action Action
	Ref    forge.Ref
	Item   Item   // that gave up, was refused or answered; only Key, Chain, Title and Comments count, others have none
	Agent  string // the one whose claim is released, or that gets the issue; empty for other actions
	From   string // the one that the issue is taken from; empty where it is assigned to none
	Reason Reason
}

// Key is the key of the ItemHistory whose CoolDown holds back a mark that the forge refused.
func (m *Mark) Key() Key { return Key{Kind: agents.KindIssue, Ref: m.Ref} }

// Hold says why an item waits.
type Hold struct {
	Item
	Reason *Reason // never nil; items that wait for the same share one
}
