// Package threads is the scheduler: what an inference thread is, and what it does next.
//
// It is one pure function. Decide takes a Snapshot, which is all that is known at one moment, and returns a Plan:
// what to start, stop, merge and mark, and for every item that waits the reason why. It reads no clock and does
// no I/O; the time is a field of the snapshot. The supervisor's tick, sling, why, status and the simulator all
// call it, so what one of them says is what all of them do.
//
// Rules are ordered lists of functions that say why not: item rules in rules_item.go, candidate rules (an agent on
// a thread) in rules_candidate.go. To add one, write the function, add its line to the list, a row to the table
// test and an invariant to threads/sim.
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
	// Role is set for scheduled work only; other items go to whoever has a fitting role.
	Role string
	// Chain is what warmth, workspace and attempts are keyed by: the issue that a pull request is for, else Ref itself.
	Chain    forge.Ref
	Title    string
	Priority int // 1 to 10, 1 first
	// Since is its age: the issue's creation, or when the review, the rework or the scheduled run fell due.
	Since   time.Time
	HeadSHA string // of a pull request
	Cause   Cause  // of rework
}

// Cause says why a pull request needs rework.
type Cause string

// The causes, in the order in which they are looked for.
const (
	CauseChanges  Cause = "changes requested"
	CauseCI       Cause = "failed CI"
	CauseConflict Cause = "conflict"
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

// SessionState is how far a session is.
type SessionState string

// The states, in their order. A session that ended is no session any more.
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
	Login   string // the agent's account; it is needed longer than the configuration may know the agent
	Role    string
	Item    Item
	State   SessionState
	Attempt int // counted from 1
	Started time.Time
}

// Snapshot is all that Decide knows. The supervisor owns the maps in it and does not change them while Decide runs.
type Snapshot struct {
	Now      time.Time
	Config   *Config
	Facts    forge.Facts
	Sessions []Session // sorted by RunID
	History  History
	// Fleet are the agents of other hosts, sorted by host and name. Only Rebalance looks at them.
	Fleet []Remote
	Room  *Room // nil means that it is not known
}

// Plan is what to do now. Its order is the order in which things were decided.
type Plan struct {
	Starts []Start
	Stops  []Stop
	Merges []Merge
	Marks  []Mark
	// Holds has one entry for each item that waits, in queue order.
	Holds []*Hold
	// Unqueued has one entry for each open issue that nobody put up for work and nobody works on, sorted by reference.
	Unqueued []*Hold
	// NextWake is the earliest moment at which the passing of time alone changes the plan; zero when none does.
	NextWake time.Time
}

// Start is one session to begin.
type Start struct {
	Item    Item
	Thread  string
	Slot    int
	Agent   string
	Role    string
	Attempt int // counted from 1
	// PassedOver is the item that stood ahead by priority and age and could have had this slot; zero when there was none.
	PassedOver Key
}

// Stop ends a session.
type Stop struct {
	RunID  string
	Reason Reason
}

// Merge merges a pull request at exactly this head.
type Merge struct {
	Ref     forge.Ref
	HeadSHA string
}

// Key is what a refused merge is held back by, in its ItemHistory.CoolDown.
func (m *Merge) Key() Key { return Key{Kind: stageMerge, Ref: m.Ref} }

// Action is what a Mark does.
type Action string

// The actions. Each can be repeated without harm.
const (
	ActRelease    Action = "release"     // take our claim off: the agent's assignment first, then in-progress
	ActUnlabel    Action = "unlabel"     // remove in-progress that nobody stands behind
	ActClose      Action = "close"       // close an issue whose pull request is merged
	ActBlocked    Action = "blocked"     // label blocked and say why
	ActNeedsHuman Action = "needs-human" // label needs-human and say why
	ActRoute      Action = "route"       // assign an issue that nobody is assigned to to an agent of its route
	ActTell       Action = "tell"        // say why, and no more
	ActEndConvoy  Action = "end-convoy"  // close a convoy whose members are all merged, and say what it came to
)

// Mark changes labels, state or assignment of an issue or pull request.
type Mark struct {
	Action Action
	Ref    forge.Ref
	// Item is what gave up or was refused; only Key, Chain and Title are meant. Zero for the other actions.
	Item   Item
	Agent  string // whose claim is released, or who gets the issue; empty otherwise
	Reason Reason
}

// Key is what a refused mark is held back by, in its ItemHistory.CoolDown.
func (m *Mark) Key() Key { return Key{Kind: agents.KindIssue, Ref: m.Ref} }

// Hold says why an item waits.
type Hold struct {
	Item
	Reason *Reason // never nil; items that wait for the same share one
}
