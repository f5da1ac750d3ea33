// Package agents is the vocabulary of workers: who an agent is, what a role does, the job that one session
// gets and the outcome it comes back with. It also holds the environment contract, the exact set of variables
// an agent's program is started with.
//
// Everything here is a value. agents/process starts the processes, agents/session is our own agent program.
package agents

import (
	"strings"
	"time"
)

// Kind is what a session is for.
type Kind string

// The kinds of work.
const (
	KindIssue    Kind = "issue"    // implement an issue
	KindReview   Kind = "review"   // review a pull request
	KindRework   Kind = "rework"   // answer a review, mend CI, resolve a conflict on an open pull request
	KindSchedule Kind = "schedule" // a role's own job, by the clock
)

// Writes reports whether a session of this kind pushes to the chain's branch.
func (k Kind) Writes() bool { return k == KindIssue || k == KindRework }

// Secret is a token or password. It prints as a placeholder, so that no log line, error or JSON document can
// leak it by accident; Reveal is the one way to the text.
type Secret string

// String is a placeholder.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString keeps %#v from printing the text.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps JSON and TOML encoders from writing the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal is the text itself, for a request header or a child's environment and nothing else.
func (s Secret) Reveal() string { return string(s) }

// Agent is a named worker.
type Agent struct {
	Name  string // unique; also what logs and pull requests call it
	Login string // its account on the forge; the same as Name unless forge_user says otherwise
	// Roles are the names of its roles, in the order the configuration gives them; at least one.
	Roles  []string
	Thread string // the thread it is assigned to
	Model  string // passed to its program; may be empty
	// BaseURL is its own inference endpoint; empty means the thread's.
	BaseURL string
	Token   Secret   // its forge token; an agent without one is never started
	Skills  []string // it takes issues whose skill/ labels are all among these; sorted
	User    string   // the system account it runs as; empty means the factory's
	Budget  Budget
	Limits  Limits // of each of its sessions
}

// On is what brings work to a role.
type On string

// The triggers.
const (
	OnIssue    On = "issue"
	OnReview   On = "review"
	OnSchedule On = "schedule"
)

// Role is what an agent does: which work it takes, and the program that does it.
type Role struct {
	Name  string
	On    On
	Label string // only items that carry it; empty means all
	// Every is the time from the end of one scheduled run to the next; only with OnSchedule.
	Every    time.Duration
	Priority int // of scheduled work, 1 to 10
	// Command is the program and its arguments, each a text/template over CommandData. Empty means that the role
	// has no program and holds all its work.
	Command []string
	// CLI is the agent CLI that the built-in program works with, such as claude; Command is that program then. Empty
	// means that Command is somebody's own.
	CLI string
	// Cwd is the working directory of Command; empty means the session's workspace.
	Cwd     string
	Timeout time.Duration // a session is ended after this long
	Stall   time.Duration // a session that neither prints nor computes for this long is ended
	// WaitsForReview says that its program stays until the pull request is merged, as upstream's dev-agent does: a
	// review may then run beside it.
	WaitsForReview bool
	EnvAllow       []string // names or globs that the program may see although they are secrets by default
	EnvDeny        []string // names or globs that it must not see
}

// CLIs are the agent CLIs that the built-in program works with, sorted.
var CLIs = []string{"claude", "codex", "opencode", "qwen"}

// CommandData is what the templates of Role.Command may use.
type CommandData struct {
	Repo   string // owner/name
	Number int64  // of the issue or pull request; 0 for scheduled work
	Issue  int64  // that it is about: of a pull request the one that it is for, or its own number; 0 for scheduled work
	Agent  string
	Role   string
	Thread string
	Model  string
	Kind   Kind
}

// Job is one session as the executor needs it: everything is decided, nothing is looked up any more.
type Job struct {
	RunID   string
	Agent   string
	Kind    Kind
	Repo    string
	Number  int64
	Command []string // at least the program
	Dir     string   // working directory; created if missing
	// Home is the agent's own HOME, created 0700 for its user.
	Home string
	Env  []string // the complete environment
	// User is the system account to run as; empty means the supervisor's own.
	User string
	// OwnUser says that nothing but this agent's sessions, of which there is one at a time, runs as User.
	OwnUser    bool
	Limits     Limits
	LogPath    string // where stdout and stderr go; created 0600
	ResultPath string // where the program may leave a result; not there before the start
	// BackendURL is the local inference server that the program works with, which may compute for minutes while the program
	// is silent. Empty means that there is none to ask.
	BackendURL string
	Timeout    time.Duration
	Stall      time.Duration
	Grace      time.Duration // from TERM to KILL
}

// Started is what the executor reports as soon as the program runs.
type Started struct {
	PID int // of the program itself
	At  time.Time
}

// Result is the class of an outcome; it alone decides what happens next (section 7 of the design).
type Result string

// The results.
const (
	Done        Result = "done"
	Refused     Result = "refused"      // the program says that the item cannot be worked on as it is
	Failed      Result = "failed"       // it said so, or could not be started
	NoProgress  Result = "no-progress"  // it ended well and nothing on the forge changed
	Stalled     Result = "stalled"      // ended by us: silent and idle for too long
	TimedOut    Result = "timeout"      // ended by us: too long
	Limited     Result = "limited"      // a usage limit: the thread waits until RetryAt
	BackendDown Result = "backend-down" // the inference backend did not answer
	NoRoom      Result = "no-room"      // never started: the machine has no room for another process
	Cancelled   Result = "cancelled"    // ended by us because the item went away, or somebody asked
	ClaimFailed Result = "claim-failed" // never started: the forge gave the item to somebody else
	Lost        Result = "lost"         // the supervisor died under it
)

// BurnsAttempt reports whether the result counts against the item's attempts.
func (r Result) BurnsAttempt() bool {
	switch r {
	case Failed, NoProgress, Stalled, TimedOut:
		return true
	}
	return false
}

// Usage is what a session consumed, as its program reported it. Zero means unknown.
type Usage struct {
	InputTokens  int64   `json:"input_tokens"`
	CachedTokens int64   `json:"cached_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CostUSD      float64 `json:"cost_usd"`
}

// Outcome is how a session ended. The zero value is not a result: an executor always says which.
type Outcome struct {
	Result    Result
	Reason    string    // one line for people; never empty unless Result is Done
	RetryAt   time.Time // with Limited: when the limit is lifted; zero means unknown
	SessionID string    // the program's own id for resuming, if it gave one
	Usage     Usage
	// Claimed is false when the program left no result: the exit says how it ended, not what it achieved, and the
	// forge has to be asked.
	Claimed  bool
	ExitCode int           // -1 when a signal ended it
	Signal   string        // such as SIGKILL; empty when it exited
	CPU      time.Duration // user and system time of the whole tree
	MaxRSS   int64         // bytes, of the largest process
	Tail     string        // the last lines of output, secrets redacted
}

// RoleFromName guesses the role from a name such as dev-qwen: the part before the first dash. It returns "" for
// a name without one.
func RoleFromName(name string) string {
	role, _, ok := strings.Cut(name, "-")
	if !ok {
		return ""
	}
	return role
}

// TokenVar is the variable that holds an agent's forge token: FORGE_TOKEN_DEV_QWEN for dev-qwen.
func TokenVar(name string) string {
	return "FORGE_TOKEN_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
