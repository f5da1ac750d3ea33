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
	}, "/v1/restart", serviceRequest)
}

func stopCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "stop SERVICE", Args: cobra.ExactArgs(1),
		Short: "stop a service until it is started by hand",
		Long: `
Services that need it keep running, and agents that it serves start nothing. It
stays stopped until disinto start or restart, or until disinto itself starts.`,
	}, "/v1/stop", serviceRequest)
}

func serviceRequest(args []string) (any, error) { return control.ServiceRequest{Service: args[0]}, nil }
