package main

import (
	"context"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/supervisor/control"
)

var pauseCommand = command{
	name: "pause", args: "[THREAD|AGENT]", maxArgs: 1,
	short: "start no new session, here or anywhere; what runs goes on",
	long: `
Of the thread or the agent that is named, else of the whole factory. It holds
until disinto resume, also when the supervisor is restarted. Merges go on.`,
	setup: pauseSetup("/v1/pause"),
}

var resumeCommand = command{
	name: "resume", args: "[THREAD|AGENT]", maxArgs: 1,
	short: "take a pause back; without a name, all of them",
	setup: pauseSetup("/v1/resume"),
}

func pauseSetup(path string) func(*pflag.FlagSet) action {
	return func(flags *pflag.FlagSet) action {
		o := order{path: path}
		o.flags(flags)
		return func(ctx context.Context, c *cli, args []string) error {
			var r control.PauseRequest
			if len(args) == 1 {
				r.Name = args[0]
			}
			return o.tell(ctx, c, r)
		}
	}
}
