// Package simtest runs the real supervisor with a forge in memory and an executor that sleeps, in the virtual time of
// testing/synctest. A night of work takes milliseconds, and a test can check events to the minute.
//
// A World outlives its supervisors: it has the forge, the state directory and the record of sessions. A Life is one
// supervisor in it. A Life ends by Stop, which is SIGTERM, or by Kill, after which it has no effect on the world. All
// of it must be used inside one synctest bubble.
package simtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
)

// World is a factory without its supervisor.
type World struct {
	T      testing.TB
	Forge  *Forge
	Exec   *Executor
	Engine *Engine // nil if all sessions run on this machine
	Shims  *Engine // runs the sessions on this machine; nil if they die with their supervisor
	Config *threads.Config
	Dir    string // the state directory of the next life
	Log    Log
	Host   string // the instance and the host of its supervisors, until one gets a new identity
	lives  int
	own    atomic.Pointer[string] // the identity of the first life's state directory
}

// New returns a world with the configuration of Factory. Every issue gets a pull request after ten minutes, and its
// approval after another five. In make test the world is Slow, unless the test says otherwise.
func New(t testing.TB) *World {
	w := &World{T: t, Forge: NewForge(), Exec: &Executor{}, Config: Factory(), Dir: t.TempDir(), Host: home}
	for _, a := range w.Config.Agents {
		w.Forge.Tokens[a.Token.Reveal()] = a.Login
	}
	for _, th := range w.Config.Threads {
		if !th.Overlap {
			w.Exec.Sticky = append(w.Exec.Sticky, th.Name)
		}
	}
	w.Exec.Script = w.Work
	if !Storms() {
		w.Slow()
	}
	return w
}

// Work is the script of good agents.
func (w *World) Work(job agents.Job, _ int) Script {
	switch job.Kind {
	case agents.KindIssue:
		return Script{Takes: 10 * time.Minute, Do: func() { w.Forge.Open(job.Number, job.Agent) }}
	case agents.KindReview:
		return Script{Takes: 5 * time.Minute, Do: func() { w.Forge.Review(job.Number, job.Agent, forge.Approved) }}
	case agents.KindRework:
		return Script{Takes: 8 * time.Minute, Do: func() { w.Forge.Push(job.Number) }}
	}
	return Script{Takes: time.Minute}
}

// Factory is a configuration with an API thread for reviews and a local thread with two sticky slots.
func Factory() *threads.Config {
	command := []string{"work"}
	agent := func(name, role, thread string) agents.Agent {
		return agents.Agent{
			Name: name, Login: name, Roles: []string{role}, Thread: thread, Token: agents.Secret("token-of-" + name),
		}
	}
	return &threads.Config{
		Name: "factory.toml",
		Forge: threads.Forge{
			URL: "http://forge", Token: "token-of-disinto", Repos: []string{Repo}, Bots: []string{"dev-elsewhere"},
			MergeAuto: true, MaxUnreviewed: 3, MaxReviewRounds: 5, MaxCIFixes: 3,
			MaxReviewsHour: 6, MaxSessionsDay: 100,
		},
		Factory: threads.Factory{StopGrace: 7 * time.Second},
		Threads: []threads.Thread{
			{
				Name: "anthropic", Backend: threads.API, Slots: 1, Overlap: true, MaxSessions: 2, Interval: 5 * time.Second,
				IdleInterval: 30 * time.Second, BreakerInterval: 5 * time.Minute, Agents: []string{"review-opus", "review-sonnet"},
			},
			{
				Name: "llama", Backend: threads.Local, Slots: 2, MaxSessions: 2, Interval: 5 * time.Second,
				IdleInterval: 30 * time.Second, BreakerInterval: 5 * time.Minute, Agents: []string{"dev-coder", "dev-qwen"},
			},
		},
		Agents: []agents.Agent{
			agent("dev-coder", "dev", "llama"), agent("dev-qwen", "dev", "llama"),
			agent("review-opus", "review", "anthropic"), agent("review-sonnet", "review", "anthropic"),
		},
		Roles: []agents.Role{
			{Name: "dev", On: agents.OnIssue, Priority: 5, Command: command, Timeout: 2 * time.Hour, Stall: 15 * time.Minute},
			{
				Name: "review", On: agents.OnReview, Priority: 5, Command: command, Timeout: 2 * time.Hour,
				Stall: 15 * time.Minute,
			},
		},
	}
}

