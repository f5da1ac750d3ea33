// Package agents defines agents and roles, the job of one session, and the outcome that the session returns with. It
// also holds the environment contract: the exact set of variables that an agent's program is started with.
//
// All its types are values. agents/process starts processes, agents/session is the built-in agent program.
package agents

import (
	"errors"
	"strings"
	"time"
)

// Kind is the kind of work that a session does.
type Kind string

// The kinds of work.
const (
	KindIssue    Kind = "issue"    // implement an issue
	KindReview   Kind = "review"   // review a pull request
	KindRework   Kind = "rework"   // answer a review, repair CI or resolve a conflict of an open pull request
	KindSchedule Kind = "schedule" // do a role's own job, which no item asks for, at an interval
)

// Writes reports whether a session of this kind pushes to the chain's branch.
func (k Kind) Writes() bool { return k == KindIssue || k == KindRework }

// Secret is a token or password. It prints as a placeholder, so that no log line, error or JSON document leaks it by
// accident; only Reveal returns the text.
type Secret string

// String returns a placeholder, and "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString returns the placeholder for %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText returns the placeholder for JSON and TOML encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the text, for a request header or a child's environment and nothing else.
func (s Secret) Reveal() string { return string(s) }

// Agent is a named worker with an account on the forge.
type Agent struct {
	Name    string   // unique; logs and pull requests use it
	Login   string   // its account on the forge; the same as Name unless forge_user says otherwise
	Roles   []string // names of its roles, at least one, in the order of the configuration
	Thread  string   // the thread that it is assigned to
	Model   string   // passed to its program; may be empty
	BaseURL string   // its own inference endpoint; empty means the thread's
	Token   Secret   // its forge token; an agent without one is never started
	Skills  []string // it takes issues whose skill/ labels are all among these; sorted
	User    string   // the system account that it runs as; empty means the factory's
	Budget  Budget
	Limits  Limits // of each of its sessions
	// Escalate names the agents that go on with what it does not bring to an end, in their order, each after that many
	// rejections and failures. Empty means those of its role.
	Escalate      []string
	EscalateAfter int
}

// On is the trigger of a role: where its work comes from.
type On string

// The triggers.
const (
	OnIssue    On = "issue"
	OnReview   On = "review"
	OnSchedule On = "schedule"
)

// Role describes which work an agent takes and the program that does it.
type Role struct {
	Name  string
	On    On
	Label string // only items that carry it; empty means all
	// Every is the time from the end of one scheduled run to the next; only with OnSchedule.
	Every    time.Duration
	Priority int // of scheduled work, 1 to 10
	// Command is the program and its arguments, each a text/template over CommandData. Empty means that the role has no
	// program and holds all its work.
	Command []string
	// CLI is the agent CLI that the built-in program runs, such as claude; Command then starts that program. Empty means
	// that Command is the operator's own.
	CLI string
	// Cwd is the working directory of Command; empty means the session's workspace.
	Cwd     string
	Timeout time.Duration // a session is ended after this long
	Stall   time.Duration // a session that neither prints nor computes for this long is ended
	// WaitsForReview says that its program keeps running until the pull request is merged, as upstream's dev-agent does:
	// a review may then run beside it.
	WaitsForReview bool
	Plan           bool     // an issue that it may take is planned first, and a person approves the plan
	EnvAllow       []string // names or globs of variables that the program gets although they are secrets by default
	EnvDeny        []string // names or globs of variables that it does not get
	Sandbox        Sandbox  // what the configuration adds to what its sessions may reach
	// PerSession limits the use of one session, and PerIssue that of all sessions on an issue and its pull requests.
	PerSession, PerIssue Budget

	Escalate      []string // the ladder of its agents that have none of their own; only with OnIssue
	EscalateAfter int
}

// CLIs are the agent CLIs that the built-in program can run, sorted. Each has an adapter in agents/session.
var CLIs = []string{"claude", "codex", "opencode", "qwen"}

// CommandData holds the fields that the templates of Role.Command may use.
type CommandData struct {
	Repo   string // owner/name
	Number int64  // of the issue or pull request; 0 for scheduled work
	Issue  int64  // the issue that a pull request is for, else Number
	Agent  string
	Role   string
	Thread string
	Model  string
	Kind   Kind
}

