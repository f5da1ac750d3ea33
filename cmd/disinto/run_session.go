//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/nomad"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/forge/forgejo"
)

// sessionRunCommand is the program of a session's job in a Nomad cluster.
func sessionRunCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "session-run", Args: cobra.NoArgs, Hidden: true,
		Short: "run one session in a Nomad allocation",
		Long: `
The supervisor submits it as a job for threads with executor = "nomad". It reads
its order from $NOMAD_SECRETS_DIR, starts only if it gets the claim on the
forge, and runs the agent on this node. Its exit code is the outcome's class.`,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runSession(cmd.Context(), c) }
	return cmd
}

func runSession(ctx context.Context, c *cli) error {
	if agents.Getenv(c.environ, "NOMAD_SECRETS_DIR") == "" {
		return usagef("session-run cannot be run by hand: it is the program of a Nomad job that the supervisor submits")
	}
	// Nomad's agent reads this process's output. A restart of that agent causes a SIGPIPE, which must not end the
	// session.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	reaper, err := process.NewReaper()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	executor := &process.Executor{Reaper: reaper, Progress: progress}
	p := nomad.SessionRun{
		Environ: c.environ, Out: c.stdout, Self: self, Begin: beginSession, Starved: process.Starved,
		Run: executor.Run, NoSandbox: noSandbox, Unheld: unheld,
	}
	if code := p.Do(ctx); code != exitDone {
		return &exitError{code, ""}
	}
	return nil
}

// beginSession checks on the job's forge, with the agent's token, whether the session may start.
func beginSession(ctx context.Context, job agents.Job, place string) error {
	environ := append(job.Env[:len(job.Env):len(job.Env)], job.Secrets...)
	client, err := forgejo.New(forgejo.Options{
		URL: agents.Getenv(environ, "FORGE_URL"), Token: agents.Getenv(environ, "FORGE_TOKEN"),
	})
	if err != nil {
		return err
	}
	return client.Begin(ctx, forgejo.Beginning{
		Repo: job.Repo, Number: job.Number, Claim: job.Claim, Run: job.RunID, Place: place,
	})
}

// noSandbox returns why this machine can confine no session; nil if it can.
func noSandbox() error {
	_, err := process.FindSandbox()
	return err
}

// unheld returns what this machine does not hold of sessions with egress, or with a network of their own.
func unheld(egress, network bool) error {
	if !egress {
		return nil
	}
	found, err := findSandbox()
	var shared error
	if err == nil && network {
		shared = found.Shared()
	}
	switch open := cmp.Or(err, found.Open); {
	case err == nil && network && shared == nil:
		return nil // it holds the egress, too
	case open != nil:
		return fmt.Errorf("egress is advisory: %w", open)
	case shared != nil:
		return fmt.Errorf("sessions share the node's network: %w", shared)
	}
	return nil
}
