package main

import (
	"context"
	"net/url"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

var showCommand = command{
	name: "show", args: "REF", minArgs: 1, maxArgs: 1,
	short: "show the life of an issue: sessions, reviews, pull requests, cost",
	long: `
REF is 12, #12, owner/name#12 or the URL of an issue or pull request. Asks the
running supervisor, which asks the forge.`,
	setup: func(flags *pflag.FlagSet) action {
		var q query
		q.flags(flags, "the life")
		return func(ctx context.Context, c *cli, args []string) error {
			if err := checkRef(args[0]); err != nil {
				return err
			}
			return get(ctx, c, &q, "/v1/show?ref="+url.QueryEscape(args[0]), screen.View.Life)
		}
	},
}
