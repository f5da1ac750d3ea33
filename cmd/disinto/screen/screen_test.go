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

// Every document but the status and the fleet, which have tests of their own, on a screen of 80 columns.
func TestDocuments(t *testing.T) {
	v := View{Now: noon, Width: 80}
	coloured := v
	coloured.Colour = true
	wide, pipe := v, v
	wide.Width, pipe.Width = 120, 0
	life, past := read[control.LifeDocument](t, "life/merged.json"), read[control.HistoryDocument](t, "life/history.json")
	reports := trials()
	report := demoReport(t)
	broken := *report
	broken.Violations, broken.Missing = []string{"two agents in slot 0 of llama at 12:00:00"}, []int64{5}
	for name, text := range map[string]string{
		"why/cycle":            v.Why(read[threads.Explanation](t, "why/cycle.json")),
		"why/pairing":          v.Why(read[threads.Explanation](t, "why/pairing.json")),
		"why/pairing-all":      v.WhyAll(read[threads.Explanation](t, "why/pairing.json")),
		"life/merged":          v.Life(life),
		"life/merged-pipe":     pipe.Life(life),
		"life/history-pipe":    pipe.History(past),
		"why/cycle-pipe":       pipe.Why(read[threads.Explanation](t, "why/cycle.json")),
		"why/pairing-pipe":     pipe.Why(read[threads.Explanation](t, "why/pairing.json")),
		"why/pairing-all-pipe": pipe.WhyAll(read[threads.Explanation](t, "why/pairing.json")),
		"life/merged-120":      wide.Life(life),
		"life/history":         v.History(past),
		"life/history-120":     wide.History(past),
		"why/pairing-colour":   coloured.Why(read[threads.Explanation](t, "why/pairing.json")),
		"trials":               v.Trials("load.toml: 140 issues", reports),
		"trials-colour":        coloured.Trials("load.toml: 140 issues", reports),
		"demo":                 v.DemoReport(report, 83*time.Second),
		"demo-colour":          coloured.DemoReport(&broken, 83*time.Second),
		"findings": coloured.Findings([]Finding{
			{About: "file", Text: "factory.toml: 2 threads, 5 agents"},
			{About: "agents", Note: true, Text: "agents run under the supervisor's own account"},
			{About: "forge", Problem: true, Text: strings.Repeat("it does not answer; ", 6) + "\x1b[2J"},
		}),
	} {
		golden(t, filepath.Join("testdata", name+".txt"), text)
	}
}

// trials are reports of two policies, the second of which loses an issue.
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

// A report is one line, whatever its parts are.
func TestReport(t *testing.T) {
	r := &control.Report{Subject: "a/b#1", Did: []string{"one", "\x1b[31mtwo"}, Note: "three", Pending: "four"}
	if got, want := (View{}).Report(r), "a/b#1: one, [31mtwo; three; four\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
