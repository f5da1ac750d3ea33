package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

func yesFlag(flags *pflag.FlagSet, yes *bool) {
	flags.BoolVarP(yes, "yes", "y", false, "do not ask")
}

// many carries out a command on several items, one by one.
type many struct {
	c    *cli
	q    query
	verb string // cancel or retry
	path string // of the control API
	yes  bool
}

// doneDocument is what a command did to one of several items.
type doneDocument struct {
	Ref    string          `json:"ref"`
	Report *control.Report `json:"report,omitempty"`
	Error  string          `json:"error,omitempty"` // why it was refused
}

// run carries out the command: at once on a single reference, else after a question. choice chooses more items.
func (m *many) run(ctx context.Context, refs []string, choice control.RetryChoice) error {
	for _, ref := range refs {
		if err := checkRef(ref); err != nil {
			return err
		}
	}
	if len(refs) == 1 && choice.Empty() {
		return m.q.postAndPrint(ctx, m.c, m.path, control.ItemRequest{Ref: refs[0]})
	}
	client, err := m.q.client(m.c)
	if err != nil {
		return err
	}
	var d control.Document
	if err := client.Get(ctx, "/v1/state", &d); err != nil {
		return err
	}
	var lines []string
	for _, ref := range refs {
		lines = append(lines, "- "+ref+nowOf(&d, ref))
	}
	if err := choice.Check(&d); err != nil {
		return err
	}
	for _, item := range choice.From(&d) {
		ref := forge.Ref{Repo: item.Repo, Number: item.Number}.String()
		refs, lines = append(refs, ref), append(lines, "- "+ref+nowOf(&d, ref))
	}
	if len(refs) == 0 {
		fmt.Fprintln(m.c.stderr, "nothing to "+m.verb)
		return nil
	}
	if !m.yes {
		what := control.Count(len(refs), "item")
		preview := "would " + m.verb + " " + what + ":\n" + strings.Join(lines, "\n")
		if err := m.c.ask(preview, strings.ToUpper(m.verb[:1])+m.verb[1:]+" "+what+"?"); err != nil {
			return err
		}
	}
	return m.each(ctx, client, refs)
}

// each posts the command for each item, and says at the end how many were refused.
func (m *many) each(ctx context.Context, client *control.Client, refs []string) error {
	done, refused, pending := []doneDocument{}, 0, false
	for _, ref := range refs {
		d := doneDocument{Ref: ref, Report: new(control.Report)}
		var no *control.Refusal
		switch err := client.Post(ctx, m.path, control.ItemRequest{Ref: ref}, d.Report); {
		case errors.As(err, &no):
			d.Report, d.Error = nil, err.Error()
			refused++
		case err != nil:
			return err
		default:
			pending = pending || d.Report.Pending != ""
		}
		done = append(done, d)
	}
	raw, err := json.Marshal(done)
	if err == nil {
		err = m.c.print(m.q.json, json.RawMessage(raw), func(v screen.View) string { return manyText(v, done, refused) })
	}
	switch {
	case err != nil:
		return err
	case refused > 0:
		return errSaid
	case pending:
		return errNotNow
	}
	return nil
}

func manyText(v screen.View, done []doneDocument, refused int) string {
	var b strings.Builder
	for _, d := range done {
		if d.Report != nil {
			b.WriteString(v.Report(d.Report))
		} else {
			b.WriteString(v.Report(&control.Report{Subject: d.Ref, Note: "refused: " + d.Error}))
		}
	}
	fmt.Fprintf(&b, "%d done, %d refused\n", len(done)-refused, refused)
	return b.String()
}

// nowOf says what happens to an item now, and its title; empty if the status does not know it.
func nowOf(d *control.Document, said string) string {
	home := ""
	if len(d.Repos) == 1 {
		home = d.Repos[0].Name
	}
	ref, err := forge.ParseRef(said, home)
	if err != nil {
		return ""
	}
	for i := range d.Sessions {
		if s := &d.Sessions[i]; s.Number == ref.Number && s.Repo == ref.Repo {
			return ": " + s.Title + ": " + s.Agent + " works on it"
		}
	}
	for i := range d.Queue {
		if q := &d.Queue[i]; q.Number == ref.Number && q.Repo == ref.Repo {
			return ": " + q.Title + ": " + q.Why
		}
	}
	return ""
}

func cancelCommand(c *cli) *cobra.Command {
	m := &many{c: c, verb: "cancel", path: "/v1/cancel"}
	cmd := &cobra.Command{
		Use: "cancel REF...", Args: cobra.MinimumNArgs(1),
		Short: "end the session on an item and label it cancelled",
		Long: `
REF is 12, #12 or owner/name#12. When the command returns, all processes of the
session have ended, the claim is released, and no session can start on the item
any more. The item stays open, and issues that depend on it stay blocked.
Cancelling an issue also cancels the agents' open pull requests for it. disinto
retry undoes the cancellation.

Several items are shown first, and a terminal is asked. What one of them refuses
does not keep the others.

Exits 3 if the session ended but the forge does not answer: the label is written
when it does.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.run(cmd.Context(), args, control.RetryChoice{})
		},
	}
	yesFlag(cmd.Flags(), &m.yes)
	m.q.flags(cmd.Flags(), "the report")
	return cmd
}

func retryCommand(c *cli) *cobra.Command {
	m := &many{c: c, verb: "retry", path: "/v1/retry"}
	var choice control.RetryChoice
	cmd := &cobra.Command{
		Use:   "retry [REF...]",
		Short: "make an issue or pull request eligible again",
		Long: `
REF is 12, #12 or owner/name#12. Forgets failed attempts, back-off, refusals,
review rounds and a rejected pull request. Removes the labels blocked,
needs-human, needs-answer and cancelled, and adds backlog to an issue without
it. Retrying an issue also retries the agents' open pull requests for it.

The flags choose among the open items that failed, rest after a failure, or are
labelled blocked or needs-human; together they choose what fits all of them.
Several items are shown first, and a terminal is asked. What one of them refuses
does not keep the others.`,
		Example: `
  disinto retry 12
  disinto retry --blocked --repo johba/harb
  disinto retry --agent dev-qwen --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && !choice.Empty():
				return usagef("use references or flags, not both")
			case len(args) > 0:
				return m.run(cmd.Context(), args, control.RetryChoice{})
			case choice.Empty():
				return usagef("missing REF, or --blocked, --agent, --repo or --all")
			}
			return m.run(cmd.Context(), nil, choice)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&choice.Blocked, "blocked", false, "what is labelled blocked or gave up")
	flags.StringVar(&choice.Agent, "agent", "", "what this `AGENT` failed at last")
	flags.StringVar(&choice.Repo, "repo", "", "what is in this `REPOSITORY`")
	flags.BoolVar(&choice.All, "all", false, "all of these items")
	yesFlag(flags, &m.yes)
	m.q.flags(flags, "the report")
	return cmd
}
