// Package agents defines agents and roles, the job of one session, and the outcome that the session returns. It also
// defines the environment contract: the exact set of variables with which an agent's program starts.
//
// All its types are values. Package agents/process starts processes; agents/session is the built-in agent program.
package agents

import (
	"errors"
	"slices"
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
	KindSchedule Kind = "schedule" // do a role's periodic job, without an issue or pull request
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
	Name string // unique; it appears in logs and pull requests
	// RenamedFrom is the name that it had before, under which its pause, usage and history are remembered; or empty.
	RenamedFrom string
	Login       string   // its account on the forge; equals Name unless forge_user is set
	Roles       []string // names of its roles, at least one, in the order of the configuration
	Thread      string   // the thread to which it is assigned
	Model       string   // passed to its program; may be empty
	BaseURL     string   // its own inference endpoint; empty means the thread's
	Token       Secret   // its forge token; an agent without one is never started
	Skills      []string // labels without skill/: it takes issues whose skill labels are all in this list; sorted
	User        string   // the system account under which it runs; empty means the factory's
	Budget      Budget
	Limits      Limits // of each session
	// Escalate lists, in order, the agents that take over work that this agent does not finish. Each takes over after
	// EscalateAfter rejections and failures of the agent before it. Empty means the role's list.
	Escalate      []string
	EscalateAfter int
}

// Role describes which work an agent takes and the program that does it.
type Role struct {
	Name  string
	On    On
	Label string // only items with this label; empty means all items
	// Every is the interval from the end of one scheduled run to the start of the next, and Calendar the times of the
	// runs instead; one of them with OnSchedule, none else.
	Every    time.Duration
	Calendar *Calendar
	Priority int // of scheduled work, 1 to 10
	// Command is the program and its arguments, each a text/template over CommandData. Empty means that the role has no
	// program, and none of its work starts.
	Command []string
	// CLI is the agent CLI that the built-in program runs, such as claude. Command then starts the built-in program.
	// Empty means that Command is the operator's own.
	CLI string
	// Prompt says how the built-in program passes its prompt to a program of the operator's. Command then starts the
	// built-in program, with the operator's command after "--". Empty means that the operator's program does everything.
	Prompt PromptBy
	// Cwd is the working directory of Command; empty means the session's workspace.
	Cwd     string
	Timeout time.Duration // a session is ended after this long
	Stall   time.Duration // a session that neither prints nor uses CPU for this long is ended
	// WaitsForReview says that the program keeps running until the pull request is merged, as upstream's dev-agent
	// does. The review of that pull request can then run at the same time.
	WaitsForReview bool
	Root           bool     // sessions run as the supervisor's own account, with what package managers need if it is root
	Plan           bool     // an issue is planned before it is implemented, and a person approves the plan
	EnvAllow       []string // names or globs of variables that the program gets although they count as secrets
	EnvDeny        []string // names or globs of variables that the program does not get
	Sandbox        Sandbox  // what the configuration adds to the session's sandbox
	// PerSession limits the usage of one session, PerIssue that of all sessions on an issue and its pull requests.
	PerSession, PerIssue Budget

	Escalate      []string // the list for agents whose own is empty; only with OnIssue
	EscalateAfter int
}

// Program returns the program that a session of a role runs, for the role's command line argv, which may be rendered:
// the agent CLI, or else the first word of what the operator wrote.
func (r *Role) Program(argv []string) string {
	if r.CLI != "" && r.CLI != ACP {
		return r.CLI
	}
	return r.Own(argv)[0]
}

// PromptBy is a way to pass a prompt to a program.
type PromptBy string

// The ways to pass a prompt.
const (
	PromptStdin PromptBy = "stdin" // on its standard input
	PromptFile  PromptBy = "file"  // in the file that $DISINTO_PROMPT names
)

// BuiltIn reports whether the role's program is the built-in one, which runs a CLI or a program of the operator's.
func (r *Role) BuiltIn() bool { return r.CLI != "" || r.Prompt != "" }

// Own returns the operator's program and its arguments in the role's command line argv, which may be rendered.
func (r *Role) Own(argv []string) []string {
	if !r.BuiltIn() {
		return argv
	}
	return argv[slices.Index(argv, "--")+1:]
}

// CommandData holds the fields that the templates of Role.Command may use.
type CommandData struct {
	Repo   string // owner/name
	Number int64  // of the issue or pull request; 0 for scheduled work
	Issue  int64  // the issue that the pull request implements; for other items the same as Number
	Agent  string
	Role   string
	Thread string
	Model  string
	Kind   Kind
}

