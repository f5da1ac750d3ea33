package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/answers"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

func whyCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "why [REF|AGENT|THREAD]", Args: cobra.MaximumNArgs(1),
		Short: "explain why an issue waits, and what would change that",
		Long: `
Without an argument it says why no more work starts: what keeps each thread from
another session, and how many items wait for which reason.

REF is 12, #12, owner/name#12 or the URL of an issue or pull request. Asks the
running supervisor, which explains its decision rule by rule. For an agent or a
thread it explains why no more sessions start.

--at gives the reason at a time in the past, as the supervisor recorded it, for
months back in most factories. It can be read without a supervisor, too.

--until predicts when work starts and when it is merged. The supervisor
simulates the factory from now on, many times, with its own rules and with the
times and failure rates in its journal.`,
		Example: `
  disinto why
  disinto why 12
  disinto why dev-qwen --all
  disinto why 12 --at "yesterday 15:04"
  disinto why 12 --until`,
	}
	flags := cmd.Flags()
	var w whyFlags
	flags.BoolVar(&w.all, "all", false, "show every rule and its result")
	flags.StringVar(&w.at, "at", "", "give the reason at this `TIME`: 15:04, -2h,\n"+
		"\"yesterday 15:04\", \"2026-01-31 15:04\" or\n2026-01-31T15:04:05Z")
	flags.BoolVar(&w.until, "until", false, "predict its start and its merge")
	w.flags(flags, "the explanation")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w.past = flags.Changed("at")
		return w.run(cmd.Context(), c, args)
	}
	return cmd
}

type whyFlags struct {
	query
	all, until bool
	past       bool // --at is set
	at         string
}

func (w *whyFlags) run(ctx context.Context, c *cli, args []string) error {
	show := screen.View.Why
	switch {
	case len(args) == 0 && (w.all || w.past || w.until):
		return usagef("name an issue, an agent or a thread, such as disinto why 12")
	case len(args) == 0:
		s := statusFlags{query: w.query}
		return s.show(ctx, c, statePath, rendering(screen.View.WhyNoMore))
	case w.until && w.past:
		return usagef("use --at or --until, not both")
	case w.until && args[0] == "":
		return usagef("--until: name an issue or pull request, such as 12")
	case w.until:
		return get(ctx, c, &w.query, "/v1/forecast?ref="+url.QueryEscape(args[0]), screen.View.Until)
	case w.all && w.past:
		return usagef("--at gives one reason: use --all without it")
	case w.all:
		show = screen.View.WhyAll
	}
	of := show
	show = func(v screen.View, ex *threads.Explanation) string {
		v.Asked = args[0]
		return of(v, ex)
	}
	ask, at := url.Values{"ref": {args[0]}}, time.Time{}
	if w.past {
		var err error
		if at, err = parseTime(w.at, c.now()); err != nil {
			return usagef("--at: %v", err)
		}
		ask.Set("at", at.Format(time.RFC3339Nano))
	}
	err := get(ctx, c, &w.query, "/v1/why?"+ask.Encode(), show)
	if !errors.Is(err, control.ErrNoSupervisor) {
		return err
	}
	dir := w.query.at.supervisorDir(c)
	if w.past {
		ex, err := answers.Why(dir, args[0], at, false)
		if err != nil {
			return err
		}
		return c.print(w.json, &ex, func(v screen.View) string { return show(v, &ex) })
	}
	ex, at, found := lastAnswer(dir, args[0])
	if !found {
		return err
	}
	printErr := c.print(w.json, &ex, func(v screen.View) string {
		v.Now, v.Lost = at, true
		return show(v, &ex)
	})
	return errors.Join(printErr, err)
}

// lastAnswer returns the reason that the last supervisor saved for an item, with the time of its last state.
func lastAnswer(stateDir, said string) (ex threads.Explanation, at time.Time, found bool) {
	raw, at := control.ReadStatusFile(stateDir)
	var d control.Document
	if json.Unmarshal(raw, &d) != nil {
		return ex, at, false
	}
	for _, q := range slices.Concat(d.Queue, d.Unqueued) {
		if ref, err := forge.ParseRef(said, q.Repo); err == nil && ref == (forge.Ref{Repo: q.Repo, Number: q.Number}) {
			return threads.Explanation{
				Kind: q.Kind, Repo: q.Repo, Number: q.Number, Title: q.Title,
				Verdict: "waits: " + q.Why, Code: q.Code, Mend: q.Mend,
			}, at, true
		}
	}
	return ex, at, false
}
