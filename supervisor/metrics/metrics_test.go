package metrics

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

var update = flag.Bool("update", false, "rewrite the table in docs/codes.md; read the diff before you commit it")

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// factoryLevels are the levels of a small factory with a value for each metric.
func factoryLevels() supervisor.Levels {
	d := &control.Document{StartedAt: noon, Problems: []string{"one"}}
	d.Forge.OK, d.Forge.LastScan = true, noon.Add(time.Minute)
	d.Threads = []control.ThreadDocument{{
		Name: "llama", Slots: []control.SlotDocument{{Agents: []string{"dev-a"}}, {Index: 1}}, Paused: true,
		ParkedUntil: noon.Add(time.Hour), Spent: control.SpentDocument{Tokens: 50, TokensPerDay: 200, USD: 3, USDPerDay: 4},
		Windows: []control.WindowDocument{{Length: "5h", USD: 1, MaxUSD: 2, Tokens: 30, MaxTokens: 40}},
		Server:  &control.ServerDocument{Now: control.SpeedDocument{Read: new(412.5)}, Deferred: new(3)},
	}}
	d.Agents = []control.AgentDocument{
		{Name: "dev-a", Thread: "llama", State: control.AgentWorking, Spent: control.SpentDocument{
			Tokens:       1,
			TokensPerDay: 2,
		}},
		{Name: "dev-b", Thread: "llama", State: control.AgentHeld},
	}
	d.Services = []control.ServiceDocument{
		{Name: "gpu", State: "starting"},
		{Name: "llama", State: "ready", Restarts: 3},
		{Name: "migrate", State: "done"},
	}
	return supervisor.Levels{
		Document: d, NeedPerson: 1, Unmerged: noon,
		Queue: map[supervisor.Waiting]int{
			{Kind: "issue", Code: threads.BlockerOpen}: 7,
			{Kind: "review", Code: threads.NoSlot}:     2,
		},
	}
}

func newTestMetrics(levels func() supervisor.Levels) *Metrics {
	return New(Sources{
		Version: "1.2.3", Levels: levels, Reaped: func() (int64, int64) { return 5, 3 },
	})
}

// scrapeText returns a scrape's lines without the metrics of Go and of the process.
func scrapeText(t *testing.T, m *Metrics) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 200 {
		t.Fatalf("got status %d: %s", answer.Code, answer.Body)
	}
	var lines []string
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "disinto_") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// has fails for each line that the scrape lacks.
func has(t *testing.T, got string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+got, "\n"+line+"\n") {
			t.Errorf("the scrape lacks %s:\n%s", line, got)
		}
	}
}

// open is a session on an issue that was ready a minute before.
func open(kind agents.Kind, attempt int) ledger.Open {
	return ledger.Open{At: noon, Start: ledger.Start{
		Run: "r", Thread: "llama", Agent: "dev-a", Role: "dev", Attempt: attempt, Ready: noon.Add(-time.Minute),
		Item: ledger.Key{Kind: kind, Ref: ledger.Ref{Repo: "o/r", Number: 12}}, Cause: threads.CauseCI,
	}}
}