// Slow sets all intervals to three minutes, which makes a virtual day faster to play. No step of the work should wait
// for a scan.
func (w *World) Slow() { w.poll(3*time.Minute, 3*time.Minute) }

// Minutely sets all intervals to a minute, for tests of scans and of what a supervisor repeats.
func (w *World) Minutely() { w.poll(time.Minute, time.Minute) }

// Usual sets the default intervals of factory.toml.
func (w *World) Usual() { w.poll(5*time.Second, 30*time.Second) }

func (w *World) poll(interval, idle time.Duration) {
	for i := range w.Config.Threads {
		w.Config.Threads[i].Interval, w.Config.Threads[i].IdleInterval = interval, idle
	}
}

// Life is one supervisor from its start to its end.
type Life struct {
	*supervisor.Supervisor
	Killed chan struct{} // closed by a kill
	w      *World
	cancel context.CancelFunc
	ended  chan error
	power  *power
}

// Start starts a life. The options change the supervisor before it runs.
func (w *World) Start(options ...func(*Life)) *Life {
	w.T.Helper()
	w.lives++
	l := &Life{w: w, ended: make(chan error, 1), Killed: make(chan struct{})}
	l.power = &power{life: l}
	client := newClient(w.Forge, w.Host, w.Host, l.power.use)
	client.instance = l.identity
	l.Supervisor = &supervisor.Supervisor{
		Forge: client, Executor: &executor{w.Exec, l.power}, Config: w.Config,
		ConfigPath: "factory.toml",
		StateDir:   w.Dir, Environ: []string{"PATH=/bin"}, Version: "test",
		Listen: func(string) (net.Listener, error) { return NewListener(), nil },
		Log:    hclog.New(&hclog.LoggerOptions{Output: &w.Log, Level: hclog.Debug, TimeFormat: "15:04:05"}),
	}
	if w.Shims != nil {
		l.Executor = &shimsClient{engineClient{w.Shims, l.power}}
		l.Meters.Synced = func(time.Duration) { _ = l.power.use("synced", func() error { return nil }) }
	}
	if w.Engine != nil {
		l.Elsewhere = map[string]supervisor.Executor{threads.ExecutorNomad: &engineClient{w.Engine, l.power}}
	}
	for _, o := range options {
		o(l)
	}
	ctx, cancel := context.WithCancel(w.T.Context())
	l.cancel = cancel
	go func() { l.ended <- l.Run(ctx) }()
	w.T.Cleanup(func() { l.power.off.Store(true) })
	return l
}

// identity returns the world's instance, and another one once the life has adopted its state directory.
func (l *Life) identity() string {
	id, known := l.Instance(), l.w.own.Load()
	if known == nil && id != "" {
		l.w.own.CompareAndSwap(nil, &id)
		known = l.w.own.Load()
	}
	if id == "" || known == nil || id == *known {
		return l.w.Host
	}
	return id
}

// Stop ends a life like SIGTERM, and returns how long that took.
func (l *Life) Stop() time.Duration {
	l.w.T.Helper()
	began := time.Now()
	l.cancel()
	if err := <-l.ended; err != nil {
		l.w.T.Errorf("Run: %v", err)
	}
	return time.Since(began)
}

