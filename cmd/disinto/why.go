package main

import (
	"context"
	"net/url"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

var whyCommand = command{
	name: "why", args: "REF|AGENT|THREAD", minArgs: 1, maxArgs: 1,
	short: "why an issue or pull request is not worked on, and what would change it",
	long: `
REF is 12, #12, owner/name#12 or the address of an issue or pull request. Asks
the running supervisor, which answers with the rules it decides by. For an agent
or a thread it says what keeps it from starting more.

With --until it plays the factory on from this moment, many times, with the
rules it decides by and with what its journal teaches about times and failures.`,
	setup: func(flags *pflag.FlagSet) action {
		var q query
		q.flags(flags, "the explanation")
		all := flags.Bool("all", false, "show every rule and its answer")
		until := flags.Bool("until", false, "say when it is likely to start and to be merged")
		return func(ctx context.Context, c *cli, args []string) error {
			if *until {
				return get(ctx, c, &q, "/v1/forecast?ref="+url.QueryEscape(args[0]), screen.View.Until)
			}
			show := screen.View.Why
			if *all {
				show = screen.View.WhyAll
			}
			return get(ctx, c, &q, "/v1/why?ref="+url.QueryEscape(args[0]), show)
		}
	},
}