func TestWork(t *testing.T) {
	m := newTestMetrics(factoryLevels)
	meters := m.Meters()
	claim := func(kind agents.Kind, attempt int, result supervisor.ClaimResult) {
		o := open(kind, attempt)
		meters.Claimed(supervisor.Claim{Start: &o.Start, Began: noon, Ended: noon.Add(time.Second), Result: result})
	}
	claim(agents.KindIssue, 1, supervisor.ClaimWon)
	claim(agents.KindIssue, 2, supervisor.ClaimWon) // waited for its cool-down, not for an agent
	claim(agents.KindIssue, 1, supervisor.ClaimLost)
	claim(agents.KindSchedule, 1, supervisor.ClaimWon) // makes no claim
	end := func(kind agents.Kind, result agents.Result, usage *agents.Usage) {
		meters.Ended(open(kind, 1), &ledger.End{Run: "r", Result: result, Usage: usage}, noon.Add(90*time.Second))
	}
	end(agents.KindIssue, agents.Done, &agents.Usage{InputTokens: 10, CachedTokens: 20, OutputTokens: 30, CostUSD: 1.5})
	end(agents.KindRework, agents.Failed, &agents.Usage{InputTokens: -5, OutputTokens: 1 << 62, CostUSD: 1e300})
	end(agents.KindIssue, agents.ClaimFailed, nil)
	end(agents.KindIssue, "what an executor made up", nil)
	meters.Done(supervisor.Deed{
		Action: supervisor.ActMerge, Ref: forge.Ref{Repo: "o/r", Number: 13},
		Result: supervisor.DeedDone,
	})
	meters.Done(supervisor.Deed{
		Action: supervisor.ActMerge, Ref: forge.Ref{Repo: "o/r", Number: 13},
		Result: supervisor.DeedRefused,
	})
	meters.Synced(2 * time.Millisecond)
	m.Requested("GET /user", 200, time.Second)
	m.Requested("GET /user", 0, time.Second)
	m.Requested("GET /user", 777, time.Second)
	got := scrapeText(t, m)
	has(
		t, got,
		`disinto_claims_total{result="lost"} 1`, `disinto_claims_total{result="won"} 3`,
		`disinto_claim_duration_seconds_count 3`,
		`disinto_start_wait_seconds_sum{kind="issue",thread="llama"} 61`,
		`disinto_start_wait_seconds_count{kind="issue",thread="llama"} 1`,
		`disinto_sessions_total{agent="dev-a",kind="issue",outcome="done",role="dev",thread="llama"} 1`,
		`disinto_sessions_total{agent="dev-a",kind="issue",outcome="claim-failed",role="dev",thread="llama"} 1`,
		`disinto_sessions_total{agent="dev-a",kind="issue",outcome="other",role="dev",thread="llama"} 1`,
		`disinto_session_duration_seconds_sum{kind="issue",role="dev",thread="llama"} 180`,
		`disinto_session_duration_seconds_count{kind="issue",role="dev",thread="llama"} 2`,
		`disinto_rework_rounds_total{cause="ci"} 1`,
		`disinto_tokens_total{agent="dev-a",thread="llama",type="cached"} 20`,
		`disinto_tokens_total{agent="dev-a",thread="llama",type="input"} 10`,
		`disinto_tokens_total{agent="dev-a",thread="llama",type="output"} 1.00000003e+09`,
		`disinto_cost_dollars_total{agent="dev-a",thread="llama"} 10001.5`,
		`disinto_merges_total{repo="o/r"} 1`, `disinto_chores_total{action="merge",result="refused"} 1`,
		`disinto_journal_sync_duration_seconds_count 1`,
		`disinto_forge_request_duration_seconds_count{route="GET /user",status="2xx"} 1`,
		`disinto_forge_request_duration_seconds_count{route="GET /user",status="none"} 2`,
	)
	if strings.Contains(got, "12") && strings.Contains(got, "number") {
		t.Error("a label has an issue's number")
	}
}

func TestLevels(t *testing.T) {
	has(
		t, scrapeText(t, newTestMetrics(factoryLevels)),
		`disinto_queue_items{code="blocked",kind="issue"} 7`, `disinto_queue_needs_person_items 1`,
		`disinto_unmerged_since_timestamp_seconds 1.7673552e+09`,
		`disinto_slots{thread="llama"} 2`, `disinto_slots_busy{thread="llama"} 1`,
		`disinto_thread_parked{thread="llama"} 1`, `disinto_thread_paused{thread="llama"} 1`,
		`disinto_agent_state{agent="dev-a",state="working",thread="llama"} 1`,
		`disinto_agent_state{agent="dev-b",state="working",thread="llama"} 0`,
		`disinto_budget_used_ratio{agent="",thread="llama"} 0.75`,
		`disinto_budget_used_ratio{agent="dev-a",thread="llama"} 0.5`,
		`disinto_window_used_ratio{thread="llama",window="5h"} 0.75`,
		`disinto_server_tokens_per_second{direction="read",thread="llama"} 412.5`,
		`disinto_server_requests_deferred{thread="llama"} 3`,
		`disinto_processes_reaped_total{origin="orphan"} 3`, `disinto_processes_reaped_total{origin="started"} 5`,
		`disinto_forge_up 1`, `disinto_config_valid 1`, `disinto_problems 1`,
		`disinto_service_ready{service="gpu"} 0`, `disinto_service_ready{service="llama"} 1`,
		`disinto_service_ready{service="migrate"} 1`,
		`disinto_service_restarts_total{service="llama"} 3`,
	)
	// Before the first configuration and the first scan, a scrape has fewer lines and no error.
	got := scrapeText(t, newTestMetrics(func() supervisor.Levels {
		d := &control.Document{}
		d.Config.Error = "no file"
		return supervisor.Levels{Document: d}
	}))
	has(t, got, `disinto_config_valid 0`, `disinto_forge_up 0`)
	if strings.Contains(got, "last_scan") || strings.Contains(got, "unmerged") {
		t.Error("got a time of the last scan before the first scan, or of work before there was any")
	}
}

