//go:build linux

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
)

const demoAgentName = "demo-agent"

// demoAgentCommand is the program of the demo's agents.
func demoAgentCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: demoAgentName, Args: cobra.NoArgs, Hidden: true,
		Short: "run one session of a scripted agent, configured by its environment",
	}
	think := cmd.Flags().Duration("think", 0, "pretend to think for this `TIME`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runDemoAgent(cmd.Context(), c, *think) }
	return cmd
}

func runDemoAgent(ctx context.Context, c *cli, think time.Duration) error {
	reaper, err := process.NewReaper()
	if err != nil {
		return err
	}
	a := demo.Agent{Getenv: c.getenv, Git: agentGit(reaper, c.environ), Think: think, Out: c.stdout}
	return a.Run(ctx)
}