// Kill ends a life like SIGKILL: nothing that it does later has an effect. The next life starts with a copy of its
// journal, of its receipts and of what it sent as of this moment.
func (l *Life) Kill() {
	if !l.power.off.CompareAndSwap(false, true) {
		return
	}
	dir, err := os.MkdirTemp(filepath.Dir(l.w.Dir), "life")
	if err != nil {
		l.w.T.Error(err)
		return
	}
	for _, name := range []string{"journal.jsonl", "instance", "notified.json"} {
		text, err := os.ReadFile(filepath.Join(l.w.Dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil && !(errors.Is(err, fs.ErrNotExist) && name == "notified.json") { // there may be no notifier
			l.w.T.Error(err)
		}
	}
	if err := copyReceipts(filepath.Join(dir, "receipts"), filepath.Join(l.w.Dir, "receipts")); err != nil {
		l.w.T.Error(err)
	}
	l.w.Dir = dir
	close(l.Killed)
}

// copyReceipts copies a folder of receipts. The killed life may rename or delete a file at the same time.
func copyReceipts(to, from string) error {
	list, err := os.ReadDir(from)
	if err == nil {
		err = os.MkdirAll(to, 0o700)
	}
	for _, e := range list {
		text, failed := os.ReadFile(filepath.Join(from, e.Name()))
		if failed == nil {
			failed = os.WriteFile(filepath.Join(to, e.Name()), text, 0o600)
		}
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// Bury waits until the goroutines of a killed life have ended.
func (l *Life) Bury() {
	l.cancel()
	<-l.ended
}

// KillAt kills the life at the n-th call with a name, before or after the call takes effect.
func KillAt(call string, n int, after bool) func(*Life) {
	return func(l *Life) { l.power.call, l.power.n, l.power.after = call, n, after }
}

// power connects a life to the world until it is killed.
type power struct {
	life  *Life
	off   atomic.Bool
	call  string
	n     int
	after bool
	count atomic.Int64
}

var errDead = fmt.Errorf("the supervisor is dead: %w", forge.ErrUnavailable)

// use performs a call to the world.
func (p *power) use(call string, f func() error) error {
	hit := call == p.call && int(p.count.Add(1)) == p.n
	if hit && !p.after {
		p.life.Kill()
	}
	if p.off.Load() {
		return errDead
	}
	err := f()
	if hit && p.after {
		p.life.Kill()
	}
	if p.off.Load() {
		return errDead
	}
	return err
}

// executor is the executor's interface for one life. Its sessions die with the life, as if the container had ended.
type executor struct {
	e *Executor
	p *power
}

func (x *executor) Run(ctx context.Context, job agents.Job, started func(agents.Started)) (out agents.Outcome) {
	if job.Command == nil {
		return agents.Outcome{Result: agents.Lost, Reason: "nothing runs as " + job.RunID}
	}
	ctx, die := context.WithCancelCause(ctx)
	defer die(nil)
	killed := x.p.life.Killed // a test may replace the life
	go func() {
		select {
		case <-killed:
			die(errDead)
		case <-ctx.Done():
		}
	}()
	err := x.p.use("run", func() error {
		out = x.e.run(ctx, job, started, x.p.off.Load)
		return nil
	})
	if err != nil {
		return agents.Outcome{Result: agents.Cancelled, Reason: err.Error()}
	}
	return out
}

func (x *executor) Activity(run string) (agents.Activity, bool) { return x.e.Activity(run) }

func (x *executor) Unreported(ctx context.Context, instance string) ([]string, error) {
	return x.e.Unreported(ctx, instance)
}

// Log collects log lines.
type Log struct {
	mu   sync.Mutex // guards the fields below
	text strings.Builder
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// listener is a listener in memory. A real one would stop the bubble's clock.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewListener returns a listener without connections.
func NewListener() net.Listener {
	return &listener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// Until waits in steps of a second until so returns true. It fails the test after the limit.
func (w *World) Until(limit time.Duration, what string, so func() bool) {
	w.T.Helper()
	end := time.Now().Add(limit)
	for !so() {
		if time.Now().After(end) {
			w.T.Fatalf("not within %s: %s\n%s", limit, what, w.Log.String())
		}
		time.Sleep(time.Second)
	}
}

// Check fails the test for every violation that the forge or the executor saw.
func (w *World) Check() {
	w.T.Helper()
	for _, v := range w.Exec.Violations() {
		w.T.Error("violation: " + v)
	}
	for _, e := range w.Forge.Errors() {
		w.T.Error("forge: " + e)
	}
}

// logf writes a line of the test to the log.
func (w *World) logf(format string, args ...any) { fmt.Fprintf(&w.Log, format, args...) }
