//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/hire"
	"codeberg.org/johba/disinto/threads"
)

func retireCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "retire-an-agent AGENT", Args: cobra.ExactArgs(1),
		Short: "remove an agent; its account and its work stay",
		Long: `
Removes the agent from factory.toml, returns its issues to the queue, revokes
the tokens that hire-an-agent created, ends its access to the repositories and
deletes its token from the secrets file. Its account, its profile repository and
everything that it wrote stay. A second run completes an interrupted one.`,
		Example: `
  disinto retire-an-agent dev-qwen --dry-run`,
	}
	flags := cmd.Flags()
	var d adminFlags
	var repos []string
	flags.StringSliceVar(&repos, "repo", nil, "clean up only this `REPO`, owner/name\n(default all in the file)")
	d.flags(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return d.retire(cmd.Context(), c, args[0], repos) }
	return cmd
}

func (d *adminFlags) retire(ctx context.Context, c *cli, name string, repos []string) error {
	f, s, err := d.factory(ctx, c, name, true, repos)
	if err != nil {
		return err
	}
	unlock, err := f.lock(d.dryRun)
	if err != nil {
		return err
	}
	defer unlock()
	who := &hire.Retire{Factory: *f.Factory, Name: name}
	who.Login, who.TokenVar = s.Retiring(name)
	who.Hint = threads.Suggest(name, s.Agents())
	who.Email = agents.NoReply(who.Login, f.url)
	if err := errors.Join(who.Check(ctx), f.problem); err != nil {
		return err
	}
	if err := who.Run(ctx); err != nil {
		return err
	}
	switch {
	case d.dryRun:
		fmt.Fprintln(c.stdout, "nothing was done: repeat without --dry-run")
	case who.TokensKept:
		return &exitError{
			exitNotNow, "the token of " + name + " is not revoked yet: repeat this command when its session has ended",
		}
	default:
		printStep(c, "done", "the account "+who.Login+" and its profile repository stay")
	}
	return nil
}
