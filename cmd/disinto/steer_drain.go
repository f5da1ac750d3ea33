package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

func drainCommand(c *cli) *cobra.Command {
	var q query
	var yes bool
	var r control.DrainRequest
	cmd := &cobra.Command{
		Use: "drain", Args: cobra.NoArgs,
		Short: "finish what is begun and start no new issue",
		Long: `
Sessions, reviews, rework and merges go on. Issues on which no session has
written, and scheduled roles, wait until disinto resume, even across restarts of
the supervisor. Once nothing goes on by itself, status, a message and the log
say so. Prints what is left to finish, and asks on a terminal.`,
		Example: `
  disinto drain
  disinto drain --then-stop --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.By = cmp.Or(c.getenv("SUDO_USER"), c.getenv("USER"))
			if !yes {
				if err := previewDrain(cmd.Context(), c, &q, r); err != nil {
					return err
				}
			}
			return q.postAndPrint(cmd.Context(), c, "/v1/drain", r)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&r.ThenStop, "then-stop", false, "end disinto then; its next start drains, too")
	flags.StringVar(&r.Why, "why", "", "tell others why in these `WORDS`")
	yesFlag(flags, &yes)
	q.flags(flags, "the report")
	return cmd
}

// previewDrain shows what a drain would do, and asks.
func previewDrain(ctx context.Context, c *cli, q *query, r control.DrainRequest) error {
	client, err := q.client(c)
	if err != nil {
		return err
	}
	r.DryRun = true
	var preview control.Report
	if err := client.Post(ctx, "/v1/drain", r, &preview); err != nil {
		return err
	}
	return c.ask(preview.Line(), "Drain?")
}

// ask shows what a command would do and asks on a terminal whether to do it. Without a terminal it refuses.
func (c *cli) ask(preview, question string) error {
	for line := range strings.SplitSeq(preview, "\n") {
		fmt.Fprintln(c.stderr, screen.Clean(line))
	}
	f, ok := c.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return usagef("nothing was done: without a terminal to ask on, use --yes")
	}
	fmt.Fprint(c.stderr, question+" [y/N] ")
	said, _ := bufio.NewReader(f).ReadString('\n')
	if said = strings.ToLower(strings.TrimSpace(said)); said != "y" && said != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}
