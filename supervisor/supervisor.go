// Package supervisor is the shell around the pure scheduler. It scans the forge, asks threads.Decide what to do, does
// it, and remembers in a journal what the forge cannot.
//
// # One tick
//
// Each inference thread has a loop of its own (loop.go). A tick waits for facts that are new enough (scan.go; one scan
// serves all threads), has the books decide and reserve what is to begin (plan.go), and then acts (tick.go): each
// session (session.go) and each chore, such as a merge or a label (chores.go), in a goroutine of its own.
//
// # State
//
// The forge is the truth about work. What it cannot tell is folded from the journal's records by package ledger, live
// and after a restart by the same code. A line is on the disk before it is acted on.
//
// # Concurrency
//
// The books (books.go) have the facts, the ledger, the running sessions and the chores under one mutex, so no two loops
// take the same agent, item or slot. Every other state belongs to a small type with a mutex of its own. None is held
// during I/O, except that the journal's lock is held while its file is written; it is taken before that of the books.
//
// # Failure
//
// An error of the forge never ends anything: what runs goes on, and nothing starts in a repository that could not be
// read. A panic ends at the boundary of its goroutine, is counted and shown, and costs the tick, session or chore that
// it was in (guard.go).
package supervisor

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/decisions"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/supervisor/receipts"
	"codeberg.org/johba/disinto/supervisor/saved"
	"codeberg.org/johba/disinto/threads"
)

// Supervisor runs a factory. Set the exported fields before Run and leave them alone after it.
type Supervisor struct {
	Forge    Forge
	Executor Executor // of this machine
	// Elsewhere are the executors of threads that name one, by that name.
	Elsewhere map[string]Executor
	Log       hclog.Logger // nil logs nothing
	// Config is nil when there is no valid configuration: Run then stays up, holds everything and shows ConfigError until
	// Reload brings one. Forge may be nil as long as Config is.
	Config      *threads.Config
	ConfigPath  string
	ConfigError error
	StateDir    string   // absolute; created if missing
	Environ     []string // the supervisor's own environment, from which those of agents are made
	Hide        []string // absolute paths, besides StateDir, that no sandboxed session may reach
	// Sandbox says what holds the sessions of a configuration, for the status; nil says nothing.
	Sandbox func(*threads.Config) string
	// Confined reports whether a process belongs to a session in a sandbox, which may not use the control socket. Nil
	// means that none does.
	Confined func(pid int) bool
	// ForgeAPI is the address of a repository's part of the API of the forge at url; nil leaves agents without one.
	ForgeAPI func(url, repo string) string
	Version  string // of the program, for the status document
	// Host names this machine in the labels of issues that are moved away from its agents; empty leaves them without.
	Host string
	// Runner runs the programs of [services]; nil runs none, and then none keeps a session from starting.
	Runner Runner
	// Probe asks an address whether the service behind it can be used: nil when it answers so.
	Probe func(ctx context.Context, url string) error
	// Listen makes the listener of the control API; nil makes a unix socket that only our own user can use.
	Listen func(path string) (net.Listener, error)
	// ListenTCP makes the listeners of [factory] listen and listen_hooks; nil means net.Listen.
	ListenTCP func(address string) (net.Listener, error)
	// Inference asks the servers of local threads; nil asks none.
	Inference Inference
	// Saver returns the server at a thread's base_url, to save conversations of the thread there; nil saves none.
	Saver func(baseURL string) saved.Server
	// Room measures what the machine has left for the state directory's file system; nil means that it does not matter.
	Room func(dir string) threads.Room
	// SaveWork is the command that pushes the work in a workspace which is not on the forge, as a program of the agent.
	// Nil saves none, and such a workspace stays for [factory] keep.
	SaveWork []string
	// ReadHost reads another host of the fleet; nil reads none.
	ReadHost fleet.ReadHost
	// Inherited comes from the last image of this process; nil in the first one. Held is then its lock of the state
	// directory, and Executor has its sessions.
	Inherited *Handover
	Held      *os.File
	// Upgrade replaces this program by that in a file, by way of HandOver; it returns only when that failed. Nil refuses.
	Upgrade func(ctx context.Context, binary string) error
	// Paused begins nothing until a person says resume. Ask does so in a state directory without a journal if the first
	// scan finds work.
	Paused, Ask bool
	// Simulate plays the past again for POST /v1/simulate, until ctx is done; nil refuses. Its errors are refusals.
	Simulate func(ctx context.Context, q WhatIf) (*control.Simulation, error)
	// Advise plays the past with changes of the configuration for POST /v1/advise, as Simulate does.
	Advise func(ctx context.Context, q WhatIf) (*control.Advice, error)
	// Foresee makes a forecast for GET /v1/forecast, `why --until` and the status; nil refuses. Its errors are refusals.
	Foresee func(ctx context.Context, q Foresight) (*control.Forecast, error)
	// LookBack compares two configurations by the newest day of the journal, until ctx is done: with what it has by then.
	// Nil compares none. An error says that there is nothing to compare them by.
	LookBack func(ctx context.Context, q Hindsight) (*control.Hindsight, error)
	// LookForDrift compares the newest days with what the days before them let expect, until ctx is done; nil does not.
	LookForDrift func(ctx context.Context, q Drift) *control.Drift
	// Web is the control room, for [factory] listen_web; nil serves none.
	Web http.Handler
	// Notify tells people what needs them; nil tells none.
	Notify Notifier
	// Decide is the scheduler; nil means threads.Decide.
	Decide func(threads.Snapshot) threads.Plan
	// TraceParent is the W3C traceparent of a session, for its program; nil leaves what Environ has.
	TraceParent func(chain forge.Ref, runID string) string
	// Collector is the address that programs may send their traces to, also from a sandbox; empty without traces.
	Collector string
	// Meters are told what happens.
	Meters Meters
	// Metrics answers GET /metrics, on the control API and on [factory] listen_metrics; nil answers nothing.
	Metrics http.Handler

	once       sync.Once   // for init
	asking     atomic.Bool // the first scan is to show whether a person has to say resume
	simulating atomic.Bool // one simulation at a time
	log        hclog.Logger
	instance   string
	until      context.Context // Run's: done when the supervisor is to stop
	base       context.Context // of what outlives that: sessions and what follows them, merges and marks
	held       *os.File        // the lock of the state directory
	receipts   *receipts.Store // nil when it cannot be used
	unsure     bool            // the journal may have lost sessions; set before the loops begin
	running    sync.WaitGroup  // sessions, chores and commands
	loops      sync.WaitGroup
	events     control.Feed
	changed    chan struct{} // the status document is no longer what was written
	touches    atomic.Int64  // how often it changed
	scanned    chan struct{} // a scan has ended, which may have found commands in comments
	replug     chan struct{} // TCP listeners are to be compared with the configuration
	hub        *fleet.Hub
	fleetFile  *fleet.File
	decisions  *decisions.Recorder

	// What has state, each with a mutex of its own.
	books    *books
	forge    line
	accounts accounts
	scans    scans
	kicks    kicks
	gate     gate
	hints    hints
	problems problems
	clearing clearing
	saves    saves
	servers  servers
	serving  serving
	outlook  outlook

	hindsight hindsight
	drift     drift
}
