package main

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

var reportCommand = command{
	name:  "report",
	short: "what a merged issue took: cost, tokens, rounds and minutes, by agent or model",
	long: `
Counts the sessions that ended in that time, and the issues that the supervisor
merged, each with all that was done for it, also before. An issue counts for
every group that worked on it, with the sessions of that group. A number that no
program told is "-"; one that some did not tell is a least number: ">=". GROUP
is agent, model, role, skill, thread, issue or day. Without a supervisor it
counts what the last one left.`,
	setup: func(flags *pflag.FlagSet) action {
		var r reportFlags
		r.flags(flags, "the report")
		flags.StringVar(&r.since, "since", "30d", "go back this `TIME`, such as 90m or 7d")
		flags.StringVar(&r.by, "by", "agent", "a row for each member of this `GROUP`")
		flags.BoolVar(&r.csv, "csv", false, "print comma-separated values")
		return r.run
	},
}

type reportFlags struct {
	query
	since, by string
	csv       bool
}

func (r *reportFlags) run(ctx context.Context, c *cli, _ []string) error {
	if r.csv && r.json {
		return usagef("say --json or --csv, not both")
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
	left, readErr := leftRecord(r.at.stateDir(c), q)
	if readErr != nil {
		return err
	}
	return c.print(r.json, left, func(v screen.View) string { return show(v, left) })
}
