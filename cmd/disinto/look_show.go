package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

func showCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show REF", Args: cobra.ExactArgs(1),
		Short: "show the sessions, reviews, pull requests and cost of an issue",
		Long: `
REF is 12, #12, owner/name#12 or the URL of an issue or pull request. Asks the
running supervisor, which asks the forge. If that does not answer within three
seconds, show prints what is known without it, says why, and exits 3.`,
		Example: `
  disinto show owner/name#12`,
	}
	var q query
	q.flags(cmd.Flags(), "the life")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkRef(args[0]); err != nil {
			return err
		}
		d, err := getDocument(cmd.Context(), c, &q, "/v1/show?ref="+url.QueryEscape(args[0]),
			func(v screen.View, d *control.ItemDocument) string {
				v.Asked = args[0]
				return v.Item(d)
			})
		if err == nil && d.NotRead != "" {
			err = &exitError{exitNotNow, d.NotRead}
		}
		return err
	}
	return cmd
}
