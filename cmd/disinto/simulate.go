package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

var simulateCommand = command{
	name:  "simulate",
	short: "what a factory would do with a week of work, in a second",
	long: `
Plays days of work in virtual time, with the scheduler that run uses. The work
is what a load file describes, or what a journal remembers: --replay
STATE/journal.jsonl. Without either it is 20 issues a day. --against puts
another factory.toml beside yours: one more slot, agent or reviewer. The other
policies show what the same agents would do under cron, under a hub that assigns
each half hour, and under work stealing as others designed it.

A load file has tables such as

  [[issues]]
  per_day = 12         # also: together, priority, skills, agent, repo
  minutes = 8          # of a session that writes; sigma = 0.8
  sessions = 2.3       # of them for an issue, on average
  review_minutes = 3

No secrets are needed, and nothing is written but FILE of --chart.`,
	setup: func(flags *pflag.FlagSet) action {
		var q simulation
		q.place.flags(flags)
		flags.StringVar(&q.load, "load", "", "the work is what this `FILE` describes")
		flags.StringVar(&q.replay, "replay", "", "the work is what this `JOURNAL` remembers")
		flags.Float64Var(&q.days, "days", 7, "so many days")
		flags.StringVar(&q.against, "against", "", "also play the factory of this `FILE`")
		flags.StringSliceVar(&q.policies, "policy", nil, "only these `NAMES`, of\n"+strings.Join(policyNames(), ", "))
		flags.Uint64Var(&q.seed, "seed", 1, "of all that is left to chance")
		flags.StringVar(&q.chart, "chart", "", "draw the sessions into this `FILE`, .svg or .html")
		flags.BoolVar(&q.asJSON, "json", false, "print the reports, for programs")
		return func(_ context.Context, c *cli, _ []string) error { return q.run(c) }
	},
}

func policyNames() []string {
	var names []string
	for _, p := range sim.Policies() {
		names = append(names, p.Name)
	}
	return names
}

// simulation is what was asked for.
type simulation struct {
	place
	load, replay, against, chart string
	days                         float64
	seed                         uint64
	policies                     []string
	asJSON                       bool
}

func (q *simulation) run(c *cli) error {
	policies, err := q.choose()
	if err != nil {
		return err
	}
	if ext := filepath.Ext(q.chart); q.chart != "" && ext != ".svg" && ext != ".html" {
		return usagef("--chart: %q, want a name that ends in .svg or .html", q.chart)
	}
	config, err := pretended(q.configFile(), c)
	if err != nil {
		return err
	}
	load, err := q.work(config)
	if err != nil {
		return err
	}
	var reports []sim.Report
	for _, p := range policies {
		reports = append(reports, sim.Trial{Config: config, Load: load, Policy: p, Seed: q.seed}.Run())
	}
	if q.against != "" {
		other, err := pretended(q.against, c)
		if err != nil {
			return err
		}
		p := sim.Ours
		p.Name += " " + filepath.Base(q.against)
		reports = append(reports, sim.Trial{Config: other, Load: load, Policy: p, Seed: q.seed}.Run())
	}
	if err := q.draw(reports); err != nil {
		return err
	}
	t := c.terminal()
	if q.asJSON {
		raw, err := json.Marshal(map[string]any{"version": 1, "days": q.days, "seed": q.seed, "reports": reports})
		if err != nil {
			return err
		}
		return printJSON(t, raw)
	}
	return showReports(t, reports)
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
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// pretended reads a factory.toml as if every secret that it names were there, and every role had a program.
func pretended(path string, c *cli) (*threads.Config, error) {
	config, _, err := readConfig(path, func(name string) (string, bool) {
		if v, ok := c.lookup(name); ok && v != "" {
			return v, true
		}
		if v, ok := map[string]string{"FORGE_URL": "http://forge", "FORGE_REPO": "owner/name"}[name]; ok {
			return v, true
		}
		return "pretended-secret", true
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

// usual is the work when nobody says what it is.
const usual = "[[issues]]\nper_day = 20\n"

// work is what is to be done.
func (q *simulation) work(config *threads.Config) (sim.Load, error) {
	if q.replay != "" {
		text, err := os.ReadFile(q.replay)
		if err != nil {
			return nil, fmt.Errorf("cannot read the journal: %w", err)
		}
		load := loadOf(supervisor.Past(text), config, time.Duration(q.days*float64(24*time.Hour)))
		if len(load) == 0 {
			return nil, fmt.Errorf("%s tells of no session that worked on an issue", q.replay)
		}
		return load, nil
	}
	name, text := "the usual load", []byte(usual)
	if q.load != "" {
		var err error
		if text, err = os.ReadFile(q.load); err != nil {
			return nil, fmt.Errorf("cannot read the load: %w", err)
		}
		name = q.load
	}
	kinds, err := sim.DecodeLoad(name, string(text), config)
	if err != nil {
		return nil, err
	}
	return sim.MakeKinds(kinds, q.days, q.seed), nil
}

// loadOf turns sessions of the past into work. An issue is filed when its first session began, because the journal does not
// say since when it waited; it has priority 5 and no skills, which are the forge's to say.
func loadOf(past []supervisor.PastSession, config *threads.Config, limit time.Duration) sim.Load {
	at := make(map[forge.Ref]int)
	reviews := make(map[forge.Ref][]time.Duration)
	var load sim.Load
	for i := range past {
		s := &past[i]
		took := s.End.Sub(s.Start)
		switch {
		case s.Kind == agents.KindReview:
			reviews[s.Chain] = append(reviews[s.Chain], took)
		case s.Kind.Writes() && took > 0:
			since := s.Start.Sub(past[0].Start)
			n, known := at[s.Chain]
			if !known && since < limit {
				n, known = len(load), true
				at[s.Chain] = n
				w := sim.Work{At: since, Priority: forge.DefaultPriority}
				if slices.Contains(config.Forge.Repos, s.Chain.Repo) {
					w.Repo = s.Chain.Repo
				}
				load = append(load, w)
			}
			if known {
				load[n].Sessions = append(load[n].Sessions, took)
			}
		}
	}
	for chain, n := range at {
		var sum time.Duration
		for _, d := range reviews[chain] {
			sum += d
		}
		if len(reviews[chain]) > 0 {
			load[n].Review = sum / time.Duration(len(reviews[chain]))
		}
	}
	return load
}

// draw writes the chart, if one is wanted.
func (q *simulation) draw(reports []sim.Report) error {
	if q.chart == "" {
		return nil
	}
	var text strings.Builder
	if filepath.Ext(q.chart) == ".html" {
		text.WriteString("<!doctype html>\n<meta charset=\"utf-8\">\n<title>disinto simulate</title>\n")
		for i := range reports {
			text.WriteString(reports[i].Gantt())
		}
	} else {
		text.WriteString(reports[len(reports)-1].Gantt())
	}
	if err := os.WriteFile(q.chart, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("cannot write the chart: %w", err)
	}
	return nil
}
