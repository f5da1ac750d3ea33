//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor"
)

// imageState is the state that one image of the program hands to the next.
type imageState struct {
	Supervisor supervisor.Handover `json:"supervisor"`
	Process    process.Handover    `json:"process"`
	Lock       int                 `json:"lock"`  // descriptor
	Listeners  map[string]int      `json:"plugs"` // descriptors of listeners, by address
	StopFlag   int                 `json:"bell"`  // descriptor; 0 from an image older than the flag
}

// tryTime is the timeout for the test of a new program.
const tryTime = 20 * time.Second

// upgrade makes this process execute another program. It returns only if that failed; then nothing has changed.
func (f *factory) upgrade(ctx context.Context, path string) error {
	err := f.become(ctx, path)
	f.Log.Error("not upgraded: " + err.Error())
	return err
}

func (f *factory) become(ctx context.Context, path string) error {
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("cannot find this program's file: %w", err)
		}
		path = self
	}
	// Test and execute this open file, even if another file gets its name meanwhile.
	binary, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot upgrade: %w", err)
	}
	defer binary.Close()
	answer, err := f.tryProgram(ctx, binary)
	if err != nil {
		return fmt.Errorf("cannot upgrade to %s: %w", path, err)
	}
	f.Log.Info(fmt.Sprintf("upgrading to %s, disinto %s", path, answer.Version))
	err = f.HandOver(ctx, func(h supervisor.Handover, held *os.File) error { return f.handOver(binary, h, held) })
	if err != nil {
		return fmt.Errorf("cannot upgrade to %s: %w", path, err)
	}
	return nil
}

// handOver hands everything over and executes the program. Everything that could fail comes first; the last step, the
// kernel's execve, changes nothing if it fails.
func (f *factory) handOver(binary *os.File, h supervisor.Handover, held *os.File) error {
	sessions, resume, err := f.upgradable.Detach()
	if errors.Is(err, process.ErrBusy) {
		return fmt.Errorf("%w: %w", supervisor.ErrNotQuiet, err)
	}
	if err != nil {
		return err
	}
	defer resume()
	if !slices.Equal(sessions.Runs(), h.Runs()) {
		return fmt.Errorf("%w: a session is ending", supervisor.ErrNotQuiet)
	}
	flag, err := process.NewStopFlag()
	if err != nil {
		return err
	}
	defer flag.Close()
	f.stopFlag.Store(flag)
	defer f.stopFlag.Store(nil)
	l := imageState{
		Supervisor: h, Process: *sessions, Listeners: f.listeners.descriptors(),
		Lock: process.Descriptor(held), StopFlag: process.Descriptor(flag),
	}
	sealed, err := process.SealState(&l)
	if err != nil {
		return err
	}
	defer sealed.Close()
	keep := append(sessions.Descriptors(), l.Lock, l.StopFlag)
	for _, fd := range l.Listeners {
		keep = append(keep, fd)
	}
	f.out.flush()
	become := func() error { return process.Become(binary, os.Args, f.Environ, sealed, keep, f.stopping) }
	if process.KeepsSignals() {
		return f.onSignalGoroutine(become)
	}
	return become()
}

// onSignalGoroutine calls become on the goroutine that handles signals: while become runs there, no received signal is
// pending.
func (f *factory) onSignalGoroutine(become func() error) error {
	result := make(chan error, 1)
	select {
	case f.signalWork <- func() { result <- become() }:
		return <-result
	case <-time.After(restTime):
		return fmt.Errorf("%w: a signal is being handled", supervisor.ErrNotQuiet)
	}
}

// restTime is how long an upgrade waits for the handling of a signal, such as a reload, which reads files.
const restTime = time.Second

// upgradeAnswer is the answer of upgrade-check.
type upgradeAnswer struct {
	Handover int    `json:"handover"` // the newest version of the hand-over state that the program understands
	Version  string `json:"version"`
	Sessions int    `json:"sessions"` // the number of sessions that it found in the state
}

