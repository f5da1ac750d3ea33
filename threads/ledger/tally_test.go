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
		Usage: used, Outcome: agents.Done,
	}
}

func said(p Past, v Verdict) Past {
	p.Verdict = v
	return p
}

func used(tokens int64, usd float64) *agents.Usage {
	return &agents.Usage{InputTokens: tokens - 1, OutputTokens: 1, CachedTokens: 1e6, CostUSD: usd}
}

// worked returns the sessions on an issue that two agents reworked once each, on one that was approved at once, and on
// one that is open, scheduled work, and a session of an older version; and the merges of both and of a person's pull
// request. Who opened the second one is in none of the records.
func worked() ([]Past, []Merged) {
	scheduled := run("planner-opus", agents.KindSchedule, 0, 100, 10, used(50, 0.5))
	old := Past{Agent: "dev-old", Kind: agents.KindIssue, Ref: Ref{"o/r", 4}, Chain: Ref{"o/r", 4}, Start: noon, End: noon}
	skilled := run("dev-qwen", agents.KindIssue, 3, 90, 5, used(7, 0))
	skilled.Skills, skilled.Labels = []string{"go", "sql"}, []string{"bug"}
	timeout := run("dev-qwen", agents.KindRework, 1, 12, 8, nil)
	timeout.Outcome = agents.TimedOut
	past := []Past{
		old,
		run("dev-qwen", agents.KindIssue, 1, 0, 10, used(100, 0)),
		said(run("review-opus", agents.KindReview, 1, 10, 2, used(20, 0.25)), ChangesRequested),
		timeout,
		said(run("review-opus", agents.KindReview, 1, 20, 2, used(20, 0.25)), ChangesRequested),
		run("dev-kimi", agents.KindRework, 1, 22, 8, used(30, 1)),
		said(run("review-opus", agents.KindReview, 1, 30, 2, used(20, 0.25)), Approved),
		run("dev-kimi", agents.KindIssue, 2, 40, 20, used(200, 2)),
		said(run("review-opus", agents.KindReview, 2, 60, 2, used(20, 0.25)), Approved),
		skilled, scheduled,
	}
	merge := func(issue int64, after int, by string) Merged {
		return Merged{
			Ref: Ref{"o/r", issue + 10}, Chain: Ref{"o/r", issue}, When: noon.Add(time.Duration(after) * time.Minute), Agent: by,
		}
	}
	return past, []Merged{merge(1, 35, "dev-qwen"), merge(2, 65, ""), merge(9, 66, "ada")}
}

// booksOf are the books of a journal with these sessions and merges.
func booksOf(past []Past, merges []Merged) *Books {
	s := New()
	for i := range past {
		past[i].apply(s, noon)
	}
	for i := range merges {
		merges[i].apply(s, noon)
	}
	return s.Books()
}

