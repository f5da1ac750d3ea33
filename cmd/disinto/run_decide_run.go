package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// decideRunCommand refuses the questions of an older supervisor whose `[factory] decide` names this program.
func decideRunCommand(*cli) *cobra.Command {
	return &cobra.Command{
		Use: "decide-run FILE", Args: cobra.MaximumNArgs(1), Hidden: true,
		Short: "refuse to compare decisions for an older supervisor",
		RunE: func(*cobra.Command, []string) error {
			return errors.New("this disinto compares no decisions: remove decide from [factory]")
		},
	}
}
