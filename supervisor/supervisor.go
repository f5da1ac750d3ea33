// Package supervisor is the shell around the pure scheduler. It scans the forge, asks threads.Decide what to do, does it,
// and remembers in a journal what the forge cannot.
//
// # One tick
//
// Each inference thread has a loop of its own (loop.go). A tick waits for facts that are new enough (scan.go; one scan serves
// all threads), decides under the lock and reserves what it starts (tick.go), and acts outside the lock: each session (session.go),
// merge and label (chores.go) in a goroutine of its own. What a session leads to is a table (outcome.go).
//
// # State
//
// The forge is the truth about work. What it cannot tell is the fold of the journal's records (journal.go, record.go,
// package ledger), live and after a restart by the same code. A line is on the disk before anything is done about it.
//
// # Concurrency
//
// One mutex guards all state and is never held during I/O. Decisions are made under it, so no two loops can take the same
// agent, item or slot. The journal has a lock of its own for its file, taken before the mutex.
//
// # Failure
//
// An error of the forge never ends anything: what runs goes on, and nothing starts in a repository that could not be
// read. A panic in a tick is caught, counted and shown; elsewhere it ends the program, and the next start recovers.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Executor runs the programs of sessions. Its methods may be called from several goroutines at once.
type Executor interface {
	// Run runs a job's program and returns when no process of the session is left. When ctx is done it ends them, within
	// about the job's grace, and the outcome is Cancelled with the context's cause as the reason. It calls started once, from
	// any goroutine, when the program runs; never, if that could not be started. Every failure is an Outcome with a Result
	// and, unless that is Done, a Reason. A run id may be run again after Run has returned. For a session that this process
	// inherited from its last image, Run starts nothing: the job has only its RunID, started may be nil, and Run waits for
	// the program that runs.
	Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome
	// Activity returns when the program of a run last printed something, and its process number. ok is false for a run that
	// is unknown, has ended or has not started its program. It is asked for every status and must be fast.
	Activity(runID string) (lastOutput time.Time, pid int, ok bool)
}

// Supervisor runs a factory. Set the exported fields before Run and leave them alone after it.
type Supervisor struct {
	Forge    Forge
	Executor Executor
	Log      hclog.Logger // nil logs nothing
	// Config is nil when there is no valid configuration: Run then stays up, holds everything and shows ConfigError until
	// Reload brings one. Forge may be nil as long as Config is.
	Config      *threads.Config
	ConfigPath  string
	ConfigError error
	StateDir    string   // absolute; created if missing
	Environ     []string // the supervisor's own environment, from which those of agents are made
	// ForgeAPI is the address of a repository's part of the API of the forge at url; nil leaves agents without one.
	ForgeAPI func(url, repo string) string
	Version  string // of the program, for the status document
	// EndStale ends every process that an earlier supervisor of this instance left behind. Nil does nothing.
	EndStale func(ctx context.Context, instance string) (int, error)
	// Listen makes the listener of the control API; nil makes a unix socket that only our own user can use.
	Listen func(path string) (net.Listener, error)
	// ListenTCP makes the listeners of [factory] listen and listen_hooks; nil means net.Listen.
	ListenTCP func(address string) (net.Listener, error)
	// Room measures what the machine has left for the state directory's file system; nil means that it does not matter.
	Room func(dir string) threads.Room
	// ReadHost reads another host of the fleet; nil reads none.
	ReadHost fleet.ReadHost
	// Inherited is what the last image of this process left; nil in the first one. Held is then its lock of the state
	// directory, and Executor has its sessions.
	Inherited *Handover
	Held      *os.File
	// Upgrade replaces this program by that in a file, by way of HandOver; it returns only when that failed. Nil refuses.
	Upgrade func(ctx context.Context, binary string) error
	// Decide is the scheduler; nil means threads.Decide.
	Decide func(threads.Snapshot) threads.Plan

	once     sync.Once // for init
	log      hclog.Logger
	journal  *journal.File
	instance string
	started  time.Time
	until    context.Context // Run's: done when the supervisor is to stop
	base     context.Context // of what outlives that: sessions and what follows them, merges and marks
	running  sync.WaitGroup  // sessions, merges and marks
	loops    sync.WaitGroup
	events   control.Feed
	changed  chan struct{} // the status document is no longer what was written
	replug   chan struct{} // TCP listeners are to be looked at
	hub      *fleet.Hub
	held     *os.File // the lock of the state directory

	fleetFile *fleet.File

	mu         sync.Mutex // guards what follows; never held during I/O
	looping    bool       // stale processes are ended, loops may begin
	client     Forge
	config     *threads.Config
	configErr  error
	generation int
	facts      forge.Facts
	history    *ledger.State
	plan       threads.Plan
	sessions   map[string]*session
	busy       map[forge.Ref]int // what is being written to right now, counted
	chores     map[choreKey]*chore
	verified   map[agents.Secret]string // token to login
	admitted   map[workplace]bool       // whose account may work where
	kicks      map[string]*kick         // one for each loop that runs
	forgetAt   time.Time
	scans      scans
	problems   problems
	upkeep     upkeep
	hinted     time.Time // when a web hook last had the forge scanned
	hintDue    bool      // another one waits to do so
	handing    bool      // nothing begins: another image takes over
	entered    int       // commands under way
	upgrades   int       // images before this one
	upgraded   time.Time // when this one took over
	hookWarned time.Time // when the log last told of a hook with a wrong signature
}

