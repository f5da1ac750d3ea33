//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/metrics"
	"codeberg.org/johba/disinto/supervisor/notify"
	"codeberg.org/johba/disinto/supervisor/trace"
	"codeberg.org/johba/disinto/supervisor/web"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
)

// factory is a supervisor with a real forge and a real executor wired into it.
type factory struct {
	*supervisor.Supervisor
	path      string // of factory.toml
	lookupEnv func(string) (string, bool)
	reaper    *process.Reaper
	executor  supervisor.Executor
	kind      forgeKind
	config    atomic.Pointer[threads.Config] // in force; nil before the first valid one
	text      string                         // of the files when they were read last; only read and changed use it

	metrics  *metrics.Metrics
	tracer   *trace.Tracer // nil without traces
	notifier *notify.Notifier
	plugs    *plugs
	out      *outlet
	carrier  carrier                 // nil where sessions cannot be handed over
	stopping func() bool             // whether a signal to stop has come
	rest     chan func()             // run by the goroutine that obeys signals
	bell     atomic.Pointer[os.File] // tells the next image of a signal to stop; nil but in an upgrade
}

// newFactory wires a supervisor up. A configuration that is not valid is no error here: the supervisor shows it.
func newFactory(
	path, state string, environ []string, lookupEnv func(string) (string, bool), r *process.Reaper, log hclog.Logger,
) (*factory, error) {
	f := &factory{path: path, lookupEnv: lookupEnv, reaper: r}
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
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program: %w", err)
	}
	f.Supervisor = &supervisor.Supervisor{
		Executor: f.executor, Elsewhere: elsewhere(f), Log: log, ConfigPath: path, StateDir: state, Environ: environ,
		Version:  version(),
		SaveWork: []string{self, "agent", "--save"},
		Sandbox:  sandboxLine, Hide: hidden(path, lookupEnv), Room: room,
		Host: hostName(), ReadHost: hostReader(r.Run, environ), ForgeAPI: f.kind.api, Simulate: whatIf, Advise: advised,
		Foresee: foresee, LookBack: lookBack, LookForDrift: lookForDrift,
		Inference: llamas{}, Saver: saver, Runner: local, Probe: askReady,
	}
	room := &web.Site{API: control.NewClient(state), Config: func() *threads.Config { return f.config.Load() }, Log: log}
	f.Web = room.Handler()
	if e, ok := f.executor.(confiner); ok {
		f.Confined = e.Confined
	}
	f.metrics = metrics.New(metrics.Sources{Version: f.Version, Levels: f.Levels, Reaped: r.Reaped})
	f.Metrics, f.Meters = f.metrics, f.metrics.Meters()
	f.trace(log)
	f.notifier = &notify.Notifier{Config: func() *threads.Config { return f.config.Load() }, StateDir: state, Log: log}
	f.Notify = f.notifier
	config, client, err := f.read()
	f.ConfigError = err
	if err == nil {
		f.config.Store(config)
		f.Config, f.Forge = config, client
	}
	return f, nil
}

// trace has traces sent where the environment says so. A mistake in it is no reason to do no work.
func (f *factory) trace(log hclog.Logger) {
	var err error
	if f.tracer, err = trace.FromEnv(f.lookupEnv); err != nil {
		log.Error(err.Error())
	}
	if f.tracer == nil {
		return
	}
	f.tracer.Forge = func() string { return f.config.Load().Forge.URL } // sessions have a configuration
	f.tracer.Problem = func(words string) {
		if words == "" {
			words = "traces are sent again"
		}
		log.Warn(words)
	}
	f.Meters, f.TraceParent, f.Collector = f.tracer.Meters(f.Meters), f.tracer.Parent, f.tracer.Collector()
}

// Run runs the supervisor, and sends the last spans when it has ended.
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

// hidden are the files that hold the supervisor's tokens, where they are: no sandboxed session may read them.
func hidden(config string, lookupEnv func(string) (string, bool)) (files []string) {
	for _, path := range []string{config, secretsFile(config, lookupEnv)} {
		info, err := os.Stat(path)
		abs, absErr := filepath.Abs(path)
		if err == nil && absErr == nil && info.Mode().IsRegular() { // upstream's projects are a folder that its scripts read
			files = append(files, abs)
		}
	}
	return files
}

// room measures the memory and disk that are free.
func room(dir string) threads.Room {
	memory, disk := process.Room(dir)
	return threads.Room{Memory: memory, Disk: disk}
}

