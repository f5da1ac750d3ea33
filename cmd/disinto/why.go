package main

import (
	"context"
	"net/url"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

var whyCommand = command{
	name: "why", args: "REF", minArgs: 1, maxArgs: 1,
	short: "why an issue or pull request is not worked on: rule by rule",
	long: `
REF is 12, #12 or owner/name#12. Asks the running supervisor, which answers with
the rules it decides by.`,
	setup: func(flags *pflag.FlagSet) action {
		var q query
		q.flags(flags, "the explanation")
		return func(ctx context.Context, c *cli, args []string) error {
			if err := checkRef(args[0]); err != nil {
				return err
			}
			return get(ctx, c, &q, "/v1/why?ref="+url.QueryEscape(args[0]), screen.View.Why)
		}
	},
}