// A slot counts from the plan in which it is free until the next plan or the scrape.
func TestFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestMetrics(factoryLevels)
		note := m.Meters().Free
		note(time.Now(), []threads.FreeSlot{
			{Thread: "llama", Code: threads.Paused},
			{Thread: "llama", Slot: 1, Code: threads.Paused},
		})
		time.Sleep(10 * time.Second)
		late := time.Now().Add(-time.Second)
		scrapeText(t, m)
		note(late, []threads.FreeSlot{{Thread: "api", Code: threads.NoSlot}}) // its tick waited for the lock
		time.Sleep(5 * time.Second)
		has(
			t, scrapeText(t, m),
			`disinto_slot_free_beside_work_seconds_total{code="paused",thread="llama"} 20`,
			`disinto_slot_free_beside_work_seconds_total{code="no-slot",thread="api"} 5`,
		)
		note(time.Now(), nil)
		time.Sleep(time.Hour)
		has(t, scrapeText(t, m), `disinto_slot_free_beside_work_seconds_total{code="no-slot",thread="api"} 5`)
	})
}

// Simultaneous scrapes and reports do not race.
func TestConcurrent(t *testing.T) {
	m := newTestMetrics(factoryLevels)
	meters := m.Meters()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 50 {
				meters.Ended(open(agents.KindIssue, 1), &ledger.End{Result: agents.Done}, noon)
				meters.Free(time.Now(), []threads.FreeSlot{{Thread: "llama", Code: threads.Paused}})
				scrapeText(t, m)
			}
		})
	}
	all.Wait()
}

// Four scrapes are answered at a time. The fifth is refused at once, and the others are not.
func TestScrapesAtOnce(t *testing.T) {
	begun, release := make(chan bool), make(chan bool)
	m := newTestMetrics(func() supervisor.Levels {
		begun <- true
		<-release
		return factoryLevels()
	})
	scrape := func() int {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return w.Code
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if got := scrape(); got != http.StatusOK {
				t.Errorf("one of four scrapes got %d", got)
			}
		})
	}
	for range 4 {
		<-begun
	}
	if got := scrape(); got != http.StatusServiceUnavailable {
		t.Errorf("the fifth scrape got %d, want 503", got)
	}
	close(release)
	all.Wait()
}

// docsTable returns the documentation's table of all metrics.
func docsTable(m *Metrics) string {
	described := make(chan *prometheus.Desc, 1000)
	m.registry.Describe(described)
	close(described)
	said := regexp.MustCompile(`fqName: "(disinto_[^"]*)", help: "([^"]*)".*variableLabels: \{([^}]*)\}`)
	rows := make(map[string]string)
	for d := range described {
		if f := said.FindStringSubmatch(d.String()); f != nil {
			labels := ""
			if f[3] != "" {
				labels = " `" + strings.ReplaceAll(f[3], ",", "` `") + "`"
			}
			rows[f[1]] = fmt.Sprintf("| `%s`%s | %s |\n", f[1], labels, f[2])
		}
	}
	table := "| metric, labels | |\n|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		table += rows[name]
	}
	return table
}

// Every metric is in the table of docs/codes.md.
func TestDocs(t *testing.T) {
	const page, begin, end = "../../docs/codes.md", "<!-- metrics -->\n", "<!-- end -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no table between %q and %q", page, begin, end)
	}
	table := docsTable(newTestMetrics(factoryLevels))
	switch {
	case table == old:
	case *update:
		if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not have the current metrics:\n%s\nrun go test ./supervisor/metrics -run TestDocs -update",
			page, table)
	}
}

// Alert rules and the dashboard use only existing metrics, with existing labels.
func TestRules(t *testing.T) {
	table := docsTable(newTestMetrics(factoryLevels))
	name := regexp.MustCompile(`\b(disinto_[a-z_]+)(?:\{([^}]*)\})?`)
	label := regexp.MustCompile(`([a-z]+)(?:=|!)`)
	for _, file := range []string{"alerts.yaml", "grafana.json"} {
		text, err := os.ReadFile("../../docs/monitoring/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range name.FindAllStringSubmatch(string(text), -1) {
			metric := f[1]
			for _, part := range []string{"_sum", "_count", "_bucket"} {
				metric = strings.TrimSuffix(metric, part)
			}
			_, row, found := strings.Cut(table, "| `"+metric+"`")
			row, _, _ = strings.Cut(row, "\n")
			if !found {
				t.Errorf("%s uses %s, which does not exist", file, f[1])
			}
			for _, l := range label.FindAllStringSubmatch(f[2], -1) {
				if !strings.Contains(row, "`"+l[1]+"`") {
					t.Errorf("%s uses the label %s, which %s does not have", file, l[1], f[1])
				}
			}
		}
	}
}
