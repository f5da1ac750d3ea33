package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

func simulateCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "simulate", Args: cobra.NoArgs,
		Short: "simulate a week of the factory's work in a second",
		Long: `
Simulates days of work in virtual time, with the scheduler that run uses. The
work is 20 issues a day, or comes from a load file (--load) or from a journal
(--replay). A journal holds a month or 4,000 sessions; --replay
STATE/journal.jsonl replays its newest --days, and files each issue when it
first became eligible. --against compares with another factory.toml, for example
with one more slot, agent or reviewer. For comparison it also simulates other
schedulers with the same agents: cron, a hub that assigns work every half hour,
and two work-stealing designs.

A trial models intervals, web hooks, budgets, windows, failures, checks, reviews
and merges. With --replay it learns durations from the journal; the last lines
show them, and the number of sessions behind each.

A load file has tables such as

  [[issues]]
  per_day = 12         # also: together, priority, skills, agent, repo
  minutes = 8          # of a writing session; sigma = 0.8
  sessions = 2.3       # writing sessions per issue, on average
  review_minutes = 3

simulate needs no secrets, and writes only the FILE of --chart.`,
		Example: `
  disinto simulate --days 30 --against next.toml
  disinto simulate --replay /var/lib/disinto/journal.jsonl --chart week.svg`,
	}
	flags := cmd.Flags()
	var q simulation
	flags.StringVar(&q.load, "load", "", "simulate the work in this load `FILE`")
	flags.StringVar(&q.replay, "replay", "", "simulate the work in this `JOURNAL`")
	flags.Float64Var(&q.days, "days", 7, "simulate this `NUMBER` of days")
	flags.StringVar(&q.against, "against", "", "also simulate the factory in this `FILE`")
	flags.StringSliceVar(&q.policies, "policy", nil, "simulate only these `NAMES`, of\n"+
		strings.Join(policyNames(), ", "))
	flags.Uint64Var(&q.seed, "seed", 1, "the seed of the random numbers")
	flags.StringVar(&q.chart, "chart", "",
		"draw the sessions into this `FILE`, .svg or\n.html; - prints an SVG instead of the report")
	q.location.flags(flags)
	jsonFlag(flags, &q.asJSON, "print the reports, for programs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return q.run(cmd.Context(), c) }
	return cmd
}

func policyNames() []string {
	var names []string
	for _, p := range sim.Policies() {
		names = append(names, p.Name)
	}
	return names
}

// simulation has the flags of simulate.
type simulation struct {
	location
	load, replay, against, chart string
	days                         float64
	seed                         uint64
	policies                     []string
	asJSON                       bool
}