// Run works until ctx is done, then ends every session within the grace, releases its claim, and returns nil. The error
// is one line about why it could not begin.
func (s *Supervisor) Run(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	s.init()
	held, err := s.enter()
	if err != nil {
		return err
	}
	defer held.Close()
	base, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	s.until, s.base, s.held = ctx, base, held
	inherited := s.inherit()
	closeAPI, err := s.serve()
	if err != nil {
		return errors.Join(err, s.journal.Close())
	}
	closePorts := s.keepPorts()
	written, untold := s.keepStatusFile(), s.keepFleetFile()
	if inherited || s.endStale(ctx) == nil {
		s.startLoops()
		<-ctx.Done()
	}
	s.shutdown(abandon)
	untold()
	closePorts()
	closeAPI()
	written()
	return s.journal.Close()
}

// check says what is wrong with the exported fields.
func (s *Supervisor) check() error {
	if !filepath.IsAbs(s.StateDir) {
		return fmt.Errorf("internal error: the state directory %q is not absolute", s.StateDir)
	}
	if s.Config != nil && (s.Forge == nil || s.Executor == nil) {
		return errors.New("internal error: a configuration without a forge or an executor")
	}
	return nil
}

// init fills in what is derived from the exported fields. Whatever is called first does it: a question or a reload may
// come while Run is still on its way.
func (s *Supervisor) init() {
	s.once.Do(func() {
		s.log = s.Log
		if s.log == nil {
			s.log = hclog.NewNullLogger()
		}
		if s.Decide == nil {
			s.Decide = threads.Decide
		}
		s.started = time.Now()
		s.changed, s.replug = make(chan struct{}, 1), make(chan struct{}, 1)
		s.client, s.config, s.configErr = s.Forge, s.Config, s.ConfigError
		if s.config != nil {
			s.generation = 1
		}
		s.history = ledger.New()
		s.sessions = make(map[string]*session)
		s.busy = make(map[forge.Ref]int)
		s.chores = make(map[choreKey]*chore)
		s.verified, s.admitted = make(map[agents.Secret]string), make(map[workplace]bool)
		s.kicks = make(map[string]*kick)
		s.hub = fleet.NewHub(aroundHub{s}, s.ReadHost, s.log)
	})
}

