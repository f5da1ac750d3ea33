package demo_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
)

// config returns the demo's configuration, decoded as run decodes it.
func config(t *testing.T) *threads.Config {
	t.Helper()
	text := demo.Config("http://127.0.0.1:3000", "/state", "", []string{"program"}, false)
	c, err := file.Decode("factory.toml", text, func(string) (string, bool) { return "token", true })
	if err != nil {
		t.Fatal(err)
	}
	if problems := c.Problems(); len(problems) > 0 {
		t.Errorf("the demo's configuration: got problems %v, want none", problems)
	}
	return c
}

var start = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

// at returns the time that many seconds after start.
func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// run is one session of a test case.
type run struct {
	agent     string
	slot      int
	kind      agents.Kind
	number    int64
	from, end int // seconds after start; an end of 0 means that the session still runs
}

// events returns the supervisor's events for sessions, with all claims first: the audit must not rely on the order.
func events(config *threads.Config, runs []run) []control.Event {
	var begun, ended []control.Event
	for i, r := range runs {
		id := fmt.Sprintf("run-%d", i)
		d := control.SessionDocument{
			RunID: id, Thread: config.Agent(r.agent).Thread, Slot: r.slot, Agent: r.agent, Kind: r.kind,
			Repo: demo.Repo, Number: r.number, StartedAt: at(r.from),
		}
		begun = append(begun, control.Event{Type: control.EventClaimed, Data: d})
		d.StartedAt = at(r.from + 1) // the program's start, after the session took its slot
		begun = append(begun, control.Event{Type: control.EventStarted, Data: d})
		if r.end > 0 {
			ended = append(ended, control.Event{Type: control.EventEnded, Data: control.RecentDocument{
				RunID: id, Agent: r.agent, Repo: demo.Repo, Number: r.number, Kind: r.kind,
				StartedAt: at(r.from), EndedAt: at(r.end),
			}})
		}
	}
	return append(begun, ended...)
}

func TestViolations(t *testing.T) {
	done := []demo.Result{ // on the forge: #1 closed by pull request 12 at 20 s, #2 by 13 at 40 s
		{Issue: 1, Pull: 12, Author: "dev-qwen", Approvers: []string{"review-sonnet"}, ClosedAt: at(20)},
		{Issue: 2, Pull: 13, Author: "dev-qwen", Approvers: []string{"review-sonnet"}, ClosedAt: at(40)},
	}
	tests := []struct {
		name    string
		runs    []run
		results []demo.Result
		want    []string
	}{
		{
			name: "no violation",
			runs: []run{
				{"dev-qwen", 0, agents.KindIssue, 1, 0, 10},
				{"review-sonnet", 0, agents.KindReview, 12, 10, 15},
				{"planner-sonnet", 0, agents.KindSchedule, 0, 9, 20}, // shares the slot of an overlap thread
				{"dev-kimi", 1, agents.KindIssue, 6, 5, 12},
				{"dev-qwen", 0, agents.KindIssue, 2, 20, 30}, // starts in the second in which #1 was closed
				{"gardener-qwen", 1, agents.KindSchedule, 0, 12, 13},
			},
		},
		{
			name: "two sessions in a sticky slot",
			runs: []run{{"dev-qwen", 0, agents.KindIssue, 1, 0, 10}, {"dev-kimi", 0, agents.KindIssue, 6, 9, 12}},
			want: []string{"two sessions in slot 0 of llama: dev-qwen issue #1 and dev-kimi issue #6"},
		},
		{
			name: "a session that has not ended takes its slot",
			runs: []run{{"dev-qwen", 0, agents.KindIssue, 1, 0, 0}, {"dev-kimi", 0, agents.KindIssue, 6, 100, 110}},
			want: []string{"two sessions in slot 0 of llama: dev-qwen issue #1 and dev-kimi issue #6"},
		},
		{
			name: "an agent twice",
			runs: []run{{"dev-qwen", 0, agents.KindIssue, 1, 0, 10}, {"dev-qwen", 1, agents.KindIssue, 6, 5, 12}},
			want: []string{"one agent in two sessions: dev-qwen issue #1 and dev-qwen issue #6"},
		},
		{
			name: "an item twice",
			runs: []run{{"dev-qwen", 0, agents.KindIssue, 1, 0, 10}, {"dev-kimi", 1, agents.KindIssue, 1, 5, 12}},
			want: []string{"two sessions on one item: dev-qwen issue #1 and dev-kimi issue #1"},
		},
		{
			name: "local reviewed by local",
			runs: []run{{"dev-qwen", 0, agents.KindIssue, 1, 0, 10}, {"dev-kimi", 1, agents.KindReview, 12, 10, 15}},
			want: []string{"local work was reviewed by a local model: dev-kimi review #12 after dev-qwen issue #1"},
		},
		{
			name: "own work, after a rework",
			runs: []run{{"review-sonnet", 0, agents.KindRework, 12, 0, 10}, {"review-sonnet", 0, agents.KindReview, 12, 10, 15}},
			want: []string{"an agent reviewed its own work: review-sonnet review #12 after review-sonnet rework #12"},
		},
		{
			name: "started while blocked",
			runs: []run{{"dev-qwen", 0, agents.KindIssue, 2, 19, 25}},
			want: []string{"started while blocked: dev-qwen issue #2 before #1 was closed"},
		},
		{
			name: "started though its blocker was never closed",
			runs: []run{{"dev-qwen", 0, agents.KindIssue, 9, 19, 25}},
			want: []string{"started while blocked: dev-qwen issue #9 before #10 was closed"},
		},
		{
			name:    "merged without an approval",
			results: []demo.Result{{Issue: 1, Pull: 12, ClosedAt: at(20)}, {Issue: 2}},
			want:    []string{"#12 was merged without an approval"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config(t)
			if tt.results == nil {
				tt.results = done
			}
			var a demo.Audit
			for _, e := range events(c, tt.runs) {
				a.Record(e)
			}
			if got := a.Violations(c, tt.results); !slices.Equal(got, tt.want) {
				t.Errorf("Violations: got %q, want %q", got, tt.want)
			}
		})
	}
}

