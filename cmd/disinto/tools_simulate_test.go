package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads/sim"
)

const simulated = `
[threads.api]
backend = "anthropic"
agents = ["review-sonnet"]
[threads.llama]
backend = "local"
max_concurrent = 1
agents = ["dev-a", "dev-b"]
[roles.dev]
cli = "claude"
`

// simulate runs disinto simulate in a folder with files, in an environment without secrets.
func simulate(t *testing.T, files map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, err bytes.Buffer
	c := &cli{stdout: &out, stderr: &err, now: time.Now}
	code = c.run(context.Background(), append([]string{"simulate"}, args...))
	return out.String(), err.String(), code
}

// --against compares two factories. Both get the same work, and the one with two slots finishes it sooner.
func TestSimulate(t *testing.T) {
	files := map[string]string{
		"factory.toml": simulated, "two.toml": strings.Replace(simulated, "max_concurrent = 1", "max_concurrent = 2", 1),
		"load.toml": "[[issues]]\nper_day = 60\nminutes = 12\n[[issues]]\nper_day = 3\npriority = 1\n",
	}
	text, complaint, code := simulate(t, files, "--load", "load.toml", "--days", "0.4", "--against", "two.toml", "--json",
		"--chart", "chart.html")
	if code != 0 {
		t.Fatal(complaint)
	}
	var got struct{ Reports []sim.Report }
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	n := len(got.Reports)
	if n != len(sim.Policies())+1 || got.Reports[n-1].Policy != "disinto two.toml" {
		t.Fatalf("got %d reports", n)
	}
	one, two := got.Reports[n-2], got.Reports[n-1]
	if one.Issues < 18 || one.Issues != two.Issues || one.Done != one.Issues || two.Done != two.Issues {
		t.Errorf("got %d of %d and %d of %d issues done", one.Done, one.Issues, two.Done, two.Issues)
	}
	if two.Turn.Mean >= one.Turn.Mean*3/4 {
		t.Errorf("with a second slot: got mean time %s and %s, want at least a quarter less", one.Turn.Mean,
			two.Turn.Mean)
	}
	chart, err := os.ReadFile("chart.html")
	if err != nil || strings.Count(string(chart), "<svg") != n || !strings.Contains(string(chart), "llama slot 0") {
		t.Errorf("the chart: got %d pictures (%v)", strings.Count(string(chart), "<svg"), err)
	}
	same := []string{"--load", "load.toml", "--days", "0.1", "--policy", "disinto", "--json"}
	once, _, _ := simulate(t, files, same...)
	if again, _, _ := simulate(t, files, same...); again != once {
		t.Error("the same seed gave two answers")
	}
	table, _, code := simulate(t, files, "--load", "load.toml", "--policy", "disinto,cron-5min", "--days", "0.3")
	if code != 0 || !strings.Contains(table, "priority 1 ") || !strings.Contains(table, "cron-5min") ||
		strings.Contains(table, "arc") || !strings.Contains(table, "no policy could be done before") {
		t.Errorf("got exit code %d:\n%s", code, table)
	}
}

// Each mistake is an error of one line that says what to do, and nothing is simulated.
func TestSimulateMistakes(t *testing.T) {
	for _, tt := range []struct {
		load, want string
		code       int
		args       []string
	}{
		{load: "[[issues]]\nper_day = 0", want: "[[issues]] table 1: per_day is 0, want more than 0"},
		{load: "[[issues]]\nper_day = 1\nper_hour = 2", want: "unknown key issues.per_hour"},
		{load: "[[issues]]\nper_day = 1\nagent = \"dev-c\"", want: `there is no "dev-c" in factory.toml`},
		{load: "[[issues]]\nper_day = 1\nrepo = \"a/b\"", want: `"a/b" is not one of owner/name`},
		{load: "[[issues]]\nper_day = 1\npriority = 11", want: "priority is 11"},
		{load: "[[issues]]\nper_day = 1\nsessions = 0.5", want: "sessions is 0.5"},
		{load: "[[issues]]\nper_day =", want: "load.toml:2:"},
		{load: "", want: "no work: add an [[issues]] table"},
		{load: "[[issues]]\nper_day = 1\ntogether = -1", want: "together is -1, want 1 to 1000"},
		{load: strings.Repeat("[[issues]]\nper_day = -1\n", 30), want: "load.toml: 10 more mistakes"},
		{load: "[[issues]]\nper_day = nan", want: "per_day is NaN, want more than 0"},
		{load: "[[issues]]\nper_day = 1e-300", want: "no issue is filed in 7 days"},
		{load: strings.Repeat("[[issues]]\nper_day = 9999\n", 2), want: "about 139986 issues in 7 days, want at most 100000"},
		{load: strings.Repeat("# long\n", 1<<18), want: "load.toml: longer than 1048576 bytes"},
		{args: []string{"--policy", "magic"}, want: `there is no "magic"`, code: 2},
		{args: []string{"--days", "0"}, want: "--days: 0", code: 2},
		{args: []string{"--replay", "x"}, want: "want one of them", code: 2},
		{args: []string{"--chart", "x.png"}, want: "ends in .svg or .html", code: 2},
		{args: []string{"--load", "nothing"}, want: "cannot read the load"},
		{
			args: []string{"--load", "", "--replay", "factory.toml"},
			want: "factory.toml: cannot read the journal: none of its lines",
		},
		{args: []string{"--load", "", "--days", "0.00001"}, want: "no issue is filed in 1e-05 days"},
	} {
		files := map[string]string{"factory.toml": simulated, "load.toml": tt.load}
		if tt.code == 0 {
			tt.code = 1
		}
		out, complaint, code := simulate(t, files, append([]string{"--load", "load.toml"}, tt.args...)...)
		if code != tt.code || out != "" || !strings.Contains(complaint, tt.want) {
			t.Errorf("%q %v: got exit code %d, %q%q, want %q", tt.load, tt.args, code, out, complaint, tt.want)
		}
	}
}

