//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/agents/process/pid1"
	"codeberg.org/johba/disinto/threads"
)

func runCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "run", Args: cobra.NoArgs,
		Short: "run the supervisor: scan, run agents, merge, reap processes",
		Long: `
This is the entrypoint of a container. It keeps running when the forge is down
or the configuration is invalid; disinto status then shows the problem. It
reloads the configuration when the file changes, or on HUP. Running sessions
keep the settings that they started with.

If work is already waiting at the first start, in a state directory without a
journal, the supervisor pauses and reports how much; disinto resume starts it.
--yes skips the pause.

TERM or INT ends all sessions within stop_grace and releases their claims; a
second signal kills them at once. USR1 writes the state and all goroutines to
the log. USR2 upgrades: see disinto help upgrade.

Two processes run: an init, whose pid disinto status --json has, and below it
the supervisor. If the supervisor dies, the init starts it again, and the
sessions go on.`,
		Example: `
  disinto run
  disinto run --config next.toml --state /srv/factory --paused`,
	}
	flags := cmd.Flags()
	var p location
	var first firstStart
	flags.BoolVar(&first.paused, "paused", false, "start nothing until disinto resume")
	flags.BoolVar(&first.yes, "yes", false, "at a first start, start waiting work without a pause")
	flags.BoolVar(&first.ignoreNewer, "ignore-newer", false, "forget what a newer version wrote to the journal")
	p.flags(flags)
	format := flags.String(pid1.LogFormat, pid1.LogText, "the `FORMAT`: text or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *format != pid1.LogText && *format != pid1.LogJSON {
			return usagef("--%s: there is no %q, want %s or %s", pid1.LogFormat, *format, pid1.LogText, pid1.LogJSON)
		}
		form := pid1.FormOf([]string{"--" + pid1.LogFormat, *format}, c.environ)
		return told(c, form, run(cmd.Context(), c, &p, first, form))
	}
	return cmd
}

// listensItself reports whether an init tells this process of signals: then only run listens.
func listensItself() bool { return process.HasInit() }

const (
	// fileInterval is how often run checks whether factory.toml has changed.
	fileInterval = 2 * time.Second
	// trimInterval is how often run returns unused memory to the system.
	trimInterval = 10 * time.Minute
	// startTime is the delay before the first trim: the start uses more memory than the work after it.
	startTime = 5 * time.Second
)

// firstStart has the flags for the work that waits at the start.
type firstStart struct{ paused, yes, ignoreNewer bool }

// told prints the errors of run in the form of the log, unless that is text: main prints that, as for every command.
func told(c *cli, form pid1.LineForm, err error) error {
	if err == nil || form == (pid1.LineForm{}) {
		return err
	}
	for _, line := range errorLines(err) {
		_, _ = io.WriteString(c.stderr, form.Line(time.Now(), pid1.Error, line))
	}
	return &exitError{exitCode(err), ""}
}

func run(ctx context.Context, c *cli, p *location, first firstStart, form pid1.LineForm) error {
	signals, err := process.Init()
	if err != nil {
		return err
	}
	init, err := process.ConnectInit()
	if err != nil {
		return err
	}
	newReaper := process.NewReaper
	if init != nil {
		newReaper = process.NewChildReaper
	}
	reaper, err := newReaper()
	if err != nil {
		return err
	}
	out := newLogQueue(c.stderr, form)
	defer out.flush()
	log := newLog(out, form)
	takeStandardLog(log)
	f, err := newFactory(p.configFile(), p.stateDir(c), p.stateGiven(c), c.environ, c.lookup, reaper, log)
	if err != nil {
		return err
	}
	f.Paused, f.Ask, f.IgnoreNewer = first.paused, !first.yes, first.ignoreNewer
	stdout := newLogQueue(c.stdout, pid1.LineForm{})
	defer stdout.flush()
	f.Stdout = stdout
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f.out = out
	if err := f.attach(init); err != nil {
		return err
	}
	f.logStart(log, process.Contain())
	go func() {
		for !safely(log, func() { f.watch(ctx, stop, signals, log) }) {
			time.Sleep(fileInterval)
		}
	}()
	go safely(log, func() { f.notifier.Run(ctx) })
	return f.Run(ctx)
}

