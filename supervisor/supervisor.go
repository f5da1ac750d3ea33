// Package supervisor is the shell around the pure scheduler. It scans the forge, calls threads.Decide, carries out the
// plan, and journals what the forge cannot store.
//
// # Subjects
//
// Supervisor has the settings and wires the subjects together (wiring.go, run.go). Each subject is a type of its own
// that embeds a *core (core.go): scanner, planner, sessionRunner, clerk, convoys, commands, conversation, pausing,
// history, inference, serviceRunner, receipting and cleaner.
//
// # One tick
//
// The planner has a loop for each inference thread (loop.go). A tick waits for facts that are new enough (scan.go; one
// scan serves all threads), asks the state to decide and reserve (plan.go), and then acts (tick.go): each session
// (session.go) and each chore, such as a merge or a label (chores.go), runs in a goroutine of its own. One plan also
// serves all threads, each of which commits its own starts, until something changes (shared.go).
//
// # State
//
// The forge is the truth about work. The rest is folded from the journal's records by package ledger; the running
// supervisor and a restarted one use the same code. A record of an action is on the disk before the action starts.
//
// # Concurrency
//
// The state (state.go) holds the facts, the ledger, the running sessions, the chores and the plan under one mutex, so
// no two loops take the same agent, item or slot. All other state belongs to small types with a mutex each. No mutex is
// held during I/O, except the journal's lock while its file is written. The journal's lock is taken before that of the
// state.
//
// # Failure
//
// An error of the forge never ends the supervisor: running sessions continue, and nothing starts in a repository that
// could not be read. A panic ends at the boundary of its goroutine. It is counted and shown, and costs only the tick,
// session or chore in which it happened (guard.go).
package supervisor

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/supervisor/saved"
	"codeberg.org/johba/disinto/threads"
)

// Supervisor runs a factory. Set the exported fields before Run and do not change them afterwards.
type Supervisor struct {
	Forge    Forge
	Executor Executor // for sessions on this machine
	// Elsewhere has the other executors, by the name that a thread's configuration gives.
	Elsewhere map[string]Executor
	Log       hclog.Logger // nil discards every line
	// Config is nil without a valid configuration: Run then stays up, starts nothing and shows ConfigError until Reload
	// sets one. Forge may be nil as long as Config is.
	Config      *threads.Config
	ConfigPath  string
	ConfigError error
	StateDir    string   // absolute; created if missing
	Environ     []string // the supervisor's own environment, from which the agents' environments are derived
	Hide        []string // more absolute paths, beside StateDir, that no sandboxed session may reach
	// Exposed returns a file whose secrets others could read until now, "" without one; so does nil.
	Exposed func() string
	// Sandbox describes the sandbox of a configuration's sessions, for the status; nil leaves it out.
	Sandbox func(*threads.Config) string
	// Confined reports whether a process belongs to a sandboxed session. Such a process may not use the control socket.
	// Nil means that no process is confined.
	Confined func(pid int) bool
	// ForgeAPI returns the API address of a repository on the forge at url; nil leaves agents without one.
	ForgeAPI func(url, repo string) string
	Version  string // the program's version, for the status document
	// Host names this machine in the labels of issues that another host steals from its agents; empty adds no such label.
	Host string
	// Runner runs the programs of [services]. Nil runs none, and then no service holds back a session.
	Runner Runner
	// Stdout receives the output of services with stdout = true; its Write must not block. Nil drops it.
	Stdout io.Writer
	// Probe returns nil if the service at an address is ready.
	Probe func(ctx context.Context, url string) error
	// Listen opens the listener of the control API; nil opens a unix socket that only our own user can use.
	Listen func(path string) (net.Listener, error)
	// ListenTCP opens the listeners of [factory] listen and listen_hooks; nil means net.Listen.
	ListenTCP func(address string) (net.Listener, error)
	// Inference queries the servers of local threads; nil queries none.
	Inference Inference
	// Saver returns the server at a thread's base_url, on which the thread's conversations are saved; nil saves none.
	Saver func(baseURL string) saved.Server
	// Room measures the free memory and the free disk of the state directory's file system. Nil means that neither limits
	// starts.
	Room func(dir string) threads.Room
	// SaveWork is a command that pushes the unpushed work in a workspace. It runs as a program of the agent. Nil pushes
	// nothing, and a workspace with unpushed work stays until [factory] keep has passed.
	SaveWork []string
	// ReadHost reads another host of the fleet; nil reads none.
	ReadHost fleet.ReadHost
	// PID is the process that people signal: the init, if there is one. 0 means this process.
	PID int
	// Started is when the init started that starts a supervisor again after its death; zero without an init. Upgrades and
	// Crashes count its earlier supervisors that ended for an upgrade, and those that died. CrashWhy is how the last one
	// died, such as "killed by SIGKILL"; empty if it ended for an upgrade, and for the first.
	Started           time.Time
	Upgrades, Crashes int
	CrashWhy          string
	// Held is the lock of the state directory, if the init keeps it; nil locks the directory.
	Held *os.File
	// Ready is called once this supervisor has its state and serves requests. It may be nil.
	Ready func()
	// Upgrade replaces this program by the one in a file, through Quiet. It returns only if that fails. Nil refuses
	// upgrades.
	Upgrade func(ctx context.Context, binary string) error
	// Stop ends this program, and its init, as a person would; nil refuses a drain that stops.
	Stop func()
	// Paused starts nothing until a person resumes the factory. Ask does the same if the state directory has no journal
	// and the first scan finds work.
	Paused, Ask bool
	// IgnoreNewer sets the records of a newer version aside; otherwise Run refuses a journal with them.
	IgnoreNewer bool
	// Foresee makes a forecast for GET /v1/forecast, `why --until` and the status. Its errors are refusals. Nil refuses
	// the request.
	Foresee func(ctx context.Context, q Foresight) (*control.Forecast, error)
	// Web is the control room, for [factory] listen_web; nil serves none.
	Web http.Handler
	// Notify notifies people; nil sends nothing.
	Notify Notifier
	// Decide is the scheduler; nil means threads.Decide.
	Decide func(threads.Snapshot) threads.Plan
	// TraceParent returns the W3C traceparent of a session, for its program; nil keeps the one in Environ.
	TraceParent func(chain forge.Ref, runID string) string
	// Collector is the address to which programs may send traces, even from a sandbox; empty without traces.
	Collector string
	// Meters count events.
	Meters Meters
	// Metrics answers GET /metrics, on the control API and on [factory] listen_metrics; nil serves no metrics.
	Metrics http.Handler

	core
	once   sync.Once     // guards init
	replug chan struct{} // the TCP listeners must be compared with the configuration
	hub    *fleet.Hub

	// Each of these has a mutex of its own.
	scanner      scanner
	sessions     sessionRunner
	receipting   receipting
	services     serviceRunner
	cleaner      cleaner
	clerk        clerk
	convoys      convoys
	inference    inference
	pausing      pausing
	planner      planner
	commands     commands
	history      history
	conversation conversation
}
