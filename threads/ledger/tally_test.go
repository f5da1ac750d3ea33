package ledger

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// run returns a session on an issue of o/r that starts, and lasts, the given minutes; it starts after noon.
func run(agent string, kind agents.Kind, issue int64, begins, minutes int, used *agents.Usage) Past {
	start := noon.Add(time.Duration(begins) * time.Minute)
	return Past{
		Agent: agent, Role: strings.Split(agent, "-")[0], Model: strings.Split(agent, "-")[1], Kind: kind,
		Ref: Ref{"o/r", issue}, Chain: Ref{"o/r", issue}, Start: start, End: start.Add(time.Duration(minutes) * time.Minute),
		Usage: used,
	}
}

func said(p Past, v Verdict) Past {
	p.Verdict = v
	return p
}

func used(tokens int64, usd float64) *agents.Usage {
	return &agents.Usage{InputTokens: tokens - 1, OutputTokens: 1, CachedTokens: 1e6, CostUSD: usd}
}

// worked returns the sessions on an issue that two agents reworked once each, on one that was approved at once and
// merged twice, and on one that is open, scheduled work, and a session of an older version.
func worked() ([]Past, []Merged) {
	scheduled := run("planner-opus", agents.KindSchedule, 0, 100, 10, used(50, 0.5))
	old := Past{Agent: "dev-old", Kind: agents.KindIssue, Ref: Ref{"o/r", 4}, Chain: Ref{"o/r", 4}, Start: noon, End: noon}
	skilled := run("dev-qwen", agents.KindIssue, 3, 90, 5, used(7, 0))
	skilled.Skills = []string{"go", "sql"}
	past := []Past{
		old,
		run("dev-qwen", agents.KindIssue, 1, 0, 10, used(100, 0)),
		said(run("review-opus", agents.KindReview, 1, 10, 2, used(20, 0.25)), ChangesRequested),
		run("dev-qwen", agents.KindRework, 1, 12, 8, nil),
		said(run("review-opus", agents.KindReview, 1, 20, 2, used(20, 0.25)), ChangesRequested),
		run("dev-kimi", agents.KindRework, 1, 22, 8, used(30, 1)),
		said(run("review-opus", agents.KindReview, 1, 30, 2, used(20, 0.25)), Approved),
		run("dev-kimi", agents.KindIssue, 2, 40, 20, used(200, 2)),
		said(run("review-opus", agents.KindReview, 2, 60, 2, used(20, 0.25)), Approved),
		skilled, scheduled,
	}
	merge := func(issue int64, after int) Merged {
		return Merged{Ref{"o/r", issue + 10}, Ref{"o/r", issue}, noon.Add(time.Duration(after) * time.Minute)}
	}
	return past, []Merged{merge(1, 35), merge(2, 65), merge(9, 66), merge(2, 70)}
}

// tallied formats a tally: its work and, of the merged issues, their number, those approved at once of the reviewed
// ones, the rounds, the group's own work on them, and the average.
func tallied(t Tally) string {
	text := fmt.Sprintf("%s: %s", t.Key, took(t.Work))
	if m := t.Merged; m.Issues > 0 {
		text += fmt.Sprintf("; merged %d, %d/%d at once, %d rounds, %s; each %.1f rounds %.1fm %s", m.Issues, m.FirstRound,
			m.Reviewed, m.Rounds, took(m.Work), t.PerIssue.Rounds, t.PerIssue.Minutes,
			usageOf(t.PerIssue.Tokens, t.PerIssue.USD))
	}
	return text
}

func took(w Work) string {
	return fmt.Sprintf("%d %.0fm %s -%d -%d", w.Sessions, w.Minutes, usageOf(w.Tokens, w.USD), w.Untold, w.Unpriced)
}

func usageOf(tokens *int64, usd *float64) string {
	text := "-"
	if tokens != nil {
		text = fmt.Sprint(*tokens)
	}
	if usd != nil {
		return text + fmt.Sprintf(" $%.2f", *usd)
	}
	return text + " -"
}

