package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/supervisor/control"
)

func pauseCommand(c *cli) *cobra.Command {
	var why string
	cmd := postCommand(c, &cobra.Command{
		Use: "pause [THREAD|AGENT|REPO]", Args: cobra.MaximumNArgs(1),
		Short: "start no new sessions; running sessions continue",
		Long: `
Pauses the named thread, agent or repository, or the whole factory. The pause
lasts until disinto resume, even across restarts of the supervisor. Merges
continue.`,
		Example: `
  disinto pause
  disinto pause johba/harb
  disinto pause dev-qwen --why "edits the lock file"`,
	}, "/v1/pause", func(args []string) (any, error) {
		return control.PauseRequest{
			Name: strings.Join(args, ""), By: cmp.Or(c.getenv("SUDO_USER"), c.getenv("USER")), Why: why,
		}, nil // args has at most one
	})
	cmd.Flags().StringVar(&why, "why", "", "tell others why in these `WORDS`")
	return cmd
}

func resumeCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "resume [THREAD|AGENT|REPO]", Args: cobra.MaximumNArgs(1),
		Short: "end a pause; without a name, end all pauses",
	}, "/v1/resume", func(args []string) (any, error) {
		return control.PauseRequest{Name: strings.Join(args, "")}, nil // args has at most one
	})
}

func adoptCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "adopt-state", Args: cobra.NoArgs,
		Short: "go on in a copied state directory, with a new identity",
		Long: `
Two supervisors that work with copies of one state directory stop when they
find each other. This command gives one of them a new identity and ends that
pause; what the other one claims then counts as another factory's.
Budgets, attempts, history and receipts stay. No session or service may run
meanwhile.`,
	}, "/v1/adopt-state", func([]string) (any, error) { return control.AdoptRequest{}, nil })
}
