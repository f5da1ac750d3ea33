//go:build linux

package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
)

// demoAgentCommand is the program of the demo's agents.
var demoAgentCommand = command{
	name:   "demo-agent",
	hidden: true,
	short:  "run one session of a scripted agent, configured by its environment",
	setup: func(flags *pflag.FlagSet) action {
		think := flags.Duration("think", 0, "pretend to think for this `TIME`")
		return func(ctx context.Context, c *cli, _ []string) error { return runDemoAgent(ctx, c, *think) }
	},
}

func runDemoAgent(ctx context.Context, c *cli, think time.Duration) error {
	reaper, err := process.NewReaper()
	if err != nil {
		return err
	}
	a := demo.Agent{Getenv: c.getenv, Git: agentGit(reaper, c.environ), Think: think, Out: c.stdout}
	return a.Run(ctx)
}
