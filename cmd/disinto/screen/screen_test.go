package screen

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/audit"
	"codeberg.org/johba/disinto/threads/sim"
)

// read decodes a document of testdata.
func read[T any](t *testing.T, name string) *T {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	document := new(T)
	if err := json.Unmarshal(raw, document); err != nil {
		t.Fatal(err)
	}
	return document
}

// document is one output of a command.
type document struct {
	name string
	now  time.Time // the zero time is noon
	show func(View) string
	also []string // its views in addition to 80 and 120 columns
}

// documents returns the outputs of all commands.
func documents(t *testing.T) []document {
	status := func(name string, also ...string) document {
		d := read[control.Document](t, "status/"+name+".json")
		return document{name: "status/" + name, show: func(v View) string { return v.Status(d) }, also: also}
	}
	noMore := func(name string, also ...string) document {
		d := read[control.Document](t, "status/"+name+".json")
		return document{name: "why/no-more-" + name, show: func(v View) string { return v.WhyNoMore(d) }, also: also}
	}
	why := func(name string, also ...string) document {
		d := read[threads.Explanation](t, "why/"+name+".json")
		return document{name: "why/" + name, show: func(v View) string { return v.Why(d) }, also: also}
	}
	live := read[control.Document](t, "status/demo.json") // recorded in a demo; the picture in README.md
	pairing, agent := read[threads.Explanation](t, "why/pairing.json"), read[threads.Explanation](t, "why/agent.json")
	life, past := read[control.ItemDocument](t, "life/merged.json"), read[control.HistoryDocument](t, "life/history.json")
	convoys, hosts := read[control.Convoys](t, "convoys.json"), fleetStatus()
	report := demoReport(t)
	broken := *report
	broken.Violations, broken.Missing = []string{"two agents in slot 0 of llama at 12:00:00"}, []int64{5}
	return []document{
		status("busy", "pipe", "colour", "lost", "low"), status("trouble", "low"), status("hostile"), status("empty"),
		status("paused"), status("services"), status("elsewhere"),
		{name: "status/crowd", also: []string{"low", "wide"}, show: func(v View) string { return v.Status(crowd(t)) }},
		{name: "status/demo", now: live.Forge.LastScan, show: func(v View) string { return v.Status(live) }},
		noMore("busy", "pipe", "lost"), noMore("trouble"), noMore("paused"), noMore("empty"),
		why("cycle", "pipe"), why("pairing", "pipe", "colour"), why("agent"), why("thread"), why("merged"),
		why("past", "pipe"),
		{name: "why/pairing-all", show: func(v View) string { return v.WhyAll(pairing) }, also: []string{"pipe"}},
		{name: "why/agent-all", show: func(v View) string { return v.WhyAll(agent) }},
		{name: "life/merged", show: func(v View) string { return v.Item(life) }, also: []string{"pipe"}},
		{name: "life/history", show: func(v View) string { return v.History(past) }, also: []string{"pipe"}},
		{name: "record", show: func(v View) string { return v.Record(record()) }, also: []string{"pipe"}},
		{name: "convoys", show: func(v View) string { return v.Convoys(convoys) }, also: []string{"pipe"}},
		{name: "convoy-list", show: func(v View) string { return v.ConvoyList(convoys) }},
		{name: "audit", show: func(v View) string { return v.Audit(&audits[0]) }, also: []string{"colour"}},
		{name: "audit-broken", show: func(v View) string { return v.Audit(&audits[1]) }, also: []string{"colour"}},
		{name: "audit-alone", show: func(v View) string { return v.Audit(&audits[2]) }, also: []string{"colour"}},
		{name: "audit-none", show: func(v View) string { return v.Audit(&audit.Report{OK: true}) }},
		{name: "fleet", show: func(v View) string { return v.Fleet(hosts) }, also: []string{"pipe"}},
		{name: "cycle", show: func(v View) string { return v.Cycle(&hosts.Cycles[0]) }},
		{
			name: "trials", show: func(v View) string { return v.Trials("load.toml: 140 issues", trials(), learnt()) },
			also: []string{"colour"},
		},
		{name: "demo", show: func(v View) string { return v.DemoReport(report, 83*time.Second) }},
		{
			name: "demo-broken", show: func(v View) string { return v.DemoReport(&broken, 83*time.Second) },
			also: []string{"colour"},
		},
		{name: "findings", show: func(v View) string { return v.Findings(findings()) }, also: []string{"colour"}},
		{name: "sling", show: func(v View) string {
			return v.Sling(&control.SlingReport{
				Repo: "johba/harb", Number: 17, Why: "depends on issues that are open: johba/harb#11, johba/harb#12 \x1b[2J",
				Position: 4,
			})
		}},
		{name: "report", show: func(v View) string {
			return v.Report(&control.Report{
				Subject: "johba/harb#17", Did: []string{
					"session of dev-qwen ended", "labelled cancelled",
					"pull request #18 labelled cancelled",
				},
				Pending: "the forge does not answer: the claim is released later",
			})
		}},
	}
}