func (q *simulation) run(ctx context.Context, c *cli) error {
	policies, err := q.choose()
	if err != nil {
		return err
	}
	if ext := filepath.Ext(q.chart); q.chart != "" && q.chart != "-" && ext != ".svg" && ext != ".html" {
		return usagef("--chart: %q, want a name that ends in .svg or .html, or - for an SVG on stdout", q.chart)
	}
	config, err := configWithPlaceholders(q.configFile(), c)
	if err != nil {
		return err
	}
	trial, work, err := q.work(config)
	if err != nil {
		return err
	}
	var reports []sim.Report
	trial.Seed, trial.Enough = q.seed, func() bool { return ctx.Err() != nil }
	for _, p := range policies {
		trial.Policy = p
		reports = append(reports, trial.Run())
	}
	if q.against != "" {
		other, err := configWithPlaceholders(q.against, c)
		if err != nil {
			return err
		}
		trial.Config, trial.Policy = other, sim.Ours
		trial.Policy.Name += " " + filepath.Base(q.against)
		reports = append(reports, trial.Run())
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := q.draw(c, reports); err != nil || q.chart == "-" {
		return err
	}
	learnt := trial.Model.Learnt()
	document := map[string]any{"version": 1, "days": q.days, "seed": q.seed, "reports": reports, "learnt": learnt}
	return c.print(q.asJSON, document, func(v screen.View) string { return v.Trials(work, reports, learnt) })
}

func (q *simulation) choose() ([]sim.Policy, error) {
	if q.load != "" && q.replay != "" {
		return nil, usagef("--load and --replay: want one of them")
	}
	if !(q.days > 0 && q.days <= 366) {
		return nil, usagef("--days: %g, want more than 0 and at most 366", q.days)
	}
	if len(q.policies) == 0 {
		return sim.Policies(), nil
	}
	var chosen []sim.Policy
	for _, name := range q.policies {
		all := sim.Policies()
		i := slices.IndexFunc(all, func(p sim.Policy) bool { return p.Name == name })
		if i < 0 {
			return nil, usagef("--policy: there is no %q, want %s", name, strings.Join(policyNames(), ", "))
		}
		if !slices.ContainsFunc(chosen, func(p sim.Policy) bool { return p.Name == name }) {
			chosen = append(chosen, all[i])
		}
	}
	return chosen, nil
}

// configWithPlaceholders reads a factory.toml as if every secret that it names were set and every role had a program.
func configWithPlaceholders(path string, c *cli) (*threads.Config, error) {
	config, _, err := readConfig(path, func(name string) (string, bool) {
		if v, ok := c.lookup(name); ok && v != "" {
			return v, true
		}
		if v, ok := map[string]string{
			"FORGE_URL": "http://forge", "FORGE_REPO": "owner/name", "DISINTO_SCHEDULER": "", "DISINTO_SECRETS": "",
		}[name]; ok {
			return v, true
		}
		return placeholder, true
	})
	if err != nil {
		return nil, err
	}
	for i := range config.Agents {
		config.Agents[i].Token = "pretended"
	}
	for i := range config.Roles {
		if len(config.Roles[i].Command) == 0 {
			config.Roles[i].Command = []string{"pretended"}
		}
	}
	return config, nil
}

// longestLoad limits a load file, in bytes.
const longestLoad = 1 << 20

// usual is the load without --load and --replay.
const usual = "[[issues]]\nper_day = 20\n"

// work creates the trial of a journal, of a load file or of the usual load, and describes its work in one line.
func (q *simulation) work(config *threads.Config) (t sim.Trial, what string, err error) {
	t.Config = config
	name := "the usual load, 20 issues a day"
	switch {
	case q.replay != "":
		name = q.replay
		t, err = q.journalTrial(config)
	case q.load != "":
		name = q.load
		raw, readErr := plainfile.ReadNamed(q.load, longestLoad)
		if readErr != nil {
			return t, "", fmt.Errorf("cannot read the load: %w", readErr)
		}
		t.Load, err = q.parseLoad(name, string(raw), config)
	default:
		t.Load, err = q.parseLoad(name, usual, config)
	}
	if err != nil {
		return t, "", err
	}
	if t.Model == nil {
		t.Model = sim.Learn(sim.Journal{})
	}
	last := t.Load[len(t.Load)-1].At
	return t, fmt.Sprintf("%s: %s, the last filed after %s; --days is %g",
		name, control.Count(len(t.Load), "issue"), screen.Brief(last), q.days), nil
}

// journalTrial returns the trial of a journal.
func (q *simulation) journalTrial(config *threads.Config) (t sim.Trial, err error) {
	file, err := openJournal(q.replay)
	if err != nil {
		return t, fmt.Errorf("cannot read the journal: %w", err)
	}
	defer file.Close()
	past, err := ledger.ReadHistory(file)
	if err != nil {
		return t, fmt.Errorf("%s: %w", q.replay, err)
	}
	journal := sim.Journal{Past: past.Past, Timeline: past.Timeline}
	t = sim.Replay(journal, config, time.Duration(q.days*float64(24*time.Hour)))
	if len(t.Load) == 0 {
		return t, fmt.Errorf("%s has no session that worked on an issue", q.replay)
	}
	return t, nil
}

// parseLoad returns the load that a text describes.
func (q *simulation) parseLoad(name, text string, config *threads.Config) (sim.Load, error) {
	kinds, err := sim.DecodeLoad(name, text, config)
	if err != nil {
		return nil, err
	}
	if err := sim.Enough(kinds, q.days); err != nil {
		return nil, fmt.Errorf("cannot play %s: %w", name, err)
	}
	load := sim.MakeKinds(kinds, q.days, q.seed)
	if len(load) == 0 {
		return nil, fmt.Errorf("no issue is filed in %g days: use more --days or a higher per_day", q.days)
	}
	return load, nil
}

// draw writes the chart if --chart is set.
func (q *simulation) draw(c *cli, reports []sim.Report) error {
	if q.chart == "" {
		return nil
	}
	asked := time.Duration(q.days * float64(24*time.Hour))
	if q.replay != "" {
		asked = 0 // the chart ends with the replay
	}
	var text strings.Builder
	if filepath.Ext(q.chart) == ".html" {
		text.WriteString("<!doctype html>\n<meta charset=\"utf-8\">\n<title>disinto simulate</title>\n")
		for i := range reports {
			text.WriteString(reports[i].Gantt(asked))
		}
	} else {
		text.WriteString(reports[len(reports)-1].Gantt(asked))
	}
	if q.chart == "-" {
		_, err := io.WriteString(c.stdout, text.String())
		return err
	}
	if err := os.WriteFile(q.chart, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("cannot write the chart: %w", err)
	}
	return nil
}
