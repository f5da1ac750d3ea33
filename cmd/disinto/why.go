package main

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/decisions"
)

var whyCommand = command{
	name: "why", args: "REF|AGENT|THREAD", minArgs: 1, maxArgs: 1,
	short: "why an issue or pull request is not worked on, and what would change it",
	long: `
REF is 12, #12, owner/name#12 or the address of an issue or pull request. Asks
the running supervisor, which answers with the rules it decides by. For an agent
or a thread it says what keeps it from starting more.

With --at it says what was decided then. Decisions are kept for 7 days, and
without a supervisor it reads what the last one left.

With --until it plays the factory on from this moment, many times, with the
rules it decides by and with what its journal teaches about times and failures.`,
	setup: func(flags *pflag.FlagSet) action {
		var w whyFlags
		w.flags(flags, "the explanation")
		flags.BoolVar(&w.all, "all", false, "show every rule and its answer")
		flags.StringVar(&w.at, "at", "", "what was decided at this `TIME`: 15:04, -2h,\n"+
			"\"yesterday 15:04\" or 2026-01-31T15:04:05Z")
		flags.BoolVar(&w.until, "until", false, "say when it is likely to start and to be merged")
		return w.run
	},
}

type whyFlags struct {
	query
	all, until bool
	at         string
}

func (w *whyFlags) run(ctx context.Context, c *cli, args []string) error {
	show := screen.View.Why
	switch {
	case w.until && w.at != "":
		return usagef("--at and --until: say one of them")
	case w.until:
		return get(ctx, c, &w.query, "/v1/forecast?ref="+url.QueryEscape(args[0]), screen.View.Until)
	case w.all:
		show = screen.View.WhyAll
	}
	ask, at := url.Values{"ref": {args[0]}}, time.Time{}
	if w.at != "" {
		var err error
		if at, err = moment(w.at, c.now()); err != nil {
			return usagef("--at: %v", err)
		}
		ask.Set("at", at.Format(time.RFC3339Nano))
	}
	err := get(ctx, c, &w.query, "/v1/why?"+ask.Encode(), show)
	if w.at == "" || !errors.Is(err, control.ErrNoSupervisor) {
		return err
	}
	ex, err := decisions.Why(w.query.at.asked(c), args[0], at, false)
	if err != nil {
		return err
	}
	return c.print(w.json, &ex, func(v screen.View) string { return show(v, &ex) })
}
