package main

import (
	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/supervisor/control"
)

func restartCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "restart SERVICE", Args: cobra.ExactArgs(1),
		Short: "restart a service with its current configuration",
		Long: `
A service in back-off after a failure starts at once. Sessions that use its
model continue, but lose their open requests; to avoid that, run disinto pause
THREAD first and wait until they end.`,
	}, "/v1/restart", func(args []string) (any, error) {
		return control.RestartRequest{Service: args[0]}, nil
	})
}
