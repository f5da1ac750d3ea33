package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// today is the day of the records in the tests.
var today = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// month is the record of two agents: dev-qwen reported its usage on the first day but not on the last, the other
// always.
func month() *control.RecordDocument {
	run := func(agent, thread string, daysAgo int, used *agents.Usage) ledger.Past {
		at := today.Add(-time.Duration(daysAgo) * 24 * time.Hour)
		ref := ledger.Ref{Repo: "o/r", Number: 7}
		return ledger.Past{
			Agent: agent, Thread: thread, Model: hostile, Kind: agents.KindIssue, Ref: ref, Chain: ref,
			Start: at.Add(-time.Hour),
			End:   at, Usage: used,
		}
	}
	past := []ledger.Past{
		run("dev-qwen", "llama", 29, &agents.Usage{InputTokens: 5000}),
		run("review-opus", "anthropic", 2, &agents.Usage{InputTokens: 1000, CostUSD: 8}),
		run("review-opus", "anthropic", 1, &agents.Usage{InputTokens: 1000, CostUSD: 2}),
		run("dev-qwen", "llama", 0, nil),
	}
	past[1].Verdict = ledger.Approved
	past[0].Outcome, past[3].Outcome = agents.Done, agents.Failed
	merges := []ledger.Merged{{
		Ref: past[0].Ref, Chain: past[0].Ref, When: today, Agent: "dev-qwen", Credit: &ledger.Credit{Reviews: 1},
	}}
	return control.RecordOf(&ledger.Books{Past: past, Merges: merges}, control.RecordQuery{
		Since: today.Add(-30 * 24 * time.Hour), By: ledger.Bys,
	})
}

// All bars have one scale, with lines that are easy to read, which the budget also fits. A day without a reported
// number is a question mark.
func TestBars(t *testing.T) {
	for _, tt := range []struct {
		name   string
		unit   unit
		limit  float64
		top    string
		limitY int
		want   string
	}{
		{"dollars", units[0], 0, "$8", 0, "0:? 27:150 28:37 29:?"},
		{"a budget above", units[0], 15, "$20", chartBase - 112, "0:? 27:60 28:15 29:?"},
		{"a budget below", units[0], 4, "$8", chartBase - 75, "0:? 27:150 28:37 29:?"},
		{"tokens", units[1], 0, "8000", 0, "0:93 27:18 28:18 29:?"},
	} {
		c := barsOf(tt.name, month(), tt.unit, tt.limit)
		var got []string
		for _, b := range c.Bars {
			day := int((b.X-xOf(0))/(xOf(1)-xOf(0)) + 0.5)
			text := fmt.Sprintf("%d:%d", day, b.Height)
			if b.Unknown {
				text = fmt.Sprintf("%d:?", day)
			}
			if got = append(got, text); b.Y+b.Height != chartBase || b.Y < chartTop {
				t.Errorf("%s: got a bar from %d to %d", tt.name, b.Y, b.Y+b.Height)
			}
		}
		if strings.Join(got, " ") != tt.want || c.Lines[4].Text != tt.top || c.LimitY != tt.limitY {
			t.Errorf("%s: %s up to %s, line at %d; want %s up to %s, %d", tt.name, got, c.Lines[4].Text, c.LimitY, tt.want,
				tt.top, tt.limitY)
		}
	}
	if c := barsOf("none", &control.RecordDocument{}, units[0], 3); len(c.Bars) != 0 || len(c.Ticks) != 5 {
		t.Errorf("without a history: got %+v, want no bars and 5 ticks", c)
	}
	untold := month()
	for i := range untold.Rows(ledger.ByDay) {
		untold.Rows(ledger.ByDay)[i].USD = nil
	}
	text := string(render("chart", "usd", barsOf("none", untold, units[0], 0)).HTML)
	if !strings.Contains(text, "Unknown") || strings.Contains(text, "$0") {
		t.Errorf("got a number, though no program reported its cost:\n%s", text)
	}
}

// The budget of a day is known only if every thread that costs money has one.
func TestDayLimit(t *testing.T) {
	budget := control.SpentDocument{USDPerDay: 20}
	d := &control.Document{Threads: []control.ThreadDocument{
		{Backend: "anthropic", Spent: budget}, {Backend: "anthropic", Spent: budget}, {Backend: "local"},
	}}
	if got := dayLimit(d, units[0]); got != 40 {
		t.Errorf("got %g, want 40", got)
	}
	d.Threads[1].Spent = control.SpentDocument{}
	if got := dayLimit(d, units[0]); got != 0 {
		t.Errorf("a thread without a budget: got %g, want 0", got)
	}
}

