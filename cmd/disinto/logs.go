package main

import (
	"context"
	"errors"
	"io"
	"net/url"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

var logsCommand = command{
	name: "logs", args: "AGENT|REF", minArgs: 1, maxArgs: 1,
	short: "what the newest session of an agent, or on an issue, printed",
	long: `
REF is 12, #12 or owner/name#12. Secrets of the configuration are hidden, and on
a terminal everything that would do more than print. Without a supervisor it
shows what the last one left.`,
	setup: func(flags *pflag.FlagSet) action {
		var l logsFlags
		l.at.flags(flags)
		flags.BoolVarP(&l.follow, "follow", "f", false, "go on until the session ends")
		return l.run
	},
}

type logsFlags struct {
	at     target
	follow bool
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
	path := "/v1/log?of=" + url.QueryEscape(args[0])
	if l.follow {
		path += "&follow=1"
	}
	err = client.Copy(ctx, path, out)
	if errors.Is(err, control.ErrNoSupervisor) {
		err = l.left(ctx, c, client.StateDir(), args[0], out)
	}
	if ctx.Err() != nil {
		return nil // an interrupt is the end of --follow
	}
	return err
}