// Job describes one session completely: the executor looks nothing up.
type Job struct {
	RunID    string
	Instance string // of the supervisor; run ids begin with it
	Agent    string
	Role     string
	Thread   string
	Kind     Kind
	Repo     string
	Number   int64
	Issue    int64 // of the chain; 0 for scheduled work
	// Service is the name of the service whose command this is; empty for a session. A service runs at the supervisor's
	// priority, and when memory runs out the kernel does not prefer to kill it.
	Service string   `json:",omitempty"`
	Command []string // at least the program
	Dir     string   // working directory; created if missing
	Home    string   // the agent's own HOME; created 0700 for its user
	// Workspace and HomeKey name Dir and Home for an executor that stores folders of its own: agent/owner_repo_12 and
	// agent. They are the same for all sessions of the agent on the chain.
	Workspace, HomeKey string
	Env                []string // the environment without Secrets
	// Secrets are the variables of the environment that other accounts must not be able to read, as NAME=value.
	Secrets []string `json:"-"`
	User    string   // system account to run as; empty means the supervisor's own
	// Root lets a session that runs as root keep the capabilities with which package managers work.
	Root bool `json:",omitempty"`
	// OwnUser says that only this agent's sessions, one at a time, run as User.
	OwnUser bool
	Limits  Limits
	Sandbox Sandbox
	// Tmp is the session's own folder for temporary files, deleted when the session ends; empty means none.
	Tmp        string
	LogPath    string // where stdout and stderr go; created 0600
	MaxLog     int64  // bytes of disk that the log can use; 0 means no limit
	ResultPath string // where the program can leave a result; does not exist before the start
	// Spent is called with the usage that the program has reported so far, each time it has grown. The session's
	// goroutine calls it, so it must not block. nil means that the caller does not need it.
	Spent func(Usage) `json:"-"`
	// Doing is called likewise with the phase in which the program says it is, each time that changes.
	Doing func(Doing) `json:"-"`
	// BackendURL is the program's local inference server. The server can compute for minutes while the program is
	// silent, so the executor queries it before it declares a session stalled. Empty means that there is no such
	// server.
	BackendURL string
	Timeout    time.Duration
	Stall      time.Duration
	Grace      time.Duration // from TERM to KILL
	// Hurry is closed to end the grace of a program that is being ended. nil means that its grace lasts.
	Hurry <-chan struct{} `json:"-"`
	// StopSignal is one of StopSignals, which the program gets instead of TERM, alone: what it leaves behind gets TERM
	// when it has ended. Empty means TERM to all its processes.
	StopSignal string `json:",omitempty"`

	// Claim is the commit of the claim's ref on the forge; empty if the claim has no ref, or nothing is claimed.
	Claim string
	// Place is where the chain's last session ran; its workspace may still exist there. Empty means unknown.
	Place string
	Nodes []NodeRule // what a node must have, for an executor that chooses among several
	// Target says where in its cluster the session runs, and how.
	Target Target
	// Priority is the item's, 1 (most urgent) to 10; 0 means unknown.
	Priority int
}

// StopSignals are the signals by which programs are asked to end, as httpd by WINCH and Postgres by INT.
var StopSignals = []string{"HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH"}

// NodeRule is a condition on an attribute of a node, such as meta.llama. Operator is one of Nomad's; empty means "=".
type NodeRule struct {
	Attribute string
	Operator  string `json:",omitempty"`
	Value     string // empty with the operators is_set and is_not_set
}

// Target is a part of a cluster, and the driver that starts sessions there. An empty field means the cluster's default.
type Target struct {
	Namespace   string   `json:",omitempty"`
	Pool        string   `json:",omitempty"` // of nodes
	Datacenters []string `json:",omitempty"`
	Driver      string   `json:",omitempty"` // DriverExec, DriverDocker, or empty for Nomad's raw_exec
	Image       string   `json:",omitempty"` // with DriverDocker
}

// Drivers of Nomad that isolate a session from its node.
const (
	DriverExec   = "exec"
	DriverDocker = "docker"
)

// Started is the executor's report that the program runs.
type Started struct {
	PID     int // of the program itself; 0 on another machine
	At      time.Time
	Place   string // node and allocation, such as box2/1f0c33aa; empty on this machine
	Sandbox string // describes the restrictions that apply, for people; empty without a sandbox
}

