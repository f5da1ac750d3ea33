//go:build linux

package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/agents/session"
)

// agentCommand is the built-in agent, the program of roles with a cli.
func agentCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "agent", Args: cobra.NoArgs, Hidden: true,
		Short: "run one session of the built-in agent, configured by its environment",
		Long: `
The supervisor starts it for roles with cli = "claude" or another CLI. It works
in $DISINTO_WORKSPACE, uses the forge with $FORGE_TOKEN and writes its result to
$DISINTO_RESULT.`,
	}
	flags := cmd.Flags()
	name := flags.String("cli", "", "the agent CLI: "+strings.Join(agents.CLINames(), ", "))
	prompts := flags.String("prompts", "", "a `DIR` with prompts that replace built-in ones")
	save := flags.Bool("save", false, "only push work from the workspace that the forge\ndoes not have")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runAgent(cmd.Context(), c, *name, *prompts, *save) }
	return cmd
}

func runAgent(ctx context.Context, c *cli, name, prompts string, save bool) error {
	if name == "" && !save {
		return usagef("agent needs --cli")
	}
	reaper, err := process.NewReaper()
	if err != nil {
		return err
	}
	kind, err := forges.choose("DISINTO_FORGE", c.lookup)
	if err != nil {
		return err
	}
	p := session.Program{
		CLI: name, Prompts: prompts, Environ: c.environ, Desk: kind.desk(c.getenv("FORGE_URL"), c.getenv("FORGE_TOKEN")),
		Run: sessionRun(reaper), Out: c.stdout, Now: time.Now,
	}
	if save {
		return p.Save(ctx)
	}
	return p.Do(ctx)
}
