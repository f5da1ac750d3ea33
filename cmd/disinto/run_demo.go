//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
)

func demoCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", Args: cobra.NoArgs,
		Short: "run a complete factory, without a network, account or model",
		Long: `
Starts a forge on loopback, fills it with issues, and runs five scripted agents
under the real supervisor: they clone, push, open pull requests and review each
other's work. The demo ends by itself, after half a minute on an idle machine.
It reports which issues were merged, which are held and why, and every violation
of a rule.`,
		Example: `
  disinto demo --keep`,
	}
	flags := cmd.Flags()
	var d demoRun
	flags.BoolVar(&d.keep, "keep", false, "keep running until interrupted, for issues of your own")
	flags.DurationVar(&d.think, "think", 1200*time.Millisecond, "agents pretend to think for this `TIME`")
	jsonFlag(flags, &d.json, "print only a JSON document, at the end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), c, args) }
	return cmd
}

// demoPatience is the timeout of a demo. A demo takes 20 seconds on a small idle machine. On one with sixteen programs
// at work on two cores, 6 of 8 issues were merged after two minutes.
const demoPatience = 10 * time.Minute

// demoFrame is the time between two pictures.
const demoFrame = 200 * time.Millisecond

// demoRun is one run of the demo.
type demoRun struct {
	json, keep bool
	think      time.Duration

	c       *cli
	dir     string
	self    string // the path of this program
	reaper  *process.Reaper
	world   *demo.World
	factory *factory
	events  <-chan control.Event
	audit   demo.Audit
	show    *display
}

func (d *demoRun) run(ctx context.Context, c *cli, _ []string) error {
	ctx, stop := untilSignal(ctx, syscall.SIGHUP) // the terminal was closed
	defer stop()
	err := d.play(ctx, c)
	if err != nil && ctx.Err() != nil {
		return &exitError{exitCode(context.Cause(ctx)), ""} // an interrupt needs no message
	}
	return err
}

// play runs the demo from an empty directory to its report.
func (d *demoRun) play(ctx context.Context, c *cli) (err error) {
	d.c = c
	if _, err := process.Lookup("git", "", c.environ); err != nil {
		return fmt.Errorf("cannot run the demo without git: %w: install it", err)
	}
	signals, err := process.Init()
	if err != nil {
		return err
	}
	if d.reaper, err = process.NewReaper(); err != nil {
		return err
	}
	if d.self, err = os.Executable(); err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	if d.dir, err = os.MkdirTemp("", "disinto-demo-"); err != nil {
		return fmt.Errorf("cannot create a directory for the demo: %w", err)
	}
	if !d.keep {
		defer func() { err = errors.Join(err, removeAll(d.dir)) }()
	}
	// The forge outlives ctx, because the supervisor releases its claims after ctx is done.
	forge, err := d.startForge(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer forge.end()
	if d.world, err = demo.Build(ctx, forge.URL, forge.Token); err != nil {
		return err
	}
	if err := d.wire(); err != nil {
		return err
	}
	// watch must not cancel ctx itself: the signal that cancels it is the cause, which determines the exit code.
	go d.factory.watch(ctx, func() {}, signals, d.show.log)
	return d.supervise(ctx)
}

// removeAll removes a directory. It retries for a second, because a git process of the forge may still write there.
func removeAll(dir string) (err error) {
	for range 20 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// wire writes the factory.toml and creates the supervisor from it, as run does.
func (d *demoRun) wire() error {
	path, state := filepath.Join(d.dir, "factory.toml"), filepath.Join(d.dir, "state")
	address, token := roomAddress(), rand.Text()
	program := []string{d.self, demoAgentName, "--think", d.think.String()}
	if err := os.WriteFile(path, []byte(demo.Config(d.world.URL, state, address, program, d.keep)), 0o600); err != nil {
		return fmt.Errorf("cannot write the demo's configuration: %w", err)
	}
	lookup := func(name string) (string, bool) {
		if token, ok := d.world.Tokens[name]; ok {
			return token, true
		}
		if name == demo.WebToken {
			return token, true
		}
		return d.c.lookup(name)
	}
	d.show = newDisplay(d.c, d.json)
	takeStandardLog(d.show.log)
	if address != "" {
		d.show.room = "http://" + address + "/signin#" + token
	}
	var err error
	if d.factory, err = newFactory(path, state, true, d.c.environ, lookup, d.reaper, d.show.log); err != nil {
		return err
	}
	return d.factory.ConfigError
}

// roomPort is the usual address of the control room.
const roomPort = "127.0.0.1:7080"

// roomAddress returns a free address for the control room, the usual one if possible; empty if there is none.
func roomAddress() string {
	for _, address := range []string{roomPort, "127.0.0.1:0"} {
		if l, err := net.Listen("tcp", address); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	return ""
}

// supervise runs the factory until all possible work is done, and prints the report.
func (d *demoRun) supervise(ctx context.Context) error {
	events, leave := d.factory.Events()
	defer leave()
	d.events = events
	working, stop := context.WithCancel(ctx)
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = d.factory.Run(working)
	}()
	finish := func() error {
		stop()
		<-ended
		return failed
	}
	began := time.Now()
	d.show.begin()
	doc, err := d.follow(ctx, began, ended)
	d.show.end()
	took := time.Since(began)
	if err != nil || !d.keep {
		err = errors.Join(err, finish())
	}
	if err != nil {
		return err
	}
	report, err := d.world.Report(ctx, doc, &d.audit, d.factory.Config)
	if err == nil {
		err = d.conclude(report, took)
	}
	if d.keep {
		to := d.c.stdout
		if d.json {
			to = d.c.stderr // stdout is one document
		}
		d.show.printHints(to, d.self, d.world, d.dir)
		<-ctx.Done()
	}
	return errors.Join(err, finish())
}

// follow shows the factory until everything is merged and no agent works. It returns the last status.
func (d *demoRun) follow(ctx context.Context, began time.Time, ended <-chan struct{}) (*control.Document, error) {
	frame := time.NewTicker(demoFrame)
	defer frame.Stop()
	patience := time.NewTimer(demoPatience)
	defer patience.Stop()
	for {
		select {
		case e, open := <-d.events:
			if !open {
				return nil, errors.New("cannot follow the supervisor: it closed the stream of events")
			}
			d.audit.Record(e)
			continue
		case <-frame.C:
		case <-patience.C:
			return d.factory.Document(), nil // the report lists the missing merges
		case <-ended:
			return nil, errors.New("the supervisor ended before the work was done")
		case <-ctx.Done():
			return nil, errors.New("interrupted")
		}
		doc := d.factory.Document()
		d.show.frame(doc, d.audit.Merged(), time.Since(began))
		if d.audit.Done(doc) {
			return doc, nil
		}
	}
}

// conclude prints the report. It fails when an issue was not merged or a rule was broken.
func (d *demoRun) conclude(r *demo.Report, took time.Duration) error {
	if err := d.show.report(r, took); err != nil {
		return err
	}
	if len(r.Violations)+len(r.Missing) > 0 {
		return fmt.Errorf("the demo failed: %d of %d issues were not merged, %s",
			len(r.Missing), demo.Due(), control.Count(len(r.Violations), "violation"))
	}
	return nil
}