// Activity is the state of a session while it runs.
type Activity struct {
	LastOutput time.Time // when its program last printed something
	PID        int       // 0 on another machine
	Place      string    // as in Started
}

// ErrDetached is the cause of a context that is cancelled because the supervisor stops while the session continues.
var ErrDetached = errors.New("the supervisor stops, and the session continues")

// Result is the class of an outcome; it alone decides what happens next (section 7 of the design).
type Result string

// The results.
const (
	Done        Result = "done"
	Refused     Result = "refused"      // the program reports that the item cannot be worked on in its present state
	Failed      Result = "failed"       // the program reported a failure, or could not be started
	Question    Result = "question"     // the agent asks people a question, and continues with their answer
	Planned     Result = "plan"         // the agent wrote the requested plan, and no code
	NoProgress  Result = "no-progress"  // the program succeeded, but nothing on the forge changed
	Stalled     Result = "stalled"      // ended by the supervisor: silent and idle for too long
	TimedOut    Result = "timeout"      // ended by the supervisor: ran for too long
	Limited     Result = "limited"      // a usage limit: the thread waits until RetryAt
	BackendDown Result = "backend-down" // the inference backend did not answer
	// Unanswered is a session in which the model never answered, although its backend is not known to be down: the
	// account, the configuration or the program is at fault, such as a missing credit. It says nothing about the item.
	Unanswered Result = "no-answer"
	// Killed is a session that something outside ended with SIGKILL, such as the kernel of a machine without memory. It
	// says nothing about the item, either.
	Killed      Result = "killed"
	PushRefused Result = "push-refused" // the work is done, and the forge refuses the push
	TooBig      Result = "too-big"      // a reviewer was not shown all of the change, and asked for none
	NoRoom      Result = "no-room"      // the machine has no room for another process, or the disk none for its result
	NoPlace     Result = "no-place"     // never started: no node can run it
	Looped      Result = "loop"         // ended because the agent repeated itself
	OverBudget  Result = "over-budget"  // reached a budget
	Cancelled   Result = "cancelled"    // ended by the supervisor: the item was closed or changed, or a person asked
	ClaimFailed Result = "claim-failed" // never started: the claim on the item failed
	// TokenRejected is a failure during which the forge rejected the agent's token, or a request made with it.
	TokenRejected Result = "token-rejected"
	// SetupFailed is a session whose repository could not be set up at its base commit. It says nothing about the item.
	SetupFailed Result = "setup-failed"
	Lost        Result = "lost" // the supervisor died while it ran
)

// Results are the results of sessions that claimed their item, in the order of the constants.
var Results = []Result{
	Done, Refused, Failed, Question, Planned, NoProgress, Stalled, TimedOut, Limited, BackendDown, Unanswered, Killed,
	PushRefused, TooBig, NoRoom, NoPlace, Looped, OverBudget, Cancelled, TokenRejected, SetupFailed, Lost,
}

