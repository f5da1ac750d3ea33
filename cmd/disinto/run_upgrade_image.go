//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads/ledger"
)

// tryTime is the timeout for the test of a new program.
const tryTime = 20 * time.Second

// upgrade makes this process end for another program, which its init starts. It returns only if that failed; then
// nothing has changed.
func (f *factory) upgrade(ctx context.Context, path string) error {
	err := f.become(ctx, path)
	f.Log.Error("not upgraded: " + err.Error())
	return err
}

func (f *factory) become(ctx context.Context, path string) error {
	asked := time.Now()
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
	if isScript(binary) {
		return fmt.Errorf("cannot upgrade to %s: it is a script: name the program that it starts", path)
	}
	answer, err := f.tryProgram(ctx, binary)
	if err != nil {
		return fmt.Errorf("cannot upgrade to %s: %w", path, err)
	}
	f.Log.Info(fmt.Sprintf("upgrading to %s, disinto %s", path, answer.Version))
	err = f.Quiet(ctx, func() error {
		resume := f.listeners.keepStill()
		f.AwaitAnswers(asked)
		if err := f.init.Become(binary); err != nil {
			resume()
			return err
		}
		f.out.flush()
		os.Exit(exitDone)
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot upgrade to %s: %w", path, err)
	}
	return nil
}

// isScript reports whether a file begins with #!. A script cannot be run from an open file that is closed at the
// execve.
func isScript(file *os.File) bool {
	begin := make([]byte, 2)
	n, _ := file.ReadAt(begin, 0)
	return string(begin[:n]) == "#!"
}

// upgradeAnswer is the answer of upgrade-check.
type upgradeAnswer struct {
	Protocol int    `json:"protocol"` // the newest protocol of shims that the program speaks
	Version  string `json:"version"`
}

// tryProgram runs the new program as a child that reads factory.toml and the journal.
func (f *factory) tryProgram(ctx context.Context, binary *os.File) (answer upgradeAnswer, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tryTime, fmt.Errorf("no answer within %s", tryTime))
	defer cancel()
	var stdout, stderr bytes.Buffer
	program := fmt.Sprintf("/proc/self/fd/%d", process.Descriptor(binary))
	err = f.reaper.Run(ctx, process.Cmd{
		Argv: []string{
			program, checkUpgradeName, "--config", f.path, "--state", f.StateDir, "--protocol", fmt.Sprint(process.Protocol),
		},
		Env: f.Environ, Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil {
		return answer, errors.New(whyRefused(stderr.String(), strings.ReplaceAll(err.Error(), program, "it")))
	}
	if json.Unmarshal(stdout.Bytes(), &answer) != nil || answer.Protocol == 0 {
		return answer, errors.New("it is not a disinto that can follow this one in place: restart the container")
	}
	return answer, nil
}

// whyRefused returns one line about a program that failed the test, from its stderr or else its end.
func whyRefused(stderr, end string) string {
	if strings.Contains(stderr, "unknown flag: --protocol") {
		return "it is an older version, which cannot follow this one in place: restart the container"
	}
	return firstLine(strings.TrimSpace(stderr + "\n" + end))
}

const checkUpgradeName = "upgrade-check"

func checkUpgradeCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: checkUpgradeName, Args: cobra.NoArgs, Hidden: true,
		Short: "report whether this program can follow the running one",
	}
	var p location
	p.flags(cmd.Flags())
	protocol := cmd.Flags().Int("protocol", 0, "the protocol of the running shims")
	cmd.RunE = func(*cobra.Command, []string) error { return checkUpgrade(c, &p, *protocol) }
	return cmd
}

// checkUpgrade reads what the next supervisor reads before its first action: factory.toml and the journal.
func checkUpgrade(c *cli, p *location, protocol int) error {
	if _, err := process.Init(); err != nil {
		return err
	}
	switch {
	case protocol == 0: // asked by a version whose one process is init and supervisor
		return fmt.Errorf("disinto %s cannot follow this older version in place: restart the container", version())
	case protocol < process.Protocol-1 || protocol > process.Protocol:
		return fmt.Errorf("disinto %s does not speak with the running sessions: restart the container", version())
	}
	config, _, err := readConfig(p.configFile(), c.lookup)
	if err == nil {
		_, err = newForge(c, config)
	}
	if err == nil {
		err = checkJournal(p.stateDir(c))
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(c.stdout).Encode(upgradeAnswer{process.Protocol, version()})
}

// checkJournal reports lines of a journal that this program does not understand. It changes nothing.
func checkJournal(state string) error {
	file, err := journal.ReadOnly(state)
	if err != nil {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	defer file.Close()
	corrupt, newer := 0, ""
	err = ledger.Read(file, func(ledger.Record) {}, func(from, to int64) {
		corrupt, newer = corrupt+1, cmp.Or(newer, journal.UnknownAt(file, from, to))
	})
	if err != nil {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	if newer != "" {
		return fmt.Errorf("the journal is of a newer version than disinto %s, with records of %q: restart the container, "+
			"with run --ignore-newer", version(), newer)
	}
	if corrupt > 0 {
		return fmt.Errorf("disinto %s does not understand %d lines of the journal: restart the container", version(), corrupt)
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