// tallied formats a tally: its work, the failed sessions and their cost, the merged pull requests, those approved at
// once of the reviewed ones, the rounds, and the average.
func tallied(t Tally) string {
	text := fmt.Sprintf("%s: %d %.0fm %s -%d -%d", t.Key, t.Sessions, t.Minutes, usageOf(t.Tokens, t.USD), t.Untold,
		t.Unpriced)
	if f := t.Failed; f.Sessions > 0 {
		text += fmt.Sprintf("; failed %d %s", f.Sessions, usageOf(nil, f.USD))
	}
	if m := t.Merged; m.Pulls > 0 {
		text += fmt.Sprintf("; merged %d, %d/%d at once, %d rounds", m.Pulls, m.FirstRound, m.Reviewed, m.Rounds)
	}
	if each := t.PerMerge; each != nil {
		text += fmt.Sprintf("; each %.1f rounds %.1fm %s", each.Rounds, each.Minutes, usageOf(each.Tokens, each.USD))
	}
	return text
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
	tests := []struct {
		name string
		by   By
		from time.Time
		want []string
	}{
		{"all", byAll, noon, []string{
			": 11 69m 467 $4.50 -2 -4; failed 1 - -; merged 3, 1/2 at once, 2 rounds; each 0.7 rounds 23.0m 155 $1.50",
		}},
		{"agents", ByAgent, noon, []string{
			"ada: 0 0m - - -0 -0; merged 1, 0/0 at once, 0 rounds",
			"dev-kimi: 2 28m 230 $3.00 -0 -0; merged 1, 1/1 at once, 0 rounds; each 0.0 rounds 28.0m 230 $3.00",
			"dev-old: 1 0m - - -1 -1",
			"dev-qwen: 3 23m 107 - -1 -3; failed 1 - -; merged 1, 0/1 at once, 2 rounds; each 2.0 rounds 23.0m 107 -",
			"planner-opus: 1 10m 50 $0.50 -0 -0",
			"review-opus: 4 8m 80 $1.00 -0 -0",
		}},
		{"models", ByModel, noon.Add(65 * time.Minute), []string{
			": 0 0m - - -0 -0; merged 1, 0/0 at once, 0 rounds",
			"kimi: 0 0m - - -0 -0; merged 1, 1/1 at once, 0 rounds",
			"opus: 1 10m 50 $0.50 -0 -0", "qwen: 1 5m 7 - -0 -1",
		}},
		{"labels", ByLabel, noon.Add(80 * time.Minute), []string{
			": 1 10m 50 $0.50 -0 -0", "bug: 1 5m 7 - -0 -1", "skill/go: 1 5m 7 - -0 -1", "skill/sql: 1 5m 7 - -0 -1",
		}},
		{"repositories", ByRepo, noon.Add(80 * time.Minute), []string{"o/r: 2 15m 57 $0.50 -0 -1"}},
		{"issues", ByIssue, noon.Add(80 * time.Minute), []string{": 1 10m 50 $0.50 -0 -0", "o/r#3: 1 5m 7 - -0 -1"}},
		{"days", ByDay, noon.Add(70 * time.Minute), []string{"2026-11-21: 2 15m 57 $0.50 -0 -1"}},
		{"outcomes", ByOutcome, noon.Add(60 * time.Minute), []string{
			": 0 0m - - -0 -0; merged 1, 0/0 at once, 0 rounds",
			"done: 4 37m 277 $2.75 -0 -1; merged 1, 1/1 at once, 0 rounds; each 0.0 rounds 37.0m 277 $2.75",
		}},
		{"causes", ByCause, noon, []string{"timeout: 1 8m - - -1 -1; failed 1 - -"}},
		{"nothing", ByRole, noon.Add(time.Hour * 24), nil},
	}
	b := booksOf(worked())
	for _, tt := range tests {
		var got []string
		for _, row := range b.Tallies(tt.from, tt.by) {
			got = append(got, tallied(row))
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
	if got := New().Books().Total(noon); got.Sessions != 0 || got.PerMerge != nil || got.Tokens != nil {
		t.Errorf("no history: %+v", got)
	}
	// What an issue is expected to cost leaves out scheduled work, and issues that are not merged or have no session.
	if got := b.PerMerge(); usageOf(got.Tokens, got.USD) != "205 $2.00" {
		t.Errorf("an issue: got %s, want 205 $2.00", usageOf(got.Tokens, got.USD))
	}
}

// TestTalliesAddUp checks that the groups of each kind add up to all sessions and merges, except labels, of which a
// session has several, and causes, which only failures have. It checks the same for the sums of days.
func TestTalliesAddUp(t *testing.T) {
	b := booksOf(worked())
	sums := booksOf(nil, nil)
	sums.Days = map[string]Sums{dayOf(noon): make(Sums)}
	for i := range b.Past {
		sums.Days[dayOf(noon)].session(&b.Past[i])
	}
	for i := range b.Merges {
		sums.Days[dayOf(noon)].merge(&b.Merges[i])
	}
	all, failed := tallied(b.Total(noon)), 0
	if got := tallied(sums.Total(noon)); got != all {
		t.Errorf("the sums of a day are %s, want %s", got, all)
	}
	for _, by := range Bys {
		for what, books := range map[string]*Books{"sessions": b, "sums of days": sums} {
			var total Tally
			for _, row := range books.Tallies(noon, by) {
				total.plus(&row.Work)
			}
			total.finish()
			switch got := tallied(total); {
			case by == ByRefused: // of no session
			case by == ByCause:
				failed += total.Failed.Sessions
			case by != ByLabel && got != all:
				t.Errorf("%s by %s: got %s, want %s", what, by, got, all)
			}
		}
	}
	if failed != 2 {
		t.Errorf("got %d failures by cause, want one of the sessions and one of the sums", failed)
	}
}

// A session counts for each host that it was refused, also in the sums of days, and a merge for none.
func TestTallyRefused(t *testing.T) {
	past := []Past{
		{Outcome: agents.Failed, End: noon, Refused: agents.Refusals{{Host: "a.example:443"}, {Host: "b.example:443"}}},
		{Outcome: agents.Done, End: noon, Refused: agents.Refusals{{Host: "b.example:443"}}},
		{Outcome: agents.Done, End: noon},
	}
	sums := make(Sums)
	for i := range past {
		sums.session(&past[i])
	}
	sums.merge(&Merged{})
	for what, b := range map[string]*Books{
		"sessions": {Past: past, Merges: []Merged{{When: noon}}}, "sums of days": {Days: map[string]Sums{dayOf(noon): sums}},
	} {
		got := ""
		for _, row := range b.Tallies(noon, ByRefused) {
			got += fmt.Sprintf("%s %d of %d; ", row.Key, row.Failed.Sessions, row.Sessions)
		}
		if want := "a.example:443 1 of 1; b.example:443 1 of 2; "; got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
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
		for _, row := range booksOf(past, nil).Tallies(noon.Add(-time.Hour), by) {
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
