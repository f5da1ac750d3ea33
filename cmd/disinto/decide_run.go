package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/threads/wire"
)

// decideRunCommand is wire.Command: the supervisor of another build runs it to compare decisions.
var decideRunCommand = command{
	name: wire.Command, args: "FILE", minArgs: 1, maxArgs: 1,
	hidden: true,
	short:  "print this build's decision, for the supervisor of another build",
	long: `
A supervisor runs the program of [factory] decide with a FILE that has the input
of a decision. decide-run prints the decision of this build as one line of JSON,
and changes nothing.`,
	setup: func(*pflag.FlagSet) action {
		return func(_ context.Context, c *cli, args []string) error { return decideRun(c, args[0]) }
	},
}

// longestQuestion limits a question, in bytes. 10,000 items are some 10 MB.
const longestQuestion = 256 << 20

func decideRun(c *cli, path string) error {
	question, err := plainfile.ReadNamed(path, longestQuestion)
	if err != nil {
		return fmt.Errorf("cannot read the question: %w", err)
	}
	_, err = fmt.Fprintf(c.stdout, "%s\n", wire.Answer(question, version()))
	return err
}
