//go:build linux

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	stdlog "log"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/agents/process/pid1"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/metrics"
	"codeberg.org/johba/disinto/supervisor/notify"
	"codeberg.org/johba/disinto/supervisor/trace"
	"codeberg.org/johba/disinto/supervisor/web"
	"codeberg.org/johba/disinto/threads"
)

// factory is a supervisor wired to a forge and an executor.
type factory struct {
	*supervisor.Supervisor
	path      string // of factory.toml
	lookupEnv func(string) (string, bool)
	reaper    *process.Reaper
	executor  supervisor.Executor
	kind      forgeKind
	config    atomic.Pointer[threads.Config] // the current one; nil before the first valid one
	boot      string                         // identifies this process, which began at since
	since     time.Time
	text      string                 // the files' text at the last read; used only by read and changed
	applied   string                 // the text of config
	gone      bool                   // there was no file at the last look; used only by changed
	exposed   atomic.Pointer[string] // the secrets file, if others could read it; nil or "" if not

	local     *process.Executor
	metrics   *metrics.Metrics
	tracer    *trace.Tracer // nil without traces
	notifier  *notify.Notifier
	listeners *listenerSet
	out       *logQueue
	init      *process.InitLink // nil without an init, as in tests
	// stateGiven says that a flag or the environment chose the state directory, whatever the file says.
	stateGiven bool
}

// newFactory wires up a supervisor. given says that the state directory is not the file's, but was chosen for this run.
// An invalid configuration is not an error here: the supervisor reports it.
func newFactory(
	path, state string, given bool, environ []string, lookupEnv func(string) (string, bool), r *process.Reaper,
	log hclog.Logger,
) (*factory, error) {
	f := &factory{
		path: path, stateGiven: given, lookupEnv: lookupEnv, reaper: r, boot: rand.Text()[:10], since: time.Now(),
	}
	newExecutor, err := executors.choose("DISINTO_EXECUTOR", lookupEnv)
	if err != nil {
		return nil, err
	}
	if f.kind, err = forges.choose("DISINTO_FORGE", lookupEnv); err != nil {
		return nil, err
	}
	f.executor = newExecutor(f)
	local, ok := f.executor.(*process.Executor)
	if !ok {
		local = newLocal(f)
	}
	f.local = local
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program: %w", err)
	}
	f.Supervisor = &supervisor.Supervisor{
		Executor: f.executor, Elsewhere: otherExecutors(f), Log: log, ConfigPath: path, StateDir: state, Environ: environ,
		Version:  version(),
		SaveWork: []string{self, "agent", "--save"},
		Sandbox:  sandboxLine, Hide: secretFiles(path, lookupEnv), Room: room,
		Host: hostName(), ReadHost: hostReader(r.Run, environ), ForgeAPI: f.kind.api,
		Foresee:   forecast,
		Inference: llamas{}, Saver: saver, Runner: local, Probe: checkReady,
	}
	room := &web.Site{API: control.NewClient(state), Config: func() *threads.Config { return f.config.Load() }, Log: log}
	f.Web = room.Handler()
	if e, ok := f.executor.(confiner); ok {
		f.Confined = e.Confined
	}
	f.metrics = metrics.New(metrics.Sources{Version: f.Version, Levels: f.Levels, Reaped: f.reaped})
	f.Metrics, f.Meters = f.metrics, f.metrics.Meters()
	f.trace(log)
	f.notifier = &notify.Notifier{Config: func() *threads.Config { return f.config.Load() }, StateDir: state, Log: log}
	f.Notify = f.notifier
	f.Exposed = func() string { return *cmp.Or(f.exposed.Load(), new(string)) }
	config, client, err := f.read()
	f.ConfigError = err
	if err == nil {
		f.config.Store(config)
		f.applied, f.Config, f.Forge = f.text, config, client
	}
	return f, nil
}

// reaped returns the numbers of processes that the supervisor reaped: its own, and orphans, which an init reaps.
func (f *factory) reaped() (started, orphans int64) {
	started, orphans = f.reaper.Reaped()
	if f.init != nil {
		orphans += f.init.Orphans()
	}
	return started, orphans
}

// trace sets up tracing as the environment and the secrets file configure it. A mistake there is only logged, and does
// not stop the factory.
func (f *factory) trace(log hclog.Logger) {
	secrets, _ := readSecrets(secretsFile(f.path, f.lookupEnv)) // empty if unreadable, as in readConfig
	var err error
	if f.tracer, err = trace.FromEnv(withSecrets(secrets, f.lookupEnv)); err != nil {
		log.Error(err.Error())
	}
	if f.tracer == nil {
		return
	}
	f.tracer.Forge = func() string { return f.config.Load().Forge.URL } // not nil: sessions need a configuration
	f.tracer.Problem = func(words string) {
		if words == "" {
			log.Info("traces are sent again")
			return
		}
		log.Warn(words)
	}
	f.Meters, f.TraceParent, f.Collector = f.tracer.Meters(f.Meters), f.tracer.Parent, f.tracer.Collector()
}