// A switch is a session of another agent in the same sticky slot. The same agent again and slots of overlap threads do
// not count.
func TestSwitches(t *testing.T) {
	c := config(t)
	var a demo.Audit
	for _, e := range events(c, []run{
		{"dev-qwen", 0, agents.KindIssue, 1, 0, 1},
		{"dev-qwen", 0, agents.KindIssue, 2, 1, 2},
		{"dev-kimi", 1, agents.KindIssue, 6, 1, 2},
		{"gardener-qwen", 0, agents.KindSchedule, 0, 2, 3}, // the first switch
		{"dev-qwen", 0, agents.KindIssue, 3, 3, 4},         // the second switch
		{"review-sonnet", 0, agents.KindReview, 12, 3, 4},
		{"planner-sonnet", 0, agents.KindSchedule, 0, 4, 5},
	}) {
		a.Record(e)
	}
	if got := a.Switches(c); got != 2 {
		t.Errorf("Switches: got %d, want 2", got)
	}
}

// The demo is done when it can do no more work, and not before.
func TestDone(t *testing.T) {
	held := []control.QueueDocument{{Number: 9}, {Number: 10}, {Number: 11}, {Number: 0, Kind: agents.KindSchedule}}
	merged := func(n int) (a *demo.Audit) {
		a = &demo.Audit{}
		for i := range n {
			a.Record(control.Event{Type: control.EventMerged, Data: control.RefData{Repo: demo.Repo, Number: int64(12 + i)}})
		}
		return a
	}
	running := merged(demo.Due())
	running.Record(control.Event{Type: control.EventClaimed, Data: control.SessionDocument{RunID: "r"}})
	tests := []struct {
		name  string
		audit *demo.Audit
		doc   control.Document
		want  bool
	}{
		{"all merged", merged(demo.Due()), control.Document{Queue: held}, true},
		{"one is not merged", merged(demo.Due() - 1), control.Document{Queue: held}, false},
		{
			"an eligible issue waits", merged(demo.Due()),
			control.Document{Queue: append(held, control.QueueDocument{Number: 5})},
			false,
		},
		{
			"a pull request waits", merged(demo.Due()),
			control.Document{Queue: append(held, control.QueueDocument{Number: 19})},
			false,
		},
		{"an agent works", merged(demo.Due()), control.Document{Queue: held, Sessions: []control.SessionDocument{{}}}, false},
		{"a session has no end event yet", running, control.Document{Queue: held}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.audit.Done(&tt.doc); got != tt.want {
				t.Errorf("Done: got %v, want %v", got, tt.want)
			}
		})
	}
}
