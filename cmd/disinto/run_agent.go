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
		Use: "agent [-- COMMAND...]", Args: cobra.ArbitraryArgs, Hidden: true,
		Short: "run one session of the built-in agent, configured by its environment",
		Long: `
The supervisor starts it for roles with cli or prompt. It works in
$DISINTO_WORKSPACE, uses the forge with $FORGE_TOKEN and writes its result to
$DISINTO_RESULT.`,
	}
	flags := cmd.Flags()
	name := flags.String("cli", "", "the agent CLI: "+strings.Join(agents.CLINames(), ", ")+",\nor acp with COMMAND")
	prompt := flags.String("prompt", "", "give COMMAND its prompt on \"stdin\", or in a \"file\"")
	prompts := flags.String("prompts", "", "a `DIR` with prompts that replace built-in ones")
	save := flags.Bool("save", false, "only push work from the workspace that the forge\ndoes not have")
	setup := flags.Bool("setup", false, "only run the setup of the repository")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p := &session.Program{CLI: *name, Command: args, Prompt: agents.PromptBy(*prompt), Prompts: *prompts}
		run := p.Do
		switch {
		case *save:
			run = p.Save
		case *setup:
			run = p.Setup
		case (p.CLI == "" || p.CLI == agents.ACP) == (len(p.Command) == 0):
			return usagef("agent needs --cli, or a command after --")
		}
		return runAgent(cmd.Context(), c, p, run)
	}
	return cmd
}

func runAgent(ctx context.Context, c *cli, p *session.Program, run func(context.Context) error) error {
	if p.CLI == "" && len(p.Command) > 0 && p.Prompt != agents.PromptStdin && p.Prompt != agents.PromptFile {
		return usagef("--prompt is %q, want stdin or file", p.Prompt)
	}
	reaper, err := process.NewReaper()
	if err != nil {
		return err
	}
	kind, err := forges.choose("DISINTO_FORGE", c.lookup)
	if err != nil {
		return err
	}
	p.Environ, p.Desk = c.environ, kind.desk(c.getenv("FORGE_URL"), c.getenv("FORGE_TOKEN"))
	p.Run, p.Out, p.Now = sessionRun(reaper), c.stdout, time.Now
	return run(ctx)
}
