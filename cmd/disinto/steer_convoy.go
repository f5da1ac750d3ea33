package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/plan"
	"codeberg.org/johba/disinto/supervisor/control"
)

func batchCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "batch", Aliases: []string{"convoy"}, Short: "create, follow, start and cancel groups of issues",
		Long: "\nA group is also called a convoy: its tracking issue has the label convoy.",
	}
	cmd.AddCommand(convoyCreateCommand(c), convoyListCommand(c), convoyStatusCommand(c), convoyStartCommand(c),
		convoyCancelCommand(c))
	return cmd
}

func convoyCreateCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create PLAN | --title TITLE REF...", Args: cobra.RangeArgs(1, plan.MostTasks),
		Short: "create a convoy of existing issues, or of the tasks in a plan",
		Long: `
REF is 12, #12 or owner/name#12. PLAN is a file in TOML or Markdown, or - for
stdin. Its tasks become issues, with their dependencies:

  # Take orders by mail

  ## Read an order from a mail {#parse}
  Skills: go

  ## Answer with a price
  Depends on: parse, #12

A convoy is a tracking issue that depends on its member issues. A member starts
when its blockers are closed. The convoy closes when its last member is merged.
Members that would wait for each other are refused before anything is written.`,
		Example: `
  disinto batch create plan.md --staged
  disinto batch create --title "Orders by mail" --chain 12 13 14`,
	}
	flags := cmd.Flags()
	var q query
	var r control.ConvoyRequest
	flags.StringVar(&r.Title, "title", "", "the convoy's `TITLE`")
	flags.StringVar(&r.Body, "body", "", "the `TEXT` of the tracking issue")
	flags.StringVar(&r.Repo, "repo", "",
		"create it in `REPO`, owner/name (default the\nonly one, the plan's, or the first member's)")
	flags.BoolVar(&r.Chain, "chain", false, "make each member wait for the previous one")
	flags.BoolVar(&r.Staged, "staged", false, "start nothing before disinto batch start")
	q.flags(flags, "the report")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := readConvoy(c, &r, args); err != nil {
			return err
		}
		return q.postAndPrint(cmd.Context(), c, "/v1/convoy", r)
	}
	return cmd
}

// readConvoy reads the arguments as members, or a single one as the name of a plan.
func readConvoy(c *cli, r *control.ConvoyRequest, args []string) error {
	_, notRef := forge.ParseRef(args[0], "owner/name")
	if len(args) == 1 && (args[0] == "-" || notRef != nil && strings.Contains(args[0], ".")) {
		name, text, err := readPlan(c, args[0])
		if err != nil {
			return err
		}
		p, err := plan.Parse(name, text)
		if err != nil {
			return err
		}
		r.Plan = &p
		return nil
	}
	for _, arg := range args {
		if _, err := forge.ParseRef(arg, "owner/name"); err != nil {
			return usagef("%v, or name a plan that ends in .toml or .md; give a title with --title", err)
		}
	}
	if r.Title == "" {
		return usagef("a convoy of issues needs --title")
	}
	r.Members = args
	return nil
}

// longestPlan limits a plan from stdin, in bytes. A thousand tasks with a page of text each fit.
const longestPlan = 8 << 20

// readPlan reads a file or, for -, stdin. The extension of the returned name gives the plan's format.
func readPlan(c *cli, name string) (said, text string, err error) {
	if name != "-" {
		raw, err := os.ReadFile(name)
		if err != nil {
			return "", "", fmt.Errorf("cannot read the plan: %w", err)
		}
		return name, string(raw), nil
	}
	raw, err := io.ReadAll(io.LimitReader(c.stdin, longestPlan+1))
	switch {
	case err != nil:
		return "", "", fmt.Errorf("cannot read the plan from stdin: %w", err)
	case len(raw) > longestPlan:
		return "", "", fmt.Errorf("cannot read the plan from stdin: it is longer than %d MiB", longestPlan>>20)
	}
	if tomlTask.Match(raw) {
		return "stdin.toml", string(raw), nil
	}
	return "stdin.md", string(raw), nil
}

// tomlTask matches the table header that every plan in TOML has.
var tomlTask = regexp.MustCompile(`(?m)^\s*\[\[\s*task\s*\]\]`)

func convoyStartCommand(c *cli) *cobra.Command {
	return postCommand(c, &cobra.Command{
		Use: "start REF", Args: cobra.ExactArgs(1),
		Short: "start a staged convoy: agents may work on its members",
		Long:  "Removing the label staged does the same.",
	}, "/v1/convoy/start", itemOf)
}

func convoyCancelCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cancel REF", Args: cobra.ExactArgs(1),
		Short: "end a convoy's sessions and cancel its remaining members",
		Long: `
Ends the sessions on members, then labels every unfinished member cancelled, and
the convoy last. The issues stay open unless --close is set. When the command
returns, no member can start any more. It may be repeated. Changes that the
forge refuses now are retried later, even after a restart.`,
	}
	flags := cmd.Flags()
	var q query
	var r control.ConvoyCancelRequest
	flags.BoolVar(&r.Drain, "drain", false, "let members that have started finish")
	flags.BoolVar(&r.Close, "close", false, "close the issues too")
	q.flags(flags, "the report")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.Ref = args[0]
		if err := checkRef(r.Ref); err != nil {
			return err
		}
		return q.postAndPrint(cmd.Context(), c, "/v1/convoy/cancel", r)
	}
	return cmd
}

func convoyStatusCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status [REF]", Args: cobra.MaximumNArgs(1),
		Short: "show who does what in a convoy or in all, what waits and why",
	}
	var s statusFlags
	s.flags(cmd.Flags(), "the document")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return s.convoys(cmd.Context(), c, args) }
	return cmd
}

func convoyListCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Args: cobra.NoArgs,
		Short: "list the open convoys, one per line",
	}
	var s statusFlags
	s.flags(cmd.Flags(), "the document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.show(cmd.Context(), c, convoysPath, rendering(screen.View.ConvoyList))
	}
	return cmd
}

// convoysPath is the path of all convoys; with the parameter ref, of one.
const convoysPath = "/v1/convoys"

func (s *statusFlags) convoys(ctx context.Context, c *cli, args []string) error {
	path := convoysPath
	if len(args) == 1 {
		if err := checkRef(args[0]); err != nil {
			return err
		}
		path += "?ref=" + url.QueryEscape(args[0])
	}
	return s.show(ctx, c, path, rendering(screen.View.Convoys))
}
