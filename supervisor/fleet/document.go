package fleet

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// Format is the version of Document. A hub refuses a newer one, because it cannot know what it would miss.
const Format = 1

// FileName is the name of the file in each state directory that holds its host's Document.
const FileName = "fleet-status.json"

// MaxExport bounds the file, and what is read of another host's, in bytes. A thousand agents need half of it.
const MaxExport = 1 << 20

// Document is fleet-status.json: a host's report to the hub about its agents. Fields are added, never renamed or
// removed.
type Document struct {
	Format    int       `json:"format"`
	Version   string    `json:"version"`    // of the program
	Instance  string    `json:"instance"`   // the id of the state directory, so that no supervisor counts twice
	UpdatedAt time.Time `json:"updated_at"` // renewed every Pulse, even when nothing has changed
	// Idle means that an agent of the host could start work at once, and that none has a session. The hub does not use
	// the host's Idle, IdleSince and PendingCount, but each agent's.
	Idle         bool      `json:"idle"`
	IdleSince    time.Time `json:"idle_since,omitzero"` // zero unless Idle
	PendingCount int       `json:"pending_count"`       // workable issues that are assigned to the host's agents
	Agents       []Agent   `json:"agents"`              // sorted by name
	// Begun lists the issues, such as owner/name#12, for which an agent of this host has a workspace, sorted. The hub
	// does not move them.
	Begun []string `json:"begun"`
	// Draining means that the host finishes what is begun and starts no new work. Its agents are gated, and what waits for
	// them may move.
	Draining bool `json:"draining,omitempty"`
}

// Sum computes the host's fields from those of its agents.
func (d *Document) Sum() {
	works := false
	d.Idle, d.IdleSince, d.PendingCount = false, time.Time{}, 0
	for i := range d.Agents {
		a := &d.Agents[i]
		works = works || a.Active != ""
		d.PendingCount += a.PendingCount
		if a.Idle {
			d.Idle = true
			d.IdleSince = later(d.IdleSince, a.IdleSince)
		}
	}
	if works {
		d.Idle, d.IdleSince = false, time.Time{}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Export is the line that `disinto fleet export` prints before the Document. With it the hub can distinguish an old
// status from a wrong clock.
type Export struct {
	ExportedAt time.Time `json:"exported_at"` // by the host's clock
}

// Agent is one agent of a Document.
type Agent struct {
	Agent    string            `json:"agent"`
	Login    string            `json:"login"`
	Role     string            `json:"role"`  // the first of Roles
	Roles    []Role            `json:"roles"` // in configured order
	Thread   string            `json:"thread"`
	Backend  threads.Backend   `json:"backend"`
	Skills   []string          `json:"skills"` // sorted
	State    threads.LoadState `json:"state"`
	StateWhy string            `json:"state_why"` // why the agent is gated or sick
	// Idle means that the agent could start work at once. It turns false in the file before the agent's program starts.
	Idle         bool      `json:"idle"`
	IdleSince    time.Time `json:"idle_since,omitzero"` // zero unless Idle
	PendingCount int       `json:"pending_count"`       // workable issues that are assigned to it
	Active       string    `json:"active"`              // the item of its session, such as owner/name#12; or empty
	// LastProgressAt is the time of this agent's last successful session; zero if unknown.
	LastProgressAt time.Time `json:"last_progress_at,omitzero"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// Role is the part of a role that the hub needs.
type Role struct {
	Name  string    `json:"name"`
	On    agents.On `json:"on"`
	Label string    `json:"label,omitempty"`
}

// Status is the answer of GET /v1/fleet: every agent that this supervisor knows, and the recent cycles. Lists are never
// null.
type Status struct {
	Hub    bool         `json:"hub"`
	NextAt time.Time    `json:"next_at,omitzero"` // the next cycle; zero if stealing is off
	Hosts  []HostStatus `json:"hosts"`            // this host first, then by name
	Cycles []Cycle      `json:"cycles"`           // newest first, at most CycleLimit
}

// CycleLimit is the number of cycles that a Status shows: an hour's worth at the default interval.
const CycleLimit = 12

// HostStatus is one host of a Status.
type HostStatus struct {
	Name   string    `json:"name"`  // empty for the host that answers
	SSH    string    `json:"ssh"`   // user@host; empty for the host that answers
	Known  bool      `json:"known"` // the hub has its Document, and its agents take part
	Why    string    `json:"why"`   // why it is not known
	ReadAt time.Time `json:"read_at,omitzero"`
	Agents []Agent   `json:"agents"` // sorted by name; empty unless Known
}

// Cycle is one search for issues that should change hands.
type Cycle struct {
	At     time.Time `json:"at"`
	TookMS int64     `json:"took_ms"`
	DryRun bool      `json:"dry_run"` // Moves were planned only
	Calls  int       `json:"calls"`   // to other hosts
	Idle   []string  `json:"idle"`    // agents; for another host: its name, a slash and the agent
	Busy   []string  `json:"busy"`
	Moves  []Move    `json:"moves"`
	Stays  []Stay    `json:"stays"` // issues of busy agents that no idle one could take
	// Unknown lists the hosts and agents that took no part, each as a line with the reason.
	Unknown []string `json:"unknown"`
}

// Move is one issue that changes hands.
type Move struct {
	Repo     string    `json:"repo"`
	Number   int64     `json:"number"`
	Title    string    `json:"title"`
	Priority int       `json:"priority"`
	From     string    `json:"from"`
	To       string    `json:"to"`
	Why      string    `json:"why"`
	State    MoveState `json:"state"`
	StateWhy string    `json:"state_why"` // why it stayed, or is retried

	Run string `json:"-"` // the run id in the steal's journal lines; empty in a dry run
}

// MoveState is the progress of a move.
type MoveState string

// The states of a move.
const (
	MovePlanned MoveState = "planned" // by a dry run
	MovePending MoveState = "pending" // retried until the forge confirms the result
	MoveDone    MoveState = "moved"
	MoveStays   MoveState = "stays" // another agent or a person had started or taken it
)

// Stay is one issue that did not move.
type Stay struct {
	Repo   string       `json:"repo"`
	Number int64        `json:"number"`
	Title  string       `json:"title"`
	Agent  string       `json:"agent"` // its assignee
	Code   threads.Code `json:"code"`
	Why    string       `json:"why"`
}