// Run runs the supervisor, and sends the last spans after it has ended.
func (f *factory) Run(ctx context.Context) error {
	if f.tracer == nil {
		return f.Supervisor.Run(ctx)
	}
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var sender sync.WaitGroup
	sender.Go(func() { safely(f.Log, func() { f.tracer.Send(sending) }) })
	defer sender.Wait()
	defer stop()
	return f.Supervisor.Run(ctx)
}

// secretFiles returns the existing files with the supervisor's tokens. Sandboxed sessions cannot read them.
func secretFiles(config string, lookupEnv func(string) (string, bool)) (files []string) {
	for _, path := range []string{config, secretsFile(config, lookupEnv)} {
		info, err := os.Stat(path)
		abs, absErr := filepath.Abs(path)
		if err == nil && absErr == nil && info.Mode().IsRegular() { // upstream's scripts read their projects' directory
			files = append(files, abs)
		}
	}
	return files
}

// room returns the free memory and disk space.
func room(dir string) threads.Room {
	memory, disk := process.Room(dir)
	return threads.Room{Memory: memory, Disk: disk}
}

// read reads the configuration and creates a client for its forge.
func (f *factory) read() (*threads.Config, supervisor.Forge, error) {
	secrets := secretsFile(f.path, f.lookupEnv)
	closed := closeSecrets(secrets)
	config, text, err := readConfig(f.path, f.lookupEnv)
	switch {
	case closed:
		f.exposed.Store(&secrets)
	case text != f.text: // perhaps with new tokens
		f.exposed.Store(new(string))
	}
	f.text = text
	if err == nil {
		err = cmp.Or(f.checkState(config), checkStrict(config))
	}
	if err != nil {
		return nil, nil, err
	}
	current := func() *threads.Config { return cmp.Or(f.config.Load(), config) }
	client, err := f.kind.client(forgeOptions{
		config: config, current: current, instance: f.Instance, boot: f.boot, since: f.since, observe: f.metrics.Requested,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return config, client, nil
}

// checkState refuses a file that names another state directory than this supervisor's. It started without that file, or
// with another: the supervisor of that directory may run, and two would start the same work.
func (f *factory) checkState(config *threads.Config) error {
	if f.stateGiven || config.Factory.State == "" {
		return nil
	}
	if abs, err := filepath.Abs(config.Factory.State); err != nil || abs == f.StateDir {
		return nil
	}
	return fmt.Errorf("%s: factory.state is %s, and this supervisor runs in %s: restart it, if no other one runs there",
		f.path, config.Factory.State, f.StateDir)
}

// reload applies the current files. If they have mistakes, the configuration stays, and the status shows the mistakes.
func (f *factory) reload(log hclog.Logger) {
	config, client, err := f.read()
	if err != nil {
		for _, line := range errorLines(err) {
			log.Error("configuration not changed: " + line)
		}
		f.SetError(err)
		return
	}
	old := f.config.Swap(config)
	if old != nil && sameForge(old.Forge, config.Forge) {
		client = nil // keep the old one, which has already read the forge
	}
	f.Reload(config, client)
	f.sayReady()
	hidden := config.Hidden(f.Environ)
	if old != nil {
		hidden = append(hidden, old.Hidden(f.Environ)...)
	}
	log.Info("configuration reloaded: " + describe(config))
	for _, line := range changesOf(f.applied, f.text, hidden) {
		log.Info("configuration: " + line)
	}
	f.applied = f.text
	for _, line := range removedKeys(config) {
		log.Warn(line)
	}
}

// sameForge reports whether a client for one configuration also fits the other.
func sameForge(a, b threads.Forge) bool {
	return a.URL == b.URL && a.Token == b.Token && a.RequireMerged == b.RequireMerged &&
		a.ClaimSingle == b.ClaimSingle && slices.Equal(a.Repos, b.Repos)
}

// changed reports whether the files differ from the last read. watch polls it, because inotify misses the replacement
// of a file that is bind-mounted into a container.
func (f *factory) changed() bool {
	secrets, _ := readSecrets(secretsFile(f.path, f.lookupEnv)) // empty if unreadable, as in readConfig
	text, err := configText(f.path, withSecrets(secrets, f.lookupEnv))
	gone := f.gone
	if f.gone = err != nil && text == ""; f.gone && !gone { // an editor may be replacing it
		return false
	}
	return bothTexts(text, secrets) != f.text
}

// secrets returns the values to redact in log excerpts that become comments on the forge.
func (f *factory) secrets() []string {
	config := f.config.Load()
	if config == nil {
		return nil
	}
	return config.Hidden(f.Environ)
}

// takeStandardLog makes the lines that the standard library prints, such as those of net/http about an answer that
// nobody asked for, lines of the supervisor's log. Nobody must act on one.
func takeStandardLog(to hclog.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(to.StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Info}))
}

// newLog returns the logger of a supervisor.
func newLog(w io.Writer, form pid1.LineForm) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{
		Output: w, Level: hclog.Info, TimeFormat: time.RFC3339, JSONFormat: form.JSON, JSONEscapeDisabled: true,
		DisableTime: form.Journal && !form.JSON,
	})
}
