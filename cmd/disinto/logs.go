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
	short: "what the sessions of an agent, on an issue, or a service printed",
	long: `
Shows the newest session, and of an issue it names the others. Of a service it
shows all that is kept of its runs. REF is 12, #12, owner/name#12 or the address
of an issue or pull request. Secrets of the
configuration are hidden, and on a terminal everything that would do more than
print. Without a supervisor it shows what the last one left. Headings say when a
session began; lines have no time, because the program writes them itself.`,
	setup: func(flags *pflag.FlagSet) action {
		var l logsFlags
		l.at.flags(flags)
		flags.BoolVarP(&l.Follow, "follow", "f", false,
			"go on until the session ends; of an idle\nagent, wait for its next session")
		flags.IntVarP(&l.Lines, "lines", "n", 0, "only the last `N` lines of each session")
		flags.StringVar(&l.since, "since", "", "all sessions that began in this `TIME`, such\nas 90m, 24h or 7d")
		flags.StringVar(&l.Session, "session", "", "the session whose id begins with `ID`")
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
