package main

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

func reportCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "report", Args: cobra.NoArgs,
		Short: "report cost, tokens, rounds and minutes per merged issue",
		Long: `
Counts the sessions that ended in the period, and the issues that the supervisor
merged in it. A merged issue includes all of its sessions, even earlier ones. An
issue counts in every group that worked on it, with that group's sessions. "-"
is a number that no agent program reported; ">=" is a lower bound, because some
sessions did not report theirs. GROUP is agent, model, role, skill, thread,
issue or day. Without a supervisor it reads the journal.

The supervisor remembers sessions for 30 days, at most 4,000 of them. If that
leaves sessions of the period out, the report says from when it counts.`,
		Example: `
  disinto report --by model
  disinto report --since 7d --csv >week.csv`,
	}
	flags := cmd.Flags()
	var r reportFlags
	flags.StringVar(&r.since, "since", "30d", "look back this `TIME`, such as 90m or 7d")
	flags.StringVar(&r.by, "by", "agent", "group the rows by this `GROUP`")
	flags.BoolVar(&r.csv, "csv", false, "print comma-separated values")
	r.flags(flags, "the report")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), c, args) }
	return cmd
}

type reportFlags struct {
	query
	since, by string
	csv       bool
}

func (r *reportFlags) run(ctx context.Context, c *cli, _ []string) error {
	if r.csv && r.json {
		return usagef("use --json or --csv, not both")
	}
	span, err := control.Span(r.since)
	if err != nil {
		return usagef("%v", err)
	}
	ask := url.Values{"since": {c.now().Add(-span).UTC().Format(time.RFC3339)}, "by": {r.by}}
	q, err := control.ReadRecordQuery(ask, c.now())
	if err != nil {
		return usagef("%v", err)
	}
	show := screen.View.Record
	if r.csv {
		show = screen.View.RecordCSV
	}
	err = get(ctx, c, &r.query, "/v1/report?"+ask.Encode(), show)
	if !errors.Is(err, control.ErrNoSupervisor) {
		return err
	}
	left, readErr := offlineRecord(r.at.stateDir(c), q)
	if readErr != nil {
		return withoutJournal(err, readErr)
	}
	return c.print(r.json, left, func(v screen.View) string { return show(v, left) })
}
