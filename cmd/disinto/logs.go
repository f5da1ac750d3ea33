package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor"
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
		l.place.flags(flags)
		flags.BoolVarP(&l.follow, "follow", "f", false, "go on until the session ends")
		return l.run
	},
}

type logsFlags struct {
	place  place
	follow bool
}

func (l *logsFlags) run(ctx context.Context, c *cli, args []string) error {
	var out io.Writer = c.stdout
	if t := c.terminal(); t.live() {
		out = &screen.Cleaner{W: t}
	}
	client := control.NewClient(l.place.stateDir(c))
	path := "/v1/log?of=" + url.QueryEscape(args[0])
	if l.follow {
		path += "&follow=1"
	}
	err := client.Copy(ctx, path, out)
	if errors.Is(err, control.ErrNoSupervisor) {
		err = l.left(ctx, c, client.StateDir(), args[0], out)
	}
	if ctx.Err() != nil {
		return nil // an interrupt is the end of --follow
	}
	return err
}

// left shows the log that a supervisor left behind. It needs the configuration to know which secrets to hide.
func (l *logsFlags) left(ctx context.Context, c *cli, state, of string, out io.Writer) error {
	log, err := supervisor.FindLog(state, of)
	if err != nil {
		return err
	}
	config, _, err := readConfig(l.place.configFile(), c.lookup)
	if err != nil {
		return fmt.Errorf("cannot show %s: only a valid configuration says which secrets to hide: %s",
			log.Path, errorLines(err)[0])
	}
	var secrets []string
	for _, s := range config.Secrets {
		secrets = append(secrets, s.Value.Reveal())
	}
	return log.Copy(ctx, out, secrets, nil)
}
