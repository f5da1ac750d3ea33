package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

func historyCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "history", Args: cobra.NoArgs,
		Short: "list ended sessions: agent, item, outcome, cost",
		Long: `
The supervisor keeps the sessions of 30 days, at most 4,000 of them; if earlier
ones of the time are gone, the list says so. Without a supervisor it reads them
from the journal. An OUTCOME is done, failed, timeout and so on; "disinto report
--by outcome" lists those that there were.`,
		Example: `
  disinto history --agent dev-qwen --since 7d
  disinto history --outcome failed --repo johba/harb --csv >failed.csv`,
	}
	flags := cmd.Flags()
	var h historyFlags
	flags.StringVar(&h.agent, "agent", "", "list only the sessions of this `AGENT`")
	flags.StringVar(&h.repo, "repo", "", "list only the sessions in this `REPO`")
	flags.StringVar(&h.outcome, "outcome", "", "list only the sessions with this `OUTCOME`")
	flags.StringVar(&h.since, "since", "24h", "look back this `TIME`, such as 90m or 7d")
	csvFlag(flags, &h.csv)
	h.flags(flags, "the sessions")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return h.run(cmd.Context(), c, args) }
	return cmd
}

func csvFlag(flags *pflag.FlagSet, csv *bool) {
	flags.BoolVar(csv, "csv", false, "print comma-separated values")
}

type historyFlags struct {
	query
	agent, repo, outcome, since string
	csv                         bool
}

func (h *historyFlags) run(ctx context.Context, c *cli, _ []string) error {
	since, err := control.Span(h.since)
	if err != nil {
		return usagef("%v", err)
	}
	ask := url.Values{"since": {c.now().Add(-since).UTC().Format(time.RFC3339)}}
	for name, value := range map[string]string{"agent": h.agent, "repo": h.repo, "outcome": h.outcome} {
		if value != "" {
			ask.Set(name, value)
		}
	}
	q, err := control.ReadHistoryQuery(ask)
	if err != nil {
		return usagef("%v", err)
	}
	a := pastQuery[control.HistoryDocument]{
		c: c, q: &h.query, path: "/v1/history?" + ask.Encode(), asCSV: h.csv,
		text: screen.View.History, csv: screen.View.HistoryCSV, note: (*control.HistoryDocument).Forgotten,
		left: func() (*control.HistoryDocument, error) { return offlineHistory(h.at.stateDir(c), q) },
	}
	return a.lookBack(ctx)
}

// pastQuery is a query about ended sessions: to a supervisor or, without one, to its journal.
type pastQuery[T any] struct {
	c         *cli
	q         *query
	path      string // of the control API
	asCSV     bool
	text, csv func(screen.View, *T) string
	note      func(*T) string    // says what is missing: not in the CSV, but beside it
	left      func() (*T, error) // reads the journal
}

func (a *pastQuery[T]) lookBack(ctx context.Context) error {
	show := a.text
	if a.asCSV {
		if a.q.json {
			return usagef("use --json or --csv, not both")
		}
		show = func(v screen.View, d *T) string {
			if note := a.note(d); note != "" {
				fmt.Fprintln(a.c.stderr, note)
			}
			return a.csv(v, d)
		}
	}
	err := get(ctx, a.c, a.q, a.path, show)
	if !errors.Is(err, control.ErrNoSupervisor) {
		return err
	}
	left, readErr := a.left()
	if readErr != nil {
		return withoutJournal(err, readErr)
	}
	return a.c.print(a.q.json, left, func(v screen.View) string { return show(v, left) })
}

// withoutJournal returns the error of a command that found no supervisor and then could not read its journal. A state
// directory without a journal had no supervisor.
func withoutJournal(noSupervisor, unread error) error {
	if errors.Is(unread, fs.ErrNotExist) || errors.Is(unread, control.ErrNoSupervisor) {
		return noSupervisor
	}
	return fmt.Errorf("no supervisor runs, and the journal cannot be read: %w", unread)
}