// audits are reports on a chain without its old receipts and with a torn last one, on a broken chain, and on one
// without a journal.
var audits = func() []audit.Report {
	whole := audit.Report{
		OK: true, Receipts: 1250, First: 101, From: noon.AddDate(0, 0, -30), To: noon, Pruned: 100, Journalled: 1350,
		Head: audit.Head{N: 1350, Hash: strings.Repeat("c0ffee", 10) + "d15c"},
		Torn: "0000001351-run-\x1b[2J.json",
	}
	broken, alone := whole, whole
	broken.OK, broken.Torn = false, ""
	broken.Break = &audit.Break{File: "0000001351-run.json", Why: "receipt 1351 is missing before it"}
	alone.Receipts, alone.First, alone.Pruned, alone.Torn, alone.Journalled = 1, 1350, 0, "", 0
	return []audit.Report{whole, broken, alone}
}()

// TestScreens checks every document on screens of 80 and of 120 columns, and some in a pipe, in colour or without a
// supervisor. No line is wider than the screen or ends in spaces.
func TestScreens(t *testing.T) {
	views := map[string]View{
		"": {Width: 80}, "120": {Width: 120}, "pipe": {}, "colour": {Width: 80, Colour: true}, "lost": {Lost: true},
		"low": {Width: 80, Height: 24}, "wide": {Width: 120, Height: 40},
	}
	for _, d := range documents(t) {
		for _, name := range append([]string{"", "120"}, d.also...) {
			path := d.name
			if name != "" {
				path += "-" + name
			}
			t.Run(path, func(t *testing.T) {
				v := views[name]
				if v.Now = d.now; v.Now.IsZero() {
					v.Now = noon
				}
				text := d.show(v)
				golden(t, filepath.Join("testdata", path+".txt"), text)
				if n := strings.Count(text, "\n"); v.Height > 0 && n >= v.Height {
					t.Errorf("got %d lines on a terminal of %d, and the prompt needs one", n, v.Height)
				}
				for line := range strings.Lines(unstyled(text)) {
					line = strings.TrimSuffix(line, "\n")
					if v.Width > 0 && Columns(line) > v.Width || line != strings.TrimRight(line, " ") {
						t.Errorf("got a line of %d columns, or with trailing spaces: %q", Columns(line), line)
					}
				}
			})
		}
	}
}

func findings() []Finding {
	return []Finding{
		{About: "file", Text: "factory.toml: 2 threads, 5 agents"},
		{About: "agents", Note: true, Text: "agents run under the supervisor's own account"},
		{About: "reviewers", Problem: true, Text: "the work of dev-a can wait for ever"},
		{About: "forge", Problem: true, Text: strings.Repeat("it does not answer; ", 6) + "\x1b[2J"},
	}
}

// trials are the reports of two policies. The second loses an issue.
func trials() []sim.Report {
	report := func(policy string, n time.Duration) sim.Report {
		return sim.Report{
			Policy: policy, Issues: 140, Done: 140, Makespan: n * 61 * time.Hour, Bound: 60 * time.Hour,
			Idle: n * 22 * time.Minute, Gap: sim.Spread{P99: n * time.Second}, Used: 0.493, Moves: int(n), Switches: 12,
			Turn: sim.Spread{Mean: n * 31 * time.Minute}, Reloaded: int64(n) * 1_234_567,
			Wait: []sim.ClassWait{{Priority: 1, Spread: sim.Spread{P95: n * time.Minute}}},
		}
	}
	ours, other := report("disinto", 1), report("cron-5min", 3)
	ours.Wait = append(ours.Wait, sim.ClassWait{Priority: 5, Spread: sim.Spread{P95: 90 * time.Minute}})
	other.Done, other.Lost = 139, 1
	return []sim.Report{ours, other}
}

func learnt() []sim.Learnt {
	return []sim.Learnt{
		{What: "issue, dev-qwen", P50: 8 * time.Minute, P90: 20 * time.Minute, Sessions: 41},
		{What: "issue, dev-new", Sessions: 2, Usual: true},
		{What: "checks", P50: time.Minute, P90: 3 * time.Minute, Sessions: 30},
		{What: "people", P50: time.Hour, P90: time.Hour, Sessions: 1, Usual: true},
	}
}

func demoReport(t *testing.T) *demo.Report {
	return &demo.Report{
		Document: read[control.Document](t, "status/demo.json"),
		Merged: []demo.Result{
			{Issue: 1, Title: "Write down what an order is", Author: "dev-qwen", Approvers: []string{"review-sonnet"}},
			{
				Issue: 8, Title: "Refuse an order without a name", Author: "dev-kimi", Approvers: []string{"review-sonnet", "ada"},
				Rounds: 1,
			},
		},
		Switches: 3, Used: []string{"dev-kimi", "dev-qwen", "review-sonnet"}, Looked: 21,
	}
}

// A report is one line, even with an escape sequence in it.
func TestReport(t *testing.T) {
	r := &control.Report{Subject: "a/b#1", Did: []string{"one", "\x1b[31mtwo"}, Note: "three", Pending: "four"}
	if got, want := (View{}).Report(r), "a/b#1: one, [31mtwo; three; four\n"; got != want {
		t.Errorf("Report: got %q, want %q", got, want)
	}
}