// Claimable reports whether a program can report this result about itself.
func (r Result) Claimable() bool {
	switch r {
	case Done, Refused, Question, Planned, Failed, NoProgress, Limited, BackendDown, Unanswered, Killed, Looped,
		OverBudget, PushRefused, TooBig, SetupFailed:
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

// Fails reports whether the session failed, whoever is to blame.
func (r Result) Fails() bool { return r.BurnsAttempt() || r == Unanswered || r == Killed }

// Wasted reports whether the session came to nothing, whoever is to blame: it was neither done, nor ended with a
// question, a plan or a refusal, and nobody cancelled it. Of an empty result, as in old journals, nothing is known.
func (r Result) Wasted() bool {
	switch r {
	case Done, Question, Planned, Refused, Cancelled, "":
		return false
	}
	return true
}

// Usage is the consumption of a session as its program reported it. Zero means unknown.
type Usage struct {
	InputTokens  int64   `json:"input_tokens"` // without CachedTokens
	CachedTokens int64   `json:"cached_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CostUSD      float64 `json:"cost_usd"`
	// CacheUntold says that the program reported how many tokens it read, but not how many of them came from a cache.
	CacheUntold bool `json:"cache_untold,omitempty"`
	// Estimated says that CostUSD is not what the program reported, but computed from its tokens.
	Estimated bool `json:"cost_estimated,omitempty"`
}

// Hit is the fraction of the tokens read that came from a cache, from 0 to 1. known is false if the program did not
// report it.
func (u Usage) Hit() (share float64, known bool) {
	read := u.InputTokens + u.CachedTokens
	if u.CacheUntold || read <= 0 {
		return 0, false
	}
	return float64(u.CachedTokens) / float64(read), true
}

// Resumption describes the first model response of a session on a local server. The session continued a conversation,
// or its prompt began like that of the chain's last session.
type Resumption struct {
	Cached   int64 `json:"cached_tokens"`   // tokens of that request's prompt that the cache held
	Computed int64 `json:"computed_tokens"` // the other tokens of the prompt
	// Changed is the first line of our prompt that differs from the last session's, with its number, such as "line 12:
	// the text". It is empty if the session continued the conversation itself.
	Changed string `json:"changed,omitempty"`
}

// Hit is the fraction of the prompt that came from a cache, from 0 to 1.
func (r *Resumption) Hit() float64 {
	share, _ := Usage{InputTokens: r.Computed, CachedTokens: r.Cached}.Hit()
	return share
}

// Bounded returns the resumption with plausible numbers and a single line of text.
func (r *Resumption) Bounded() *Resumption {
	u := Usage{InputTokens: r.Computed, CachedTokens: r.Cached}.Bounded()
	return &Resumption{Cached: u.CachedTokens, Computed: u.InputTokens, Changed: oneLine(r.Changed)}
}

// Bounds on the usage of one session. The largest sessions seen had 20 million tokens and cost $60.
const (
	MaxTokens = 1_000_000_000
	MaxUSD    = 10_000
)

// Bounded returns the usage with each number limited to its range. A program's numbers are summed, budgeted and shown:
// twice 1.7e308 is infinite, which JSON cannot represent.
func (u Usage) Bounded() Usage {
	u.InputTokens, u.CachedTokens = min(max(u.InputTokens, 0), MaxTokens), min(max(u.CachedTokens, 0), MaxTokens)
	u.OutputTokens = min(max(u.OutputTokens, 0), MaxTokens)
	if !(u.CostUSD >= 0) { // also true of NaN
		u.CostUSD = 0
	}
	u.CostUSD = min(u.CostUSD, MaxUSD)
	return u
}

// Tokens is the number that counts against a budget: tokens read and written, without those from a cache.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Max returns the larger value of each field of two usages.
func (u Usage) Max(v Usage) Usage {
	_, told := u.Hit()
	_, also := v.Hit()
	return Usage{
		InputTokens: max(u.InputTokens, v.InputTokens), CachedTokens: max(u.CachedTokens, v.CachedTokens),
		OutputTokens: max(u.OutputTokens, v.OutputTokens), CostUSD: max(u.CostUSD, v.CostUSD),
		CacheUntold: (u.CacheUntold || v.CacheUntold) && !told && !also, Estimated: u.Estimated || v.Estimated,
	}
}

// Add returns the sum of two usages, bounded.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens: u.InputTokens + v.InputTokens, CachedTokens: u.CachedTokens + v.CachedTokens,
		OutputTokens: u.OutputTokens + v.OutputTokens, CostUSD: u.CostUSD + v.CostUSD,
		CacheUntold: u.CacheUntold || v.CacheUntold, Estimated: u.Estimated || v.Estimated,
	}.Bounded()
}

// Less returns the usage minus a part of it.
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
	RetryAt   time.Time // with Limited, when the limit is lifted; zero means unknown
	SessionID string    // the program's own id of its conversation, for resuming it; may be empty
	Usage     Usage
	Steps     []Step      // the commands that ran beside the agent, in order
	Verified  *Verified   // nil if the work was not verified
	Resumed   *Resumption // nil if the session continued no conversation, or the program does not report it
	Heard     int         // how many messages of its inbox the agent has heard
	// Claimed says that the program left a result. Without a result the exit status shows how the program ended but not
	// what it achieved, and the supervisor must query the forge.
	Claimed  bool
	ExitCode int           // -1 when a signal ended it
	Signal   string        // such as SIGKILL; empty when it exited
	CPU      time.Duration // user and system time of the whole tree
	MaxRSS   int64         // bytes, of the largest process
	Tail     string        // the last lines of output, secrets redacted
	Digest   string        // SHA-256 of the result that the program left, in hex; empty if it left none
	Refused  Refusals      // the hosts that its egress did not allow
	Seen     *Seen         // nil if the executor observed nothing
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
