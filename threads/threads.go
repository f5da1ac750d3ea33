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

// History is what the forge cannot tell: it comes from the journal, and losing it loses no work. Its maps are only
// looked up in, never walked, so their order cannot reach a decision. A nil map is an empty one.
type History struct {
	// Attempts counts the failures of a chain per kind of work. An entry is removed by progress and by retry.
	Attempts map[AttemptKey]Attempts
	// CoolDown holds an item until a time for a reason that burnt no attempt, such as a lost claim.
	CoolDown map[Key]time.Time
	// Warm says what a sticky slot's cache still holds.
	Warm map[SlotKey]Warm
	// Returns is how soon verdicts came on what was written on a thread, by its name.
	Returns map[string]Returns
	// Writers are the agents that ran a writing session on a chain, in the order in which they first did.
	Writers map[forge.Ref][]string
	// CIFixes counts the rework sessions that were started for red CI, per pull request.
	CIFixes map[forge.Ref]int
	// LastRun is when a scheduled role last finished in a repository, whatever the outcome.
	LastRun map[Key]time.Time
	// PassedOver counts how often a slot went to an item standing behind this one.
	PassedOver map[Key]int
	// Touched is when we last wrote to an issue or pull request, or a session on it ended. A fact requested before
	// that is stale and is not acted on.
	Touched map[forge.Ref]time.Time
	// Claimed are the claims that the journal says are ours, by item reference.
	Claimed map[forge.Ref]string
	// IdleSince is when an agent's last session ended, or when it was first seen.
	IdleSince map[string]time.Time
	// Parked says until when a thread starts nothing.
	Parked map[string]Parked
	// Paused is what somebody said pause to, and when: it starts no new session until they say resume.
	Paused map[Pause]time.Time
	// Spent is what agents and threads used today.
	Spent map[Spender]Spent
	// AgentHolds keep one agent from starting, until the time or, with a zero time, until the configuration changes.
	AgentHolds map[string]AgentHold
	// Fruitless counts the sessions of an agent in a row that achieved nothing; see SickAfter.
	Fruitless map[string]int
	// Refused are the words of an agent that refused an item, until the label needs-human is written.
	Refused map[forge.Ref]string
	// Retried is when somebody said retry: a rejected pull request older than that is forgotten, and so are the review
	// rounds of a pull request.
	Retried map[forge.Ref]time.Time
	// Told is the Key of the reason that people were last told of an item, so that each is told once.
	Told map[forge.Ref]string
	// Asked is how many review rounds of a pull request were already put before a person, who sent it back: they do
	// not count again.
	Asked map[forge.Ref]int
}

// AttemptKey is what attempts are counted on.
type AttemptKey struct {
	Chain forge.Ref
	Kind  agents.Kind
	Role  string // scheduled work only
}

// Attempts is a count of failures and when the next try may begin.
type Attempts struct {
	Count int
	Until time.Time
	// Marked says that the label blocked was written after the last attempt. When it is gone from the forge
	// again, a person took it off, and the item starts over.
	Marked bool
}

// SlotKey names a slot of a thread.
type SlotKey struct {
	Thread string
	Slot   int
}

// Warm is the resident of a sticky slot: who ran there last, on what.
type Warm struct {
	Agent string
	Chain forge.Ref
	Left  time.Time // when that session ended; zero when it is not known
}

// Parked is why and until when a thread starts nothing.
type Parked struct {
	Until time.Time
	Why   string
}

// Pause names what is paused: a thread, an agent, or with neither everything.
type Pause struct {
	Thread, Agent string
}

// AgentHold is why and until when an agent starts nothing.
type AgentHold struct {
	Until time.Time
	Code  Code
	Why   string
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

// Key is what a refused merge is held back by, in History.CoolDown.
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

// Key is what a refused mark is held back by, in History.CoolDown.
func (m *Mark) Key() Key { return Key{Kind: agents.KindIssue, Ref: m.Ref} }

// Hold says why an item waits.
type Hold struct {
	Item
	Reason *Reason // never nil; items that wait for the same share one
}
