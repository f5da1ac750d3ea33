package main

import (
	"strings"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/supervisor/control"
)

func pauseCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "pause [THREAD|AGENT|REPO]", Args: cobra.MaximumNArgs(1),
		Short: "start no new sessions; running sessions continue",
		Long: `
Pauses the named thread, agent or repository, or the whole factory. The pause
lasts until disinto resume, even across restarts of the supervisor. Merges
continue.`,
		Example: `
  disinto pause
  disinto pause dev-qwen
  disinto pause johba/harb`,
	}, "/v1/pause", pauseOf)
}

func resumeCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "resume [THREAD|AGENT|REPO]", Args: cobra.MaximumNArgs(1),
		Short: "end a pause; without a name, end all pauses",
	}, "/v1/resume", pauseOf)
}

func pauseOf(args []string) (any, error) {
	return control.PauseRequest{Name: strings.Join(args, "")}, nil // args has at most one
}