// tryProgram runs the new program as a child that reads a copy of the state, and factory.toml.
func (f *factory) tryProgram(ctx context.Context, binary *os.File) (answer upgradeAnswer, err error) {
	l := imageState{Supervisor: f.Handover()}
	l.Process = *f.upgradable.Peek(l.Supervisor.Runs())
	l.Supervisor.Only(l.Process.Runs()) // sessions may have started or ended between the two calls
	sealed, err := process.SealState(&l)
	if err != nil {
		return answer, err
	}
	defer sealed.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, tryTime, fmt.Errorf("no answer within %s", tryTime))
	defer cancel()
	var stdout, stderr bytes.Buffer
	program := fmt.Sprintf("/proc/self/fd/%d", process.Descriptor(binary))
	err = f.reaper.Run(ctx, process.Cmd{
		Argv:  []string{program, checkUpgradeName, "--config", f.path, "--state", f.StateDir},
		Env:   f.Environ,
		Stdin: sealed, Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil {
		words := stderr.String() + "\n" + strings.ReplaceAll(err.Error(), program, "it")
		return answer, errors.New(firstLine(strings.TrimSpace(words)))
	}
	if json.Unmarshal(stdout.Bytes(), &answer) != nil || answer.Handover == 0 {
		return answer, errors.New("it is not a disinto that can take over")
	}
	if answer.Handover < supervisor.HandoverVersion || answer.Sessions != len(l.Supervisor.Sessions) {
		return answer, fmt.Errorf("disinto %s does not understand the state of %s: restart the supervisor instead",
			answer.Version, version())
	}
	return answer, nil
}

const checkUpgradeName = "upgrade-check"

func checkUpgradeCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: checkUpgradeName, Args: cobra.NoArgs, Hidden: true,
		Short: "report whether this program can take over from the running one",
	}
	var p location
	p.flags(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error { return checkUpgrade(c, &p) }
	return cmd
}

// checkUpgrade does everything that a new image does before its first action, with a copy of the state on stdin.
func checkUpgrade(c *cli, p *location) error {
	if _, err := process.Init(); err != nil {
		return err
	}
	sealed, ok := c.stdin.(*os.File)
	if !ok {
		return errors.New("cannot read the state of the last image: stdin is not a file")
	}
	l, err := readImageState(sealed)
	if err != nil {
		return err
	}
	config, _, err := readConfig(p.configFile(), c.lookup)
	if err == nil {
		_, err = newForge(c, config)
	}
	if err != nil {
		return err
	}
	answer := upgradeAnswer{supervisor.HandoverVersion, version(), len(l.Supervisor.Sessions)}
	return json.NewEncoder(c.stdout).Encode(answer)
}

func readImageState(sealed *os.File) (*imageState, error) {
	var l imageState
	if err := process.ReadState(sealed, &l); err != nil {
		return nil, err
	}
	switch v := l.Supervisor.Version; {
	case v < 1 || v > supervisor.HandoverVersion:
		return nil, fmt.Errorf("cannot read the state of the last image: it has version %d, but this program knows only "+
			"versions up to %d", v, supervisor.HandoverVersion)
	case !slices.Equal(l.Process.Runs(), l.Supervisor.Runs()):
		return nil, errors.New("cannot read the state of the last image: its two lists of sessions differ")
	}
	return &l, nil
}

// inherit returns the state of this process's last image, nil in a first image, and the reaper of its children.
func inherit() (l *imageState, r *process.Reaper, err error) {
	sealed := process.InheritedState()
	if sealed == nil {
		r, err = process.NewReaper()
		return nil, r, err
	}
	defer sealed.Close()
	if l, err = readImageState(sealed); err != nil {
		return nil, nil, err
	}
	r, err = l.Process.NewReaper()
	return l, r, err
}

// takeOver gives the state of the last image to the factory. l is nil in a first image.
func (f *factory) takeOver(l *imageState) {
	if l == nil || f.upgradable == nil {
		return
	}
	f.upgradable.Inherit(&l.Process)
	f.listeners.inherit(l.Listeners)
	f.Inherited, f.Held = &l.Supervisor, os.NewFile(uintptr(l.Lock), filepath.Join(f.StateDir, "lock"))
}

// stopFlagSet reports whether the last image received a stop signal that it could no longer handle.
func (l *imageState) stopFlagSet() bool {
	return l != nil && l.StopFlag > 0 && process.StopFlagSet(os.NewFile(uintptr(l.StopFlag), "bell"))
}

// prepareUpgrade wires in the upgrade and the listeners whose descriptors can be handed over.
func (f *factory) prepareUpgrade(out *logQueue, stopping func() bool) {
	f.out, f.stopping, f.listeners, f.signalWork = out, stopping, &listenerSet{}, make(chan func())
	f.Listen, f.ListenTCP = f.listeners.unix, f.listeners.tcp
	if c, ok := f.executor.(upgradable); ok {
		f.upgradable, f.Upgrade = c, f.upgrade
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