// Job is one session as an executor needs it, complete: the executor looks nothing up.
type Job struct {
	RunID    string
	Instance string // of the supervisor: run ids begin with it
	Agent    string
	Role     string
	Thread   string
	Kind     Kind
	Repo     string
	Number   int64
	Issue    int64 // of the chain; 0 for scheduled work
	// Service is the name of a service that it is a command of, and no session. It is no less urgent than the supervisor,
	// and the kernel does not prefer it where it has to kill for want of memory.
	Service string   `json:",omitempty"`
	Command []string // at least the program
	Dir     string   // working directory; created if missing
	Home    string   // the agent's own HOME; created 0700 for its user
	// Workspace and HomeKey name Dir and Home for an executor that has folders of its own: agent/owner_repo_12 and agent.
	// Every session of the agent on the chain has the same.
	Workspace, HomeKey string
	Env                []string // the environment without Secrets
	// Secrets are the variables of the environment that must not be readable by others, as NAME=value.
	Secrets []string `json:"-"`
	User    string   // system account to run as; empty means the supervisor's own
	// OwnUser says that only this agent's sessions, one at a time, run as User.
	OwnUser bool
	Limits  Limits
	Sandbox Sandbox
	// Tmp is the session's own folder for temporary files, which does not outlast it; empty means none.
	Tmp        string
	LogPath    string // where stdout and stderr go; created 0600
	MaxLog     int64  // how much of the disk that may take, in bytes; 0 means any amount
	ResultPath string // where the program may leave a result; not there before the start
	// Spent is called with the usage that the program has told in the course of the session, whenever it has grown. It is
	// called from the session's own goroutine and must not wait. nil: not asked for.
	Spent func(Usage) `json:"-"`
	// BackendURL is the local inference server of the program. It may compute for minutes while the program is silent, so
	// it is asked before a session counts as stalled. Empty means that there is none to ask.
	BackendURL string
	Timeout    time.Duration
	Stall      time.Duration
	Grace      time.Duration // from TERM to KILL

	// Claim is the commit of the claim's ref on the forge; empty where the claim has none, or nothing is claimed.
	Claim string
	// Place is where the chain's last session ran, which may have left its workspace there; empty when unknown.
	Place string
	Nodes []NodeRule // what a node must have, for an executor that chooses among several
}

// NodeRule is an attribute that a node must have, such as meta.llama, and its value.
type NodeRule struct{ Attribute, Value string }

// Started is the executor's report that the program runs.
type Started struct {
	PID     int // of the program itself; 0 on another machine
	At      time.Time
	Place   string // node and allocation, such as box2/1f0c33aa; empty on this machine
	Sandbox string // what holds it, for people; empty without a sandbox
}

// Activity tells how a session goes while it runs.
type Activity struct {
	LastOutput time.Time // when its program last printed something
	PID        int       // 0 on another machine
	Place      string    // as in Started
}

// ErrDetached is the cause of a context that ends because the supervisor stops and the session goes on without it.
var ErrDetached = errors.New("the supervisor stops, and the session goes on")

// Result is the class of an outcome; it alone decides what happens next (section 7 of the design).
type Result string

// The results.
const (
	Done        Result = "done"
	Refused     Result = "refused"      // the program says that the item cannot be worked on as it is
	Failed      Result = "failed"       // it said so, or could not be started
	Question    Result = "question"     // it asks people, and goes on with their answer
	Planned     Result = "plan"         // it wrote a plan, where one was asked for, and no code
	NoProgress  Result = "no-progress"  // it ended well and nothing on the forge changed
	Stalled     Result = "stalled"      // ended by us: silent and idle for too long
	TimedOut    Result = "timeout"      // ended by us: too long
	Limited     Result = "limited"      // a usage limit: the thread waits until RetryAt
	BackendDown Result = "backend-down" // the inference backend did not answer
	NoRoom      Result = "no-room"      // the machine has no room for another process, or the disk none for its result
	NoPlace     Result = "no-place"     // never started: the engine has no node for it
	Looped      Result = "loop"         // it repeated itself
	OverBudget  Result = "over-budget"  // it reached a limit of what may be used
	Cancelled   Result = "cancelled"    // ended by us because the item went away, or a person asked for it
	ClaimFailed Result = "claim-failed" // never started: the claim on the item failed
	// TokenRejected is a failure while the forge rejected the agent's token, or what that asked for.
	TokenRejected Result = "token-rejected"
	Lost          Result = "lost" // the supervisor died while it ran
)

// Claimable reports whether a program may say the result of itself.
func (r Result) Claimable() bool {
	switch r {
	case Done, Refused, Question, Planned, Failed, NoProgress, Limited, BackendDown, Looped, OverBudget:
		return true
	}
	return false
}

// BurnsAttempt reports whether the result counts against the item's attempts.
func (r Result) BurnsAttempt() bool {
	switch r {
	case Failed, NoProgress, Stalled, TimedOut, Looped:
		return true
	}
	return false
}