// read reads the file and makes a client for the forge in it.
func (f *factory) read() (*threads.Config, supervisor.Forge, error) {
	config, text, err := readConfig(f.path, f.lookupEnv)
	f.text = text
	if err == nil {
		err = checkStrict(config)
	}
	if err != nil {
		return nil, nil, err
	}
	current := func() *threads.Config { return cmp.Or(f.config.Load(), config) }
	client, err := f.kind.client(forgeOptions{config, current, f.Instance, f.metrics.Requested})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return config, client, nil
}

// readConfig reads a factory.toml, or upstream's projects, and the secrets beside it. Each mistake is a line of the
// error. text has both, to find changes by.
func readConfig(path string, lookupEnv func(string) (string, bool)) (config *threads.Config, text string, err error) {
	secretsPath := secretsFile(path, lookupEnv)
	secrets, secretsErr := readSecrets(secretsPath)
	lookupEnv = withSecrets(secrets, lookupEnv)
	written, err := configText(path, lookupEnv)
	if err != nil {
		return nil, bothTexts(written, secrets), errors.Join(secretsErr, err)
	}
	config, err = file.Decode(path, written, lookupEnv)
	if config != nil {
		secretsErr = cmp.Or(secretsErr, checkOwner(secretsPath, config))
	}
	if err = errors.Join(secretsErr, err); err == nil {
		err = placeBuiltin(config, path)
	}
	return config, bothTexts(written, secrets), err
}

// noConfig is about a factory.toml that is not there. In a container that is a mount that was forgotten.
func noConfig(path string) error {
	if path != localConfig {
		return fmt.Errorf("cannot read %s: there is no such file; write it, or say another --config", path)
	}
	here, err := filepath.Abs(path)
	if err != nil {
		here = path
	}
	example := ""
	if exists(imageExample) {
		example = ", after the example " + imageExample
	}
	return fmt.Errorf("cannot read the configuration: there is neither %s nor %s; write one%s, "+
		"mount it there, or say --config", here, systemConfig, example)
}

// imageExample is factory.toml.example where the image has it.
const imageExample = "/usr/local/share/doc/disinto/factory.toml.example"

func bothTexts(config, secrets string) string { return config + "\x00" + secrets }

// promptsDir is the folder beside factory.toml whose templates replace built-in ones of the same name.
const promptsDir = "prompts"

// placeBuiltin makes this program that of the roles with a cli.
func placeBuiltin(config *threads.Config, path string) error {
	for i := range config.Roles {
		r := &config.Roles[i]
		if r.CLI == "" {
			continue
		}
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("cannot find the program of role %s: %w", r.Name, err)
		}
		r.Command[0] = self
		dir, err := filepath.Abs(filepath.Join(filepath.Dir(path), promptsDir))
		if err != nil {
			return fmt.Errorf("cannot find the prompts: %w", err)
		}
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			r.Command = append(r.Command, promptsFlag, dir)
		}
	}
	return nil
}

// reload puts the present file in force. A file with mistakes changes nothing but the status, which shows them.
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
		client = nil // keeps the one that has read the forge already
	}
	f.Reload(config, client)
	log.Info("configuration reloaded: " + describe(config))
}

// sameForge reports whether a client for one configuration serves the other too.
func sameForge(a, b threads.Forge) bool {
	return a.URL == b.URL && a.Token == b.Token && a.RequireMerged == b.RequireMerged &&
		a.ClaimSingle == b.ClaimSingle && slices.Equal(a.Repos, b.Repos)
}

// changed reports whether the files differ from what was read last. It is polled: inotify misses the replacement of a
// file that is mounted into a container by itself.
func (f *factory) changed() bool {
	secrets, _ := readSecrets(secretsFile(f.path, f.lookupEnv)) // what cannot be read is empty, as in readConfig
	text, err := configText(f.path, withSecrets(secrets, f.lookupEnv))
	return (err == nil || text != "") && bothTexts(text, secrets) != f.text
}

// secrets are hidden in the ends of logs that become comments on the forge.
func (f *factory) secrets() []string {
	config := f.config.Load()
	if config == nil {
		return nil
	}
	var all []string
	for _, s := range config.Secrets {
		all = append(all, s.Value.Reveal())
	}
	return all
}

// describe is a configuration in a line.
func describe(c *threads.Config) string {
	return fmt.Sprintf("%s, %s, %s on %s", control.Count(len(c.Threads), "thread"), control.Count(len(c.Agents), "agent"),
		strings.Join(c.Forge.Repos, " "), c.Forge.URL)
}

// newLog makes the log of a supervisor.
func newLog(w io.Writer) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: w, Level: hclog.Info, TimeFormat: "2006-01-02T15:04:05Z07:00"})
}