func TestTallies(t *testing.T) {
	past, merges := worked()
	tests := []struct {
		name string
		by   By
		from time.Time
		want []string
	}{
		{"all", byAll, noon, []string{
			": 11 69m 467 $4.50 -2 -4; merged 2, 1/2 at once, 2 rounds, 8 54m 410 $4.00 -1 -2; each 1.0 rounds 27.0m 205 $2.00",
		}},
		{"agents", ByAgent, noon, []string{
			"dev-kimi: 2 28m 230 $3.00 -0 -0; merged 2, 1/2 at once, 2 rounds, 2 28m 230 $3.00 -0 -0; each 1.0 rounds 14.0m " +
				"115 $1.50",
			"dev-old: 1 0m - - -1 -1",
			"dev-qwen: 3 23m 107 - -1 -3; merged 1, 0/1 at once, 2 rounds, 2 18m 100 - -1 -2; each 2.0 rounds 18.0m 100 -",
			"planner-opus: 1 10m 50 $0.50 -0 -0",
			"review-opus: 4 8m 80 $1.00 -0 -0; merged 2, 1/2 at once, 2 rounds, 4 8m 80 $1.00 -0 -0; each 1.0 rounds 4.0m 40 " +
				"$0.50",
		}},
		{"an issue begun before has its whole cost", ByModel, noon.Add(65 * time.Minute), []string{
			"kimi: 0 0m - - -0 -0; merged 1, 1/1 at once, 0 rounds, 1 20m 200 $2.00 -0 -0; each 0.0 rounds 20.0m 200 $2.00",
			"opus: 1 10m 50 $0.50 -0 -0; merged 1, 1/1 at once, 0 rounds, 1 2m 20 $0.25 -0 -0; each 0.0 rounds 2.0m 20 $0.25",
			"qwen: 1 5m 7 - -0 -1",
		}},
		{"skills", BySkill, noon.Add(80 * time.Minute), []string{
			": 1 10m 50 $0.50 -0 -0", "go: 1 5m 7 - -0 -1",
			"sql: 1 5m 7 - -0 -1",
		}},
		{"issues", ByIssue, noon.Add(80 * time.Minute), []string{": 1 10m 50 $0.50 -0 -0", "o/r#3: 1 5m 7 - -0 -1"}},
		{"days", ByDay, noon.Add(70 * time.Minute), []string{
			"2026-11-21: 2 15m 57 $0.50 -0 -1; merged 1, 1/1 at once, 0 rounds, 2 22m 220 $2.25 -0 -0; each 0.0 rounds 22.0m " +
				"220 $2.25",
		}},
		{"nothing", ByRole, noon.Add(time.Hour * 24), nil},
	}
	for _, tt := range tests {
		var got []string
		for _, row := range Tallies(past, merges, tt.from, tt.by) {
			got = append(got, tallied(row))
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
	if got := Total(nil, nil, noon); got.Sessions != 0 || got.PerIssue != nil || got.Tokens != nil {
		t.Errorf("no history: %+v", got)
	}
}

// TestTallyBusy checks that overlapping sessions of a group count once, and only after the start of the period.
func TestTallyBusy(t *testing.T) {
	past := []Past{
		run("dev-qwen", agents.KindIssue, 1, -10, 20, nil), run("dev-kimi", agents.KindIssue, 2, 5, 10, nil),
		run("dev-qwen", agents.KindIssue, 3, 30, 10, nil),
	}
	for _, row := range append(Tallies(past, nil, noon, ByAgent), Tallies(past, nil, noon, ByRole)...) {
		want := map[string]float64{"dev-qwen": 20. / 40, "dev-kimi": 10. / 40, "dev": 25. / 40}[row.Key]
		if math.Abs(row.Busy-want) > 1e-9 {
			t.Errorf("%s is busy %.3f of the time, want %.3f", row.Key, row.Busy, want)
		}
	}
}

// TestTalliesAddUp checks that the groups of each kind add up to all sessions, except by skill.
func TestTalliesAddUp(t *testing.T) {
	past, merges := worked()
	all := Total(past, merges, noon)
	for _, by := range Bys {
		n, usd := 0, 0.0
		for _, row := range Tallies(past, merges, noon, by) {
			n += row.Sessions
			if row.Merged.USD != nil {
				usd += *row.Merged.USD
			}
		}
		if by != BySkill && (n != all.Sessions || math.Abs(usd-*all.Merged.USD) > 1e-9) {
			t.Errorf("by %s: got %d sessions and $%.2f, want %d and $%.2f", by, n, usd, all.Sessions, *all.Merged.USD)
		}
	}
}

// TestPastModel checks that a past session has the model of its start, even after compaction.
func TestPastModel(t *testing.T) {
	start := startRec("a", 1, 1)
	start.Start.Model = "qwen3.5"
	records := []Record{start, endRec("a", time.Minute, End{Result: agents.Done})}
	s := fold(records...)
	again := fold(s.Compact(noon.Add(time.Hour))...)
	if s.Past[0].Model != "qwen3.5" || again.Past[0].Model != "qwen3.5" {
		t.Errorf("got models %q and %q, want qwen3.5", s.Past[0].Model, again.Past[0].Model)
	}
}

// TestTallyHits checks that the share from a cache is that of all tokens of the sessions that reported it. Without
// any it is unknown, which differs from 0.
func TestTallyHits(t *testing.T) {
	hit := func(agent string, issue int64, u *agents.Usage) Past {
		return run(agent, agents.KindIssue, issue, 0, 1, u)
	}
	cold := hit("dev-a", 2, &agents.Usage{InputTokens: 900, CachedTokens: 100})
	cold.Cold = "its slot was taken"
	past := []Past{
		hit("dev-a", 1, &agents.Usage{InputTokens: 100, CachedTokens: 900}), cold, hit("dev-a", 3, nil),
		hit("dev-b", 1, &agents.Usage{InputTokens: 500, CacheUntold: true}), hit("dev-b", 1, &agents.Usage{OutputTokens: 5}),
		hit("dev-c", 2, &agents.Usage{InputTokens: 10}),
	}
	for by, want := range map[By]string{
		ByAgent: "dev-a 0.5 1, dev-b - 0, dev-c 0 0", ByIssue: "o/r#1 0.9 0, o/r#2 0.099 1, o/r#3 - 0", byAll: " 0.498 1",
		ByDay: noon.Format(time.DateOnly) + " 0.498 1",
	} {
		var got []string
		for _, row := range Tallies(past, nil, noon.Add(-time.Hour), by) {
			share := "-"
			if row.CacheHit != nil {
				share = fmt.Sprint(*row.CacheHit)
			}
			got = append(got, fmt.Sprintf("%s %s %d", row.Key, share, row.Cold))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("by %q: got %q, want %q", by, text, want)
		}
	}
}

// TestColdIsBounded checks that Past bounds a journal's words and numbers about a cache.
func TestColdIsBounded(t *testing.T) {
	s := New()
	s.Apply(startRec("u", 60, 1))
	s.Apply(endRec("u", time.Minute, End{
		Result: agents.Done, Cold: strings.Repeat("x", 9000),
		Resumed: &agents.Resumption{Cached: -1, Computed: math.MaxInt64, Changed: strings.Repeat("y", 9000)},
	}))
	p := s.Past[0]
	if len(p.Cold) > pastWords || len(p.Resumed.Changed) > pastWords || p.Resumed.Cached != 0 ||
		p.Resumed.Computed != agents.MaxTokens {
		t.Errorf("got %d bytes and %+v, want both bounded", len(p.Cold), p.Resumed)
	}
}
