package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"
)

// decideRunCommand refuses the questions of an older supervisor whose `[factory] decide` names this program.
var decideRunCommand = command{
	name: "decide-run", args: "FILE", maxArgs: 1,
	hidden: true,
	short:  "refuse to compare decisions for an older supervisor",
	setup: func(*pflag.FlagSet) action {
		return func(context.Context, *cli, []string) error {
			return errors.New("this disinto compares no decisions: remove decide from [factory]")
		}
	},
}