// safely runs f, and recovers from and logs a panic in it: an unrecovered panic would end PID 1. It reports whether f
// returned.
func safely(log hclog.Logger, f func()) (whole bool) {
	defer func() {
		if v := recover(); v != nil {
			log.Error(fmt.Sprintf("internal error: %v\n%s", v, debug.Stack()))
		}
	}()
	f()
	return true
}

// logStart logs the factory's configuration and its problems.
func (f *factory) logStart(log hclog.Logger, contained process.Containment) {
	for _, line := range errorLines(f.ConfigError) {
		log.Error(line)
	}
	if f.Config == nil {
		log.Error("no valid configuration: nothing starts until " + f.path + " is fixed; it is read again when it changes")
		return
	}
	log.Info("disinto " + f.Version + " starts: " + describe(f.Config) + ", state in " + f.StateDir)
	for _, line := range slices.Concat(removedKeys(f.Config), problems(f.Config)) {
		log.Warn(line)
	}
	switch line := accountLine(f.Config); line {
	case "":
	case boxedAccount:
		log.Info(line)
	default:
		log.Warn(line)
	}
	if _, lacks := sandboxLines(f.Config); lacks != "" {
		log.Warn("sessions: " + lacks)
	}
	for _, line := range unenforced(f.Config, contained) {
		log.Warn(line)
	}
}

// Warnings about agents without their own system account: if some have no complete sandbox, and if all have one.
const (
	sharedAccount = "agents run under the supervisor's own account and can read every secret: set [factory] user"
	boxedAccount  = "agents run under the supervisor's own account, and only the sandbox keeps its secrets from them: " +
		"set [factory] user"
)

// accountLine returns the warning about agents without their own system account; empty if there are none.
func accountLine(c *threads.Config) string {
	c = localPart(c)
	own := c.Factory.User != "" || !slices.ContainsFunc(c.Agents, func(a agents.Agent) bool { return a.User == "" })
	switch holds, lacks := boxLines(c); {
	case own:
		return ""
	case holds != "" && lacks == "":
		return boxedAccount
	}
	return sharedAccount
}

// watch reloads changed files and handles signals until the process ends. It continues after ctx is done, because a
// second TERM or INT then cuts the grace short.
func (f *factory) watch(ctx context.Context, stop func(), signals <-chan os.Signal, log hclog.Logger) {
	tick := time.NewTicker(fileInterval)
	defer tick.Stop()
	trim := time.NewTimer(startTime)
	defer trim.Stop()
	stopping := ctx.Err() != nil
	for {
		select {
		case <-trim.C:
			process.Trim()
			trim.Reset(trimInterval)
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				f.reload(log)
			case s == syscall.SIGUSR1:
				f.dump(log)
			case s == syscall.SIGUSR2:
				go safely(log, func() { _ = f.upgrade(ctx, "") }) // upgrade logs its error
			case s != syscall.SIGTERM && s != syscall.SIGINT:
			case stopping:
				if e, ok := f.executor.(graceSkipper); ok {
					e.SkipGrace()
				}
			default:
				log.Info("stopping: " + s.String())
				stopping = true
				stop()
			}
		case <-tick.C:
			if ctx.Err() == nil && f.changed() {
				f.reload(log)
			}
		}
	}
}

// dump logs the state and all goroutines, for debugging.
func (f *factory) dump(log hclog.Logger) {
	state, err := json.MarshalIndent(f.Document(), "", "  ")
	if err != nil {
		log.Error("cannot write the state: " + err.Error())
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	log.Info(fmt.Sprintf("the state:\n%s\nthe goroutines:\n%s", state, stacks))
}
