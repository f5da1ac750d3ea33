package control

import (
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// NomadProblem begins a line of Problems about an outage of Nomad.
const NomadProblem = "Nomad: "

// Document is the status of a supervisor: the answer of GET /v1/state and of `disinto status --json`.
type Document struct {
	Version string `json:"version"` // of the program
	// PID is the process that people signal, an init. StartedAt is its start. An upgrade, and a crash of the supervisor,
	// keep both.
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	// Upgrades counts the replacements of the program in place since StartedAt. After one, UpgradedAt is when the present
	// supervisor started.
	Upgrades   int       `json:"upgrades,omitempty"`
	UpgradedAt time.Time `json:"upgraded_at,omitzero"`

	Config   ConfigDocument    `json:"config"`
	Forge    ForgeDocument     `json:"forge"`
	Threads  []ThreadDocument  `json:"threads"`  // by name
	Agents   []AgentDocument   `json:"agents"`   // by name
	Sessions []SessionDocument `json:"sessions"` // by start, oldest first
	Repos    []RepoDocument    `json:"repos"`    // by name
	Paused   bool              `json:"paused"`   // everything is paused: no thread starts anything
	threads.PauseNote
	Drain    *DrainDocument  `json:"drain,omitempty"`
	Queue    []QueueDocument `json:"queue"`    // in the expected order of their starts
	Unqueued []QueueDocument `json:"unqueued"` // every other open issue without a session, by reference
	// Waiting counts the items of Queue and Unqueued if the request chooses some of them; see QueueQuery.
	Waiting *WaitingDocument `json:"waiting,omitempty"`
	Recent  []RecentDocument `json:"recent"` // newest first, at most RecentLimit
	Today   TodayDocument    `json:"today"`
	Upkeep  UpkeepDocument   `json:"upkeep"`
	Disk    DiskDocument     `json:"disk,omitzero"` // as found by the newest pass; left out before the first
	// Merges are the merges of the last 24 hours, newest first, at most MergesLimit.
	Merges []ledger.Merged `json:"merges,omitempty"`
	// Alarms need a person: each is one cause that lasts, however many sessions and items it holds.
	Alarms []AlarmDocument `json:"alarms,omitempty"`
	// Problems need a person, one line each: for example a journal that cannot be written, or a tick that panicked.
	Problems []string `json:"problems"`
	// Sandbox says what restricts the processes of later sessions, and which roles have no sandbox.
	Sandbox string `json:"sandbox,omitempty"`
	// Forecast is the newest forecast of the running and waiting items; left out before the first.
	Forecast *Forecast `json:"forecast,omitempty"`
	// Services are the programs beside the agents, by name; left out where there are none.
	Services []ServiceDocument `json:"services,omitempty"`
}

// Sandboxed is Sandbox in a few words: whether sessions are restricted, and which are not. check has the rest.
func (d *Document) Sandboxed() string {
	about, off, some := strings.Cut(d.Sandbox, `; sandbox = "off" of `)
	about, _, _ = strings.Cut(about, ": ")
	if some {
		about += ", none for " + off
	}
	return about
}

// DrainDocument is a drain: the factory finishes what is begun and starts no new issue.
type DrainDocument struct {
	threads.PauseNote
	Left int  `json:"left"` // sessions, and items that are begun and go on by themselves
	Done bool `json:"done"` // nothing is left
}

// Line says what a drain waits for.
func (d *DrainDocument) Line() string {
	if d.Done {
		return "drained: all that was begun is done or waits for a person, and no new issue starts: disinto resume"
	}
	then := ""
	if d.ThenStop {
		then = ", then disinto ends"
	}
	left := Count(d.Left, "item") + " left to finish"
	if d.Left == 0 {
		left = "nothing is left that is known, and the next scan shows whether that is all"
	}
	return "draining: " + left + then + "; disinto resume starts new issues again"
}

// Drained is the code of an alarm: a drain is done. Exposed is that of one about secrets that others could read, and
// HookSecret about web hooks with a wrong signature. Journal is that of one about the journal: it cannot be written, or
// has lost something. Twin is that of one about another supervisor with our identity, and SharedAccounts about another
// factory with our agents' accounts. OwnToken is what an alarm is about if the forge rejects the supervisor's token.
const (
	Drained    threads.Code = "drained"
	Exposed    threads.Code = "exposed"
	HookSecret threads.Code = "hook-secret"
	Journal    threads.Code = "journal"
	Twin       threads.Code = "twin"

	SharedAccounts threads.Code = "shared-accounts"
	OwnToken       string       = "supervisor"
)

// AlarmDocument is a cause of which a person must know. It is in the status, and so under NEEDS YOU, as long as it
// lasts, and becomes one message, a metric, and a warning in the log.
type AlarmDocument struct {
	Code  threads.Code `json:"code"`
	About string       `json:"about"` // with Code it identifies the cause: an agent, a branch, a path
	Since time.Time    `json:"since,omitzero"`
	Words string       `json:"words"` // one line, with what to do
}

// ServiceDocument is a program that runs beside the agents.
type ServiceDocument struct {
	Name  string    `json:"name"`
	State string    `json:"state"` // see package threads/services
	Since time.Time `json:"since"` // of the state
	PID   int       `json:"pid"`   // 0 while it does not run
	// Restarts counts the starts of its program after the first; Fails counts its failures in a row.
	Restarts int       `json:"restarts"`
	Fails    int       `json:"fails,omitempty"`
	Until    time.Time `json:"until,omitzero"`    // end of its rest
	Why      string    `json:"why,omitempty"`     // why it cannot be used
	Changed  bool      `json:"changed,omitempty"` // the configuration has changed since it was started
	// NeedsPerson says that Problems has a line about it.
	NeedsPerson bool   `json:"needs_person,omitempty"`
	Log         string `json:"log"`
	LastLine    string `json:"last_line,omitempty"`
}

// Usable reports whether the service can be used: a oneshot also when it is done.
func (d *ServiceDocument) Usable() bool { return d.State == "ready" || d.State == "done" }

// MergesLimit is how many merges a Document shows.
const MergesLimit = 50

// TodayDocument counts what ended since midnight (UTC).
type TodayDocument struct {
	Sessions int `json:"sessions"`
	Failed   int `json:"failed"` // sessions of these that failed
	Merged   int `json:"merged"` // pull requests
}

// RecentLimit is how many ended sessions a Document shows: a screenful.
const RecentLimit = ledger.RecentLimit

// UpkeepDocument counts the repairs of this supervisor; after an upgrade or a crash it begins again. It stays zero
// without faults of the machine, the forge or people.
type UpkeepDocument struct {
	// Violations counts violations of rules that must hold. The offending session was not started, or was stopped;
	// Problems has a line about it.
	Violations int `json:"violations"`
	// Repairs counts our claims that had no session and were released.
	Repairs int `json:"repairs"`
}

// DiskDocument describes the files that sessions have left in the state directory.
type DiskDocument struct {
	Free       int64 `json:"free"` // bytes, on its file system; 0 if not measured
	Logs       int   `json:"logs"`
	LogBytes   int64 `json:"log_bytes"`
	Workspaces int   `json:"workspaces"`
	Deleted    int   `json:"deleted"` // logs, results and workspaces, since the supervisor started
}

// SpentDocument counts the tokens and dollars of an agent, a thread or a repository in the sessions that ended on this
// day (UTC), with the limits.
type SpentDocument struct {
	Tokens       int64   `json:"tokens"` // read and written, without those from a cache
	USD          float64 `json:"usd"`
	TokensPerDay int64   `json:"tokens_per_day,omitempty"` // left out where there is no limit
	USDPerDay    float64 `json:"usd_per_day,omitempty"`
	// CacheHit is the share of the tokens read on this day that came from a cache, from 0 to 1; left out if no program
	// reported it.
	CacheHit *float64 `json:"cache_hit,omitempty"`
}

// ConfigDocument says which configuration is in force.
type ConfigDocument struct {
	Path       string `json:"path"`
	Generation int    `json:"generation"` // 0 without a valid one; each reload increments it
	Error      string `json:"error"`      // error of the present file; the last valid configuration stays in force
}

// ForgeDocument says whether the forge answers.
type ForgeDocument struct {
	URL      string    `json:"url"`
	OK       bool      `json:"ok"` // the newest scan succeeded
	Error    string    `json:"error"`
	LastScan time.Time `json:"last_scan,omitzero"` // when the newest successful scan began
	NextScan time.Time `json:"next_scan,omitzero"` // when the next is due, unless something asks for one earlier
	Requests int64     `json:"requests"`           // since the supervisor started
}

// ThreadDocument is one inference thread.
type ThreadDocument struct {
	Name    string          `json:"name"`
	Backend threads.Backend `json:"backend"`
	Overlap bool            `json:"overlap"`
	Slots   []SlotDocument  `json:"slots"`  // by index
	Paused  bool            `json:"paused"` // the thread, or everything
	threads.PauseNote
	ParkedUntil time.Time     `json:"parked_until,omitzero"`
	ParkedAs    threads.Code  `json:"parked_as,omitempty"` // threads.ThreadPark or ThreadDown
	ParkedWhy   string        `json:"parked_why"`
	Spent       SpentDocument `json:"spent"` // by its agents
	// Windows are the windows of its subscription, shortest first; left out if it has none.
	Windows []WindowDocument `json:"windows,omitempty"`
	// Server is left out if the thread is not local, or if its server does not describe itself.
	Server *ServerDocument `json:"server,omitempty"`
	// Cold says why the newest session that continued a conversation computed most of it again; empty if it did not.
	Cold string `json:"cold,omitempty"`
}

// Rest says in two words why a parked thread starts nothing.
func (t *ThreadDocument) Rest() string {
	if t.ParkedAs == threads.ThreadDown {
		return "backing off"
	}
	return "rate limited"
}

// WindowDocument describes the usage of a window.
type WindowDocument struct {
	Length    string  `json:"length"` // such as 5h
	Tokens    int64   `json:"tokens"`
	USD       float64 `json:"usd"`
	MaxTokens int64   `json:"max_tokens,omitempty"` // left out where there is no limit
	MaxUSD    float64 `json:"max_usd,omitempty"`
	Reserve   float64 `json:"reserve,omitempty"` // the share reserved for reviews and rework
}

// Spent returns the window in the form of a budget.
func (w *WindowDocument) Spent() *SpentDocument {
	return &SpentDocument{Tokens: w.Tokens, USD: w.USD, TokensPerDay: w.MaxTokens, USDPerDay: w.MaxUSD}
}

// SlotDocument is one inference slot.
type SlotDocument struct {
	Index  int      `json:"index"`
	Agents []string `json:"agents"` // sorted; at most one where overlap is false
	// Warm is the agent whose context is in the slot's cache; always empty if overlap is true, or if the server's memory
	// holds the contexts.
	Warm string `json:"warm"`
}

// RepoDocument is one repository.
type RepoDocument struct {
	Name     string `json:"name"`
	Sessions int    `json:"sessions"`         // that run in it
	Paused   bool   `json:"paused,omitempty"` // a person paused this repository
	threads.PauseNote
	// MaxSessions is how many may run in it; left out where there is no limit.
	MaxSessions int           `json:"max_sessions,omitempty"`
	Spent       SpentDocument `json:"spent"` // by all sessions in it
}

// AgentState is the state of an agent.
type AgentState string

// The states of an agent.
const (
	AgentIdle    AgentState = "idle"
	AgentWorking AgentState = "working"
	AgentHeld    AgentState = "held" // it cannot start anything, whatever the queue holds; Why says what to do
)

// AgentDocument is one agent.
type AgentDocument struct {
	Name   string     `json:"name"`
	Role   string     `json:"role"` // its first
	Thread string     `json:"thread"`
	Model  string     `json:"model"`
	State  AgentState `json:"state"`
	Why    string     `json:"why"` // why it is held
	// Code is the code of Why; empty while it is not held.
	Code      threads.Code `json:"code,omitempty"`
	IdleSince time.Time    `json:"idle_since,omitzero"` // left out while it works
	Done      int          `json:"done"`                // sessions that ended well, over all restarts
	Failed    int          `json:"failed"`              // sessions that burnt an attempt

	Spent SpentDocument `json:"spent"`
	// NeedsPerson means that a held agent stays held until a person acts, and that no person chose to hold it.
	NeedsPerson bool     `json:"needs_person,omitempty"`
	Skills      []string `json:"skills,omitempty"` // sorted
	Paused      bool     `json:"paused,omitempty"` // a person paused this agent
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
	PID          int                  `json:"pid"` // 0 until the program runs, and on another machine
	Attempt      int                  `json:"attempt"`
	StartedAt    time.Time            `json:"started_at"`
	LastOutputAt time.Time            `json:"last_output_at,omitzero"`
	LastLine     string               `json:"last_line,omitempty"` // of its output
	// UsualSeconds is the median duration of this agent's sessions of this kind, or of all agents'; 0 if unknown.
	UsualSeconds int64        `json:"usual_seconds,omitempty"`
	Usage        agents.Usage `json:"usage"`
	Doing        agents.Doing `json:"doing,omitzero"`    // left out while its agent works
	Sandbox      string       `json:"sandbox,omitempty"` // what it restricts; empty without a sandbox
	// Told is what people told it while it ran; only show has it.
	Told  []agents.Message `json:"told,omitempty"`
	Place string           `json:"place,omitempty"` // node and allocation; empty on this machine
}

// QueueDocument is one waiting item, and why it waits.
type QueueDocument struct {
	Repo     string       `json:"repo"`
	Number   int64        `json:"number"` // 0 for scheduled work
	Kind     agents.Kind  `json:"kind"`
	Title    string       `json:"title"`
	Priority int          `json:"priority"`
	Code     threads.Code `json:"code"`
	Why      string       `json:"why"`
	Agent    string       `json:"agent,omitempty"`     // whom the reason names
	FailedBy string       `json:"failed_by,omitempty"` // the agent of its last session, if that failed

	Since time.Time `json:"since,omitzero"` // when it was filed, fell due, or was last reopened
	Mend  string    `json:"mend,omitempty"` // what a person can do about it
	// NeedsPerson means that only a person's action lets the item continue, and that no person chose to hold it.
	NeedsPerson bool `json:"needs_person,omitempty"`
}

// RecentDocument is one session that has ended.
type RecentDocument = ledger.Recent