// enter takes the state directory and brings its memory back.
func (s *Supervisor) enter() (held *os.File, err error) {
	// Agents with accounts of their own pass through to their folders; every file in it is ours alone.
	if err := os.MkdirAll(s.StateDir, 0o711); err != nil {
		return nil, fmt.Errorf("cannot create the state directory: %w", err)
	}
	if held = s.Held; held != nil {
		err = journal.Relock(held)
	} else {
		held, err = journal.Lock(s.StateDir)
	}
	if err != nil {
		return nil, err
	}
	if s.instance, err = journal.Instance(s.StateDir); err == nil {
		err = s.remember()
	}
	if err != nil {
		held.Close()
		return nil, err
	}
	return held, nil
}

// remember folds the journal, ends the sessions that the last supervisor left open, and starts the journal afresh. What
// keeps it from being rewritten, such as a full disk, keeps nothing else from working.
func (s *Supervisor) remember() error {
	j, records, corrupt, err := journal.Open(s.StateDir)
	if err != nil {
		return err
	}
	s.journal = j
	now := time.Now()
	s.tell(s.foldAll(records, now)...)
	if len(corrupt) > 0 {
		s.mu.Lock()
		s.problems.corrupt = len(corrupt)
		s.mu.Unlock()
		s.log.Error(fmt.Sprintf("%d lines of the journal are corrupt and are set aside in journal.corrupt", len(corrupt)))
		err = j.SetAside(corrupt)
	}
	if err == nil {
		err = s.compact()
	}
	s.journalled(err)
	return nil
}

// foldAll makes all of a journal true, and then that its open sessions are lost.
func (s *Supervisor) foldAll(records []ledger.Record, now time.Time) (news []notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := now
	for _, r := range records {
		s.history.Apply(r)
		if r.At.After(newest) {
			newest = r.At
		}
	}
	s.history.TurnBack(newest, now)
	const why = "the supervisor ended under it"
	for _, run := range slices.Sorted(maps.Keys(s.history.Open)) {
		if s.inherits(run) {
			continue
		}
		o := s.history.Open[run]
		s.history.Apply(ledger.Record{At: now, End: &ledger.End{Run: run, Result: agents.Lost, Reason: why}})
		news = append(news, notice{bad: true, words: tag(s.config, o.Agent, forge.Ref(o.Item.Ref)) + " lost: " + why})
	}
	return news
}

// endStale ends what the last supervisor of this state directory left running. Nothing is released or started before
// that: outside a PID namespace agents outlive a kill -9.
func (s *Supervisor) endStale(ctx context.Context) error {
	if s.EndStale == nil {
		return nil
	}
	n, err := s.EndStale(ctx, s.instance)
	if n > 0 {
		s.log.Warn(fmt.Sprintf("ended %d processes that an earlier supervisor left behind", n))
	}
	return err
}

const (
	// releaseTime is how long releases may take while the supervisor stops.
	releaseTime = 2 * time.Second
	// stopGrace is the grace when there is no configuration to say another.
	stopGrace = 7 * time.Second
)

// shutdown ends all sessions and waits for them and their releases, but not for ever: Docker kills after 10 s, and what
// was not released by then is released at the next start. Run's context is done, so that whoever decides after us commits
// nothing; what was committed before is in the table.
func (s *Supervisor) shutdown(abandon func()) {
	s.mu.Lock()
	grace := stopGrace
	if s.config != nil {
		grace = s.config.Factory.StopGrace
	}
	for _, x := range s.sessions {
		x.cancel(errShutdown)
	}
	n := len(s.sessions)
	s.mu.Unlock()
	if n > 0 {
		s.log.Info(fmt.Sprintf("stopping: %d sessions are ended, within %s", n, grace))
	}
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		s.loops.Wait()
		close(done)
	}()
	limit := time.NewTimer(grace + releaseTime)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		abandon()
		s.log.Warn("stopped before every claim was released: the next start does that")
	}
}