// A sum that no program reported is "–", and one that some did not report has "≥". The most expensive come first.
func TestSpending(t *testing.T) {
	d := month()
	var got []string
	for _, by := range []ledger.By{ledger.ByAgent, ledger.ByIssue} {
		for _, r := range spending(d, by).Rows {
			got = append(got, r.ID)
		}
	}
	if strings.Join(got, " ") != "key-review-opus key-dev-qwen total key-o/r#7 total" {
		t.Errorf("got rows %s", got)
	}
	for key, want := range map[string]string{"dev-qwen": "– ≥ 5000 – –", "review-opus": "$10.00 2000 – –"} {
		for _, row := range d.Rows(ledger.ByAgent) {
			g := groupOf(ledger.ByAgent, &row, 10)
			if row.Key == key && g.Cost+" "+g.Read+" "+g.CostOf+" "+g.Wasted() != want {
				t.Errorf("%s: got %s %s %s %s, want %s", key, g.Cost, g.Read, g.CostOf, g.Wasted(), want)
			}
		}
	}
	var many []ledger.Tally
	for i := range 4000 {
		many = append(many, ledger.Tally{Key: fmt.Sprintf("o/r#%d", i+1)})
	}
	sec := spending(&control.RecordDocument{Groups: []control.RecordGroup{{By: ledger.ByIssue, Rows: many}}},
		ledger.ByIssue)
	if len(sec.Rows) != mostSpending+1 || !strings.Contains(string(sec.Rows[mostSpending].HTML), "Total of 4000") {
		t.Errorf("got %d rows and the note %q", len(sec.Rows), sec.Note)
	}
}

// Agents and Money show text of strangers as text, and show budgets and commands, even in an empty factory.
func TestAgentsAndMoney(t *testing.T) {
	v := newVisit(t)
	d := status()
	d.Threads[0].Spent = control.SpentDocument{USD: 3, USDPerDay: 4}
	d.Threads[0].Windows = []control.WindowDocument{{Length: "5h", Tokens: 40, USD: 5, MaxUSD: 7}}
	d.Agents = []control.AgentDocument{
		{
			Name: "dev-qwen", Role: "dev", Thread: "llama", Model: hostile, State: control.AgentWorking,
			Skills: []string{hostile},
			Spent:  control.SpentDocument{Tokens: 3000, TokensPerDay: 2000},
		},
		{Name: "dev-new", Role: "dev", Thread: "llama", State: control.AgentHeld, Why: "paused", Paused: true},
	}
	cut := month()
	cut.Ever = 25000
	v.api.answers["/v1/state"], v.api.answers["/v1/report"] = d, cut
	v.signIn()
	for path, wants := range map[string][]string{
		"/agents": {
			"3000 of 2000 tokens", "1 of 1", ">100 %<", "/do/pause", "/do/resume",
		},
		"/money": {
			"$3.00 of $4.00 today", "$5.00 of $7.00 in 5h", "budget $4.00 a day", "≥ $10.00",
			"unknown in 1 session", "counts 4 of 25000 sessions",
		},
	} {
		status, page := v.get(path)
		if status != http.StatusOK || strings.Contains(page, "<img") {
			t.Errorf("%s: got status %d\n%s", path, status, page)
		}
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%s does not have %q:\n%s", path, want, page)
			}
		}
	}
	v.api.set("/v1/state", &control.Document{Repos: []control.RepoDocument{
		{Name: "o/r", Sessions: 2, MaxSessions: 3, Spent: control.SpentDocument{USD: 1, USDPerDay: 4}},
		{Name: "o/s", Paused: true, PauseNote: threads.PauseNote{PausedAt: time.Now()}},
	}})
	_, now := v.get("/")
	for _, want := range []string{"2 of 3 running", "$1.00 of $4.00", `"Pause o/r"`, `"Resume o/s"`} {
		if !strings.Contains(now, want) {
			t.Errorf("the page does not have %s:\n%s", want, now)
		}
	}
	_, page := v.get("/agents")
	v.post("/do/pause", v.server.URL, url.Values{"name": {"dev-qwen"}, "secret": {v.secret(page)}, "back": {"/agents"}})
	if got := v.api.commands(); got != `/v1/pause {"name":"dev-qwen","by":"the holder of the token"}` {
		t.Errorf("commands: %s", got)
	}
	v.api.set("/v1/report", control.RecordOf(&ledger.Books{}, control.RecordQuery{By: ledger.Bys}))
	v.api.set("/v1/state", &control.Document{})
	for path, want := range map[string]string{
		"/agents": "No agent is configured",
		"/money":  "No session ended in the last 30 days.",
	} {
		if status, page := v.get(path); status != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("%s of an empty factory: got status %d\n%s", path, status, page)
		}
	}
}
