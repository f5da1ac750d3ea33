package main

import (
	"context"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

func reportCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "report", Args: cobra.NoArgs,
		Short: "report what sessions cost and what came of it",
		Long: `
Counts the sessions that ended in the period and the pull requests that the
supervisor merged in it, and says which sessions these are. GROUP is repo,
label, agent, model, role, thread, issue, day, outcome, cause or refused.

A merge counts for the agent that opened the pull request. A session FAILED if
it came to nothing, and WASTED is the cost of these. COST/MERGE and MIN/MERGE
are all sessions of the group, failed ones included, for each of its merges.
"--by cause" lists what failed and why; numbers in the reasons are N. "--by
refused" lists the hosts that egress refused to sessions. "-" is a number that
no agent program reported; ">=" is a lower bound, because some sessions did not
report theirs.

Of sessions that "disinto history" no longer lists, the sums of their days (UTC)
are kept for 92 days. Without a supervisor the report reads the journal.`,
		Example: `
  disinto report --by model
  disinto report --by cause --since 12h
  disinto report --since 7d --csv >week.csv`,
	}
	flags := cmd.Flags()
	var r reportFlags
	flags.StringVar(&r.since, "since", "", "look back this `TIME`, such as 90m or 7d\n(default all that is kept)")
	flags.StringVar(&r.by, "by", "agent", "group the rows by this `GROUP`")
	csvFlag(flags, &r.csv)
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
	ask := url.Values{"by": {r.by}}
	if r.since != "" {
		span, err := control.Span(r.since)
		if err != nil {
			return usagef("%v", err)
		}
		ask.Set("since", c.now().Add(-span).UTC().Format(time.RFC3339))
	}
	q, err := control.ReadRecordQuery(ask, c.now())
	if err != nil {
		return usagef("%v", err)
	}
	a := pastQuery[control.RecordDocument]{
		c: c, q: &r.query, path: "/v1/report?" + ask.Encode(), asCSV: r.csv,
		text: screen.View.Record, csv: screen.View.RecordCSV, note: (*control.RecordDocument).Counted,
		left: func() (*control.RecordDocument, error) { return offlineRecord(r.at.stateDir(c), q) },
	}
	return a.lookBack(ctx)
}