// --replay turns each issue of a journal into one issue of the load.
func TestSimulateReplay(t *testing.T) {
	journal := `{"at":"2026-01-02T03:00:00Z","start":{"run":"a","thread":"llama","slot":0,"agent":"dev-a","login":"dev-a","role":"dev","item":{"kind":"issue","ref":"o/r#1"},"chain":"o/r#1","attempt":1}}
not a line
{"at":"2026-01-02T03:30:00Z","end":{"run":"a","result":"done"}}
`
	out, complaint, code := simulate(t, map[string]string{"factory.toml": simulated, "journal.jsonl": journal}, "--replay",
		"journal.jsonl", "--policy", "disinto")
	if code != 0 || !strings.Contains(out, "1/1") {
		t.Errorf("got exit code %d: %s%s", code, out, complaint)
	}
	_, complaint, code = simulate(t, map[string]string{"factory.toml": simulated, "empty": ""}, "--replay",
		filepath.Join(".", "empty"))
	if code != 1 || !strings.Contains(complaint, "has no session") {
		t.Errorf("got exit code %d: %s", code, complaint)
	}
}

// The operator's own journal shows the worth of one more slot: its issues waited for a slot, and with two they wait
// half as long.
func TestSimulateReplaySlots(t *testing.T) {
	files := map[string]string{
		"factory.toml": simulated, "two.toml": strings.Replace(simulated, "max_concurrent = 1", "max_concurrent = 2", 1),
		"journal.jsonl": hourly(8),
	}
	text, complaint, code := simulate(t, files, "--replay", "journal.jsonl", "--policy", "disinto", "--against",
		"two.toml", "--json")
	var got struct{ Reports []sim.Report }
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != 0 || len(got.Reports) != 2 {
		t.Fatalf("got exit code %d, %v: %s", code, err, complaint)
	}
	one, two := got.Reports[0].Turn.Mean, got.Reports[1].Turn.Mean
	if one < 4*time.Hour || one > 5*time.Hour || two > one*6/10 {
		t.Errorf("got %s per issue, and %s with two slots; want 4.5 h and about half of that", one, two)
	}
}

// A month's journal, mostly of scheduled work, gives plausible results: no agent works longer than the simulated
// time, and the range is the requested one.
func TestSimulateMonth(t *testing.T) {
	var journal strings.Builder
	begin := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	past := func(kind string, n int, after, took time.Duration) {
		fmt.Fprintf(&journal,
			`{"at":%q,"past":{"agent":"dev-a","kind":%q,"ref":"owner/name#%[3]d","chain":"owner/name#%[3]d",`+
				`"priority":5,"start":%[4]q,"end":%[1]q}}`+"\n",
			begin.Add(after+took).Format(time.RFC3339), kind, n, begin.Add(after).Format(time.RFC3339))
	}
	past("issue", 1, 0, time.Minute)
	past("issue", 2, 29*24*time.Hour, 20*time.Second)
	every := "6h" // 120 sessions; the others are of two issues
	if storms() {
		every = "10m"
	}
	files := map[string]string{
		"factory.toml": simulated +
			"[threads.night]\nbackend = \"local\"\nagents = [\"gardener-a\"]\n[roles.gardener]\nevery = \"" + every + "\"\n",
		"journal.jsonl": journal.String(),
	}
	for days, want := range map[string]struct{ issues, filed string }{
		"30": {"2 issues", "29.0d"},
		"7":  {"1 issue", "0.0s"}, "0.01": {"1 issue", "0.0s"},
	} {
		args := []string{"--replay", "journal.jsonl", "--days", days, "--policy", "disinto,disinto", "--chart", "chart.svg"}
		text, complaint, code := simulate(t, files, args...)
		if code != 0 || !strings.HasPrefix(text, "journal.jsonl: "+want.issues+", the last filed after "+want.filed) ||
			strings.Count(text, " disinto\n") != 1 {
			t.Errorf("%s days: got exit code %d: %s%s", days, code, text, complaint)
		}
		chart, err := os.ReadFile("chart.svg")
		if err != nil || !strings.Contains(string(chart), "<title>dev-") {
			t.Errorf("%s days: no session in the chart: %v", days, err)
		}
		raw, _, _ := simulate(t, files, append(args, "--json")...)
		var got struct{ Reports []sim.Report }
		if err := json.Unmarshal([]byte(raw), &got); err != nil || len(got.Reports) != 1 || got.Reports[0].Used < 0 ||
			got.Reports[0].Used > 1 {
			t.Errorf("%s days: %v: %+v", days, err, got.Reports)
		}
	}
}

// hourly is a journal of issues that were all ready at 3:00. One slot did one of them an hour.
func hourly(issues int) string {
	var journal strings.Builder
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for i := range issues {
		start, end := at.Add(time.Duration(i)*time.Hour), at.Add(time.Duration(i+1)*time.Hour)
		fmt.Fprintf(&journal, `{"at":%q,"past":{"agent":"dev-a","kind":"issue","ref":"owner/name#%[2]d",`+
			`"chain":"owner/name#%[2]d","ready":%q,"priority":5,"start":%q,"end":%q}}`+"\n",
			end.Format(time.RFC3339), i+1, at.Format(time.RFC3339), start.Format(time.RFC3339), end.Format(time.RFC3339))
	}
	return journal.String()
}
