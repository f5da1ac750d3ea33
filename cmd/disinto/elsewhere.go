//go:build !linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
)

// Commands that need Linux, because they handle processes, accounts or a supervisor's files.
var (
	runCommand          = onLinux("run", "run the supervisor: scan, run agents, merge, reap processes")
	execCommand         = onLinux("exec", "run one command under an init: forward signals, reap orphans")
	demoCommand         = onLinux("demo", "run a complete factory, without a network, account or model")
	checkCommand        = onLinux("check", "report every problem: file, forge, tokens, labels, backends")
	initCommand         = onLinux("init", "set up a first factory: file, supervisor's account, two agents")
	hireCommand         = onLinux("hire-an-agent", "add an agent: account, token, profile, configuration")
	retireCommand       = onLinux("retire-an-agent", "remove an agent; its account and its work stay")
	upstreamCommand     = onLinux("upstream", "print a factory.toml for upstream's agents, or run a script")
	auditCommand        = onLinux("audit", "verify that no session's receipt was changed or removed")
	upgradeCommand      = onLinux("upgrade", "replace the running program in place, without ending sessions")
	agentCommand        = hidden(onLinux("agent", "run one session of the built-in agent"))
	sessionRunCommand   = hidden(onLinux("session-run", "run one session in a Nomad allocation"))
	localforgeCommand   = hidden(onLinux("localforge", "run the embedded forge"))
	demoAgentCommand    = hidden(onLinux("demo-agent", "run a scripted agent of the demo"))
	checkUpgradeCommand = hidden(onLinux("upgrade-check", "test an upgrade"))
)

// placeholder is config_secrets.go's, for `simulate`.
const placeholder = "generic+https://pretended-secret.invalid/"

// onLinux returns a constructor of a command that only fails with a message that it needs Linux.
func onLinux(name, short string) func(*cli) *cobra.Command {
	return func(*cli) *cobra.Command {
		return &cobra.Command{
			Use: name, Short: short + " (on Linux)",
			FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
			RunE: func(*cobra.Command, []string) error {
				return fmt.Errorf("cannot %s on %s: it needs Linux, for example in a container; "+
					"status, why, start, batch, logs and similar commands work here with --address", name, runtime.GOOS)
			},
		}
	}
}

// hidden hides a command: only disinto's own processes call it.
func hidden(command func(*cli) *cobra.Command) func(*cli) *cobra.Command {
	return func(c *cli) *cobra.Command {
		cmd := command(c)
		cmd.Hidden = true
		return cmd
	}
}

// foreign returns false: containers run on Linux only.
func foreign(string) bool { return false }

func becomeProgram([]string) error { return nil }

func listensItself() bool { return false }

// becomePager returns: the text is printed.
func becomePager(*cli, string) {}

// hasInit returns false: factories run on Linux only.
func hasInit(string) bool { return false }

// writable returns false: supervisors have their state directories on Linux only.
func writable(string) bool { return false }

// readConfig reads a factory.toml for disinto simulate.
func readConfig(path string, lookupEnv func(string) (string, bool)) (*threads.Config, string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the configuration: %w", err)
	}
	config, err := file.Decode(path, string(text), lookupEnv)
	return config, string(text), err
}

// printOffline returns an error: a supervisor's logs are on Linux only.
func (l *logsFlags) printOffline(context.Context, *cli, string, io.Writer) error {
	return control.ErrNoSupervisor
}

// offlineHistory and offlineRecord return an error, for the same reason.
func offlineHistory(string, control.HistoryQuery) (*control.HistoryDocument, error) {
	return nil, control.ErrNoSupervisor
}

func offlineRecord(string, control.RecordQuery) (*control.RecordDocument, error) {
	return nil, control.ErrNoSupervisor
}
