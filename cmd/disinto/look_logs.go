package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

func logsCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "logs AGENT|SERVICE|REF", Args: cobra.ExactArgs(1),
		Short: "print the output of a session or a service",
		Long: `
Prints the newest session of an agent, or on an issue with its pull requests,
and lists the issue's other sessions. For a service it prints all output that is
kept. REF is 12, #12, owner/name#12 or the URL of an issue or pull request.

The configuration's secrets are redacted. On a terminal, control sequences are
removed, and each line begins with its time; a pipe gets the plain output,
unless --times adds the times. Without a supervisor it reads the log files.`,
		Example: `
  disinto logs dev-qwen --follow
  disinto logs 12 --lines 50`,
	}
	flags := cmd.Flags()
	var l logsFlags
	flags.BoolVarP(&l.Follow, "follow", "f", false,
		"follow the session until it ends; if the agent\nis idle, wait for its next session")
	flags.IntVarP(&l.Lines, "lines", "n", 0, "print only the last `N` lines of each session")
	flags.StringVar(&l.since, "since", "", "print all sessions started within this `TIME`,\nsuch as 90m, 24h or 7d")
	flags.StringVar(&l.Session, "session", "", "print the session whose id starts with `ID`")
	flags.BoolVarP(&l.Times, "times", "t", false, "begin each line with its time (default on a\nterminal)")
	l.at.flags(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l.Times = l.Times || !flags.Changed("times") && c.terminal().shown()
		return l.run(cmd.Context(), c, args)
	}
	return cmd
}

type logsFlags struct {
	at    target
	since string
	control.LogQuery
}

func (l *logsFlags) run(ctx context.Context, c *cli, args []string) error {
	var out io.Writer = c.stdout
	if t := c.terminal(); t.shown() {
		out = &screen.Cleaner{W: t}
		if l.Times {
			clock := &control.Clock{W: out, Now: c.now}
			defer clock.Close()
			out = clock
		}
	}
	client, err := l.at.client(c)
	if err != nil {
		return err
	}
	_, noRef := forge.ParseRef(args[0], "owner/name")
	l.Of, l.Heads = args[0], noRef == nil || l.since != ""
	if l.since != "" {
		since, err := control.Span(l.since)
		if err != nil {
			return usagef("%v", err)
		}
		l.Since = c.now().Add(-since)
	}
	if l.Lines < 0 {
		return usagef("cannot show %d lines", l.Lines)
	}
	err = client.Copy(ctx, "/v1/log?"+l.Values().Encode(), out)
	if errors.Is(err, control.ErrNoSupervisor) {
		err = l.printOffline(ctx, c, client.StateDir(), out)
	}
	if ctx.Err() != nil {
		return nil // an interrupt is the end of --follow
	}
	return err
}
