package control

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Document is the status of a supervisor: what GET /v1/state and `disinto status --json` answer. Programs rely on
// it: fields are added, never renamed or removed. Lists are never null, and are sorted as their type says. A time
// that does not apply is left out.
type Document struct {
	Version   string    `json:"version"` // of the program
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	// Upgrades is how often the program was replaced since then, and UpgradedAt when that was last.
	Upgrades   int       `json:"upgrades,omitempty"`
	UpgradedAt time.Time `json:"upgraded_at,omitzero"`

	Config   ConfigDocument    `json:"config"`
	Forge    ForgeDocument     `json:"forge"`
	Threads  []ThreadDocument  `json:"threads"`  // by name
	Agents   []AgentDocument   `json:"agents"`   // by name
	Sessions []SessionDocument `json:"sessions"` // by start, oldest first
	Paused   bool              `json:"paused"`   // everything: no thread starts anything
	Queue    []QueueDocument   `json:"queue"`    // in the order in which they would be started
	Unqueued []QueueDocument   `json:"unqueued"` // every other open issue that nobody works on, by reference
	Recent   []RecentDocument  `json:"recent"`   // newest first, at most RecentLimit
	Upkeep   UpkeepDocument    `json:"upkeep"`
	// Problems are things that a person has to mend, one line each: a journal that cannot be written, a tick that
	// panicked. Most often empty.
	Problems []string `json:"problems"`
}

// RecentLimit is how many ended sessions a Document shows: a screenful.
const RecentLimit = ledger.RecentLimit

// UpkeepDocument counts what a supervisor mended since it started. Without faults of machine, forge or people it stays
// zero.
type UpkeepDocument struct {
	// Violations are rules that must hold and did not; what broke them was not started, or was stopped. See Problems.
	Violations int `json:"violations"`
	// Repairs are claims of ours that no session stood behind and that were taken off.
	Repairs int `json:"repairs"`
}

// SpentDocument is what an agent or a thread used on this day, which is that of UTC, and what it may. Sessions that
// have not ended are not in it.
type SpentDocument struct {
	Tokens       int64   `json:"tokens"` // read and written; what came out of a cache is not counted
	USD          float64 `json:"usd"`
	TokensPerDay int64   `json:"tokens_per_day,omitempty"` // left out where there is no limit
	USDPerDay    float64 `json:"usd_per_day,omitempty"`
}

// ConfigDocument says which configuration is in force.
type ConfigDocument struct {
	Path       string `json:"path"`
	Generation int    `json:"generation"` // 0 without a valid one, then counted up by each reload
	Error      string `json:"error"`      // of the file as it is now; the last good one stays in force
}

// ForgeDocument says how the forge answers.
type ForgeDocument struct {
	URL      string    `json:"url"`
	OK       bool      `json:"ok"` // the newest scan succeeded
	Error    string    `json:"error"`
	LastScan time.Time `json:"last_scan,omitzero"` // when the newest successful scan began
	Requests int64     `json:"requests"`           // since the start of the supervisor
}

// ThreadDocument is one inference thread.
type ThreadDocument struct {
	Name        string          `json:"name"`
	Backend     threads.Backend `json:"backend"`
	Overlap     bool            `json:"overlap"`
	Slots       []SlotDocument  `json:"slots"`  // by index
	Paused      bool            `json:"paused"` // by itself, or because everything is
	ParkedUntil time.Time       `json:"parked_until,omitzero"`
	ParkedWhy   string          `json:"parked_why"`
	Spent       SpentDocument   `json:"spent"` // by all its agents
}

// SlotDocument is one inference slot.
type SlotDocument struct {
	Index  int      `json:"index"`
	Agents []string `json:"agents"` // sorted; at most one where overlap is false
	// Warm is the agent whose work the slot's cache still holds; always empty where overlap is true.
	Warm string `json:"warm"`
}

// AgentState is what an agent does right now.
type AgentState string

// The states of an agent.
const (
	AgentIdle    AgentState = "idle"
	AgentWorking AgentState = "working"
	AgentHeld    AgentState = "held" // it cannot start anything; Why says what to do
)

// AgentDocument is one agent.
type AgentDocument struct {
	Name      string     `json:"name"`
	Role      string     `json:"role"` // its first
	Thread    string     `json:"thread"`
	Model     string     `json:"model"`
	State     AgentState `json:"state"`
	Why       string     `json:"why"`                 // of AgentHeld
	IdleSince time.Time  `json:"idle_since,omitzero"` // left out while it works
	Done      int        `json:"done"`                // sessions that ended well, over all restarts
	Failed    int        `json:"failed"`              // sessions that burnt an attempt

	Spent SpentDocument `json:"spent"`
}

// SessionDocument is one running session.
type SessionDocument struct {
	RunID        string               `json:"run_id"`
	Thread       string               `json:"thread"`
	Slot         int                  `json:"slot"`
	Agent        string               `json:"agent"`
	Role         string               `json:"role"`
	Kind         agents.Kind          `json:"kind"`
	Repo         string               `json:"repo"`
	Number       int64                `json:"number"` // 0 for scheduled work
	Title        string               `json:"title"`
	State        threads.SessionState `json:"state"`
	PID          int                  `json:"pid"` // 0 until the program runs
	Attempt      int                  `json:"attempt"`
	StartedAt    time.Time            `json:"started_at"`
	LastOutputAt time.Time            `json:"last_output_at,omitzero"`
	Usage        agents.Usage         `json:"usage"`
}

// QueueDocument is one item that waits, and why.
type QueueDocument struct {
	Repo     string       `json:"repo"`
	Number   int64        `json:"number"` // 0 for scheduled work
	Kind     agents.Kind  `json:"kind"`
	Title    string       `json:"title"`
	Priority int          `json:"priority"`
	Code     threads.Code `json:"code"`
	Why      string       `json:"why"`
}

// RecentDocument is one session that ended.
type RecentDocument = ledger.Recent
