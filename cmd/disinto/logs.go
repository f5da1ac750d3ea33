package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

var logsCommand = command{
	name: "logs", args: "AGENT|SERVICE|REF", minArgs: 1, maxArgs: 1,
	short: "print the output of sessions, by agent or item, or of a service",
	long: `
Prints the newest session of an agent or item, and lists an item's other
sessions. For a service it prints all output that is kept. REF is 12, #12,
owner/name#12 or the URL of an issue or pull request.

The configuration's secrets are redacted. On a terminal, control sequences are
removed. Without a supervisor it reads the log files. Headings have the start
times of sessions; lines have no times, because programs write the log files
directly.`,
	setup: func(flags *pflag.FlagSet) action {
		var l logsFlags
		l.at.flags(flags)
		flags.BoolVarP(&l.Follow, "follow", "f", false,
			"follow the session until it ends; if the agent\nis idle, wait for its next session")
		flags.IntVarP(&l.Lines, "lines", "n", 0, "print only the last `N` lines of each session")
		flags.StringVar(&l.since, "since", "", "print all sessions started within this `TIME`,\nsuch as 90m, 24h or 7d")
		flags.StringVar(&l.Session, "session", "", "print the session whose id starts with `ID`")
		return l.run
	},
}

type logsFlags struct {
	at    target
	since string
	control.LogQuery
}

func (l *logsFlags) run(ctx context.Context, c *cli, args []string) error {
	var out io.Writer = c.stdout
	if t := c.terminal(); t.live() {
		out = &screen.Cleaner{W: t}
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
		err = l.left(ctx, c, client.StateDir(), out)
	}
	if ctx.Err() != nil {
		return nil // an interrupt is the end of --follow
	}
	return err
}
