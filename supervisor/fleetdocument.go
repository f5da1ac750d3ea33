package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// FleetFormat is the version of FleetDocument. A hub refuses a newer one: it would not know what it overlooks.
const FleetFormat = 1

// FleetDocument is fleet-status.json: what a supervisor tells the hub of a fleet about its agents. Fields are added, never
// renamed or removed.
type FleetDocument struct {
	Format    int          `json:"format"`
	Version   string       `json:"version"`    // of the program
	Instance  string       `json:"instance"`   // of the state directory, so that no supervisor counts twice
	UpdatedAt time.Time    `json:"updated_at"` // written anew every FleetPulse, also when nothing changed
	Agents    []FleetAgent `json:"agents"`     // by name
	// Begun are the issues that an agent of this host has a workspace for, such as owner/name#12, sorted. They stay.
	Begun []string `json:"begun"`
}

// FleetExport is the line that `disinto fleet export` prints before the document, so that the hub can tell an old status
// from a clock that is wrong.
type FleetExport struct {
	ExportedAt time.Time `json:"exported_at"` // by the host's clock
}

// FleetAgent is one agent of a FleetDocument.
type FleetAgent struct {
	Agent    string            `json:"agent"`
	Login    string            `json:"login"`
	Role     string            `json:"role"`  // its first
	Roles    []FleetRole       `json:"roles"` // all, in their order
	Thread   string            `json:"thread"`
	Backend  threads.Backend   `json:"backend"`
	Skills   []string          `json:"skills"` // sorted
	State    threads.LoadState `json:"state"`
	StateWhy string            `json:"state_why"` // of an agent that is gated or sick
	// Idle means that it could start something this moment. It is false in the file before the agent is started.
	Idle         bool      `json:"idle"`
	IdleSince    time.Time `json:"idle_since,omitzero"` // left out unless it is idle
	PendingCount int       `json:"pending_count"`       // issues assigned to it that could be worked on
	Active       string    `json:"active"`              // what it works on, such as owner/name#12; empty: nothing
	// LastProgressAt is when a session of it last achieved something; left out where that is not known.
	LastProgressAt time.Time `json:"last_progress_at,omitzero"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// FleetRole is what the hub has to know of a role.
type FleetRole struct {
	Name  string    `json:"name"`
	On    agents.On `json:"on"`
	Label string    `json:"label,omitempty"`
}

// FleetStatus is the answer of GET /v1/fleet: all agents that this supervisor knows of, and what it did about them. Lists
// are never null.
type FleetStatus struct {
	Hub    bool            `json:"hub"`
	NextAt time.Time       `json:"next_at,omitzero"` // of the next look; left out where stealing is off
	Hosts  []HostDocument  `json:"hosts"`            // this one first, then by name
	Cycles []CycleDocument `json:"cycles"`           // newest first, at most CycleLimit
}

// CycleLimit is how many looks a FleetStatus shows: at the usual interval, those of an hour.
const CycleLimit = 12

// HostDocument is one host.
type HostDocument struct {
	Name   string       `json:"name"`  // empty: the one that answers
	SSH    string       `json:"ssh"`   // user@host; empty for the one that answers
	Known  bool         `json:"known"` // its agents take part
	Why    string       `json:"why"`   // of a host that is not known
	ReadAt time.Time    `json:"read_at,omitzero"`
	Agents []FleetAgent `json:"agents"` // by name; none of a host that is not known
}

// CycleDocument is one look for issues that should change hands.
type CycleDocument struct {
	At     time.Time      `json:"at"`
	TookMS int64          `json:"took_ms"`
	DryRun bool           `json:"dry_run"` // nothing moves, whatever Moves says
	Calls  int            `json:"calls"`   // to other hosts
	Idle   []string       `json:"idle"`    // agents; those of another host begin with its name and a slash
	Busy   []string       `json:"busy"`
	Moves  []MoveDocument `json:"moves"`
	Stays  []StayDocument `json:"stays"` // what an idle agent could not take from a busy one
	// Unknown are the hosts that took no part, and why, in lines.
	Unknown []string `json:"unknown"`
}

// MoveDocument is one issue that changes hands.
type MoveDocument struct {
	Repo     string    `json:"repo"`
	Number   int64     `json:"number"`
	Title    string    `json:"title"`
	Priority int       `json:"priority"`
	From     string    `json:"from"`
	To       string    `json:"to"`
	Why      string    `json:"why"`
	State    MoveState `json:"state"`
	StateWhy string    `json:"state_why"` // of one that stays after all, or is tried again

	run string // of the steal
}

// MoveState is how far a move is.
type MoveState string

// The states of a move.
const (
	MovePlanned MoveState = "planned" // of a dry run
	MovePending MoveState = "pending" // it is not clear yet how it ends, and is tried again until it is
	MoveDone    MoveState = "moved"
	MoveStays   MoveState = "stays" // somebody had begun it, or took it
)

// StayDocument is one issue that did not move, and why.
type StayDocument struct {
	Repo   string       `json:"repo"`
	Number int64        `json:"number"`
	Title  string       `json:"title"`
	Agent  string       `json:"agent"` // whose it is
	Code   threads.Code `json:"code"`
	Why    string       `json:"why"`
}