// Usage is the consumption of a session as its program reported it. Zero means unknown.
type Usage struct {
	InputTokens  int64   `json:"input_tokens"` // without the cached ones
	CachedTokens int64   `json:"cached_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CostUSD      float64 `json:"cost_usd"`
	// CacheUntold says that the program told the tokens that it read, and not which of them a cache had.
	CacheUntold bool `json:"cache_untold,omitempty"`
}

// Hit is the part of the tokens that a cache had, from 0 to 1. It is unknown where the program did not tell.
func (u Usage) Hit() (share float64, known bool) {
	read := u.InputTokens + u.CachedTokens
	if u.CacheUntold || read <= 0 {
		return 0, false
	}
	return float64(u.CachedTokens) / float64(read), true
}

// Resumption is the first answer of a session that went on with a conversation on a local server, or that began its
// prompt like the last session on the chain.
type Resumption struct {
	Cached   int64 `json:"cached_tokens"`   // of the prompt of that answer
	Computed int64 `json:"computed_tokens"` // the others
	// Changed is the first line of our prompt that was another one in the last session, with its number, such as
	// "line 12: the text". It is empty where the conversation itself was gone on with.
	Changed string `json:"changed,omitempty"`
}

// Hit is the part of the prompt that a cache had, from 0 to 1.
func (r *Resumption) Hit() float64 {
	share, _ := Usage{InputTokens: r.Computed, CachedTokens: r.Cached}.Hit()
	return share
}

// Bounded is the resumption with numbers that a session can have, and a line of text.
func (r *Resumption) Bounded() *Resumption {
	u := Usage{InputTokens: r.Computed, CachedTokens: r.Cached}.Bounded()
	return &Resumption{Cached: u.CachedTokens, Computed: u.InputTokens, Changed: oneLine(r.Changed)}
}

// Bounds of what one session can have used. The largest sessions seen had 20 million tokens and cost $60.
const (
	MaxTokens = 1_000_000_000
	MaxUSD    = 10_000
)

// Bounded is the usage with each number between 0 and its bound. A program's number is added up, budgeted and shown:
// twice 1.7e308 is infinite, which no document can have.
func (u Usage) Bounded() Usage {
	u.InputTokens, u.CachedTokens = min(max(u.InputTokens, 0), MaxTokens), min(max(u.CachedTokens, 0), MaxTokens)
	u.OutputTokens = min(max(u.OutputTokens, 0), MaxTokens)
	if !(u.CostUSD >= 0) { // not a number either
		u.CostUSD = 0
	}
	u.CostUSD = min(u.CostUSD, MaxUSD)
	return u
}

// Tokens are those that count against a budget: read and written, without those from a cache.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Max has the larger of each number of two usages.
func (u Usage) Max(v Usage) Usage {
	_, told := u.Hit()
	_, also := v.Hit()
	return Usage{
		InputTokens: max(u.InputTokens, v.InputTokens), CachedTokens: max(u.CachedTokens, v.CachedTokens),
		OutputTokens: max(u.OutputTokens, v.OutputTokens), CostUSD: max(u.CostUSD, v.CostUSD),
		CacheUntold: (u.CacheUntold || v.CacheUntold) && !told && !also,
	}
}

// Add adds up two usages, within their bounds.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens: u.InputTokens + v.InputTokens, CachedTokens: u.CachedTokens + v.CachedTokens,
		OutputTokens: u.OutputTokens + v.OutputTokens, CostUSD: u.CostUSD + v.CostUSD,
		CacheUntold: u.CacheUntold || v.CacheUntold,
	}.Bounded()
}

// Less subtracts a part of a usage.
func (u Usage) Less(part Usage) Usage {
	left := Usage{
		InputTokens: u.InputTokens - part.InputTokens, CachedTokens: u.CachedTokens - part.CachedTokens,
		OutputTokens: u.OutputTokens - part.OutputTokens, CostUSD: u.CostUSD - part.CostUSD,
	}.Bounded()
	left.CacheUntold = u.CacheUntold && left.InputTokens > 0
	return left
}

// Outcome is how a session ended. The zero value is invalid: an executor always sets Result.
type Outcome struct {
	Result    Result
	Reason    string    // one line for people; never empty unless Result is Done
	Words     string    // the question or the plan, in Markdown; empty for other results
	RetryAt   time.Time // with Limited: when the limit is lifted; zero means unknown
	SessionID string    // the program's own id of its conversation, for resuming it; may be empty
	Usage     Usage
	Resumed   *Resumption // nil where no conversation was gone on with, or the program does not tell
	// Claimed says that the program left a result. Without one the exit says how the program ended but not what it
	// achieved, and the supervisor has to ask the forge.
	Claimed  bool
	ExitCode int           // -1 when a signal ended it
	Signal   string        // such as SIGKILL; empty when it exited
	CPU      time.Duration // user and system time of the whole tree
	MaxRSS   int64         // bytes, of the largest process
	Tail     string        // the last lines of output, secrets redacted
	Digest   string        // the SHA-256 of the result that the program left, in hex; empty where it left none
	Seen     *Seen         // nil where nothing looked
}

// RoleFromName returns the part of a name such as dev-qwen before its first dash, and "" for a name without a dash.
func RoleFromName(name string) string {
	role, _, ok := strings.Cut(name, "-")
	if !ok {
		return ""
	}
	return role
}

// TokenVar returns the name of the variable that holds an agent's forge token: FORGE_TOKEN_DEV_QWEN for dev-qwen.
func TokenVar(name string) string {
	return "FORGE_TOKEN_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
