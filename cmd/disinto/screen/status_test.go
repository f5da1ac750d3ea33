package screen

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

var noon = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

// crowd is a factory with more rows of each kind than a screen has lines.
func crowd(t *testing.T) *control.Document {
	d := read[control.Document](t, "status/busy.json")
	for i := range 53 {
		d.Queue = append(d.Queue, control.QueueDocument{Repo: "johba/harb", Number: int64(100 + i)})
	}
	for i := range 8 {
		d.Queue = append(d.Queue, control.QueueDocument{
			Repo: "johba/harb", Number: int64(200 + i), Kind: agents.KindIssue, NeedsPerson: true,
			Why:   "gave up after 5 attempts",
			Since: noon.Add(-time.Duration(i) * time.Hour), Mend: "`disinto retry johba/harb#200`",
		})
	}
	for i := range 30 {
		s := d.Sessions[0]
		s.Agent, s.Slot = fmt.Sprint("dev-", i), i+2
		d.Threads[1].Slots = append(d.Threads[1].Slots, control.SlotDocument{Index: i + 2, Agents: []string{s.Agent}})
		d.Sessions = append(d.Sessions, s)
		d.Agents = append(d.Agents, control.AgentDocument{Name: s.Agent + "x", State: control.AgentHeld, Why: "rests"})
		d.Recent = append(d.Recent, d.Recent[0])
	}
	return d
}

func TestStatusViewBoundsQueue(t *testing.T) {
	d := crowd(t)
	got := (View{Now: noon, Width: 80}).Status(d)
	if !strings.Contains(got, "\nand 35 more: disinto") || !strings.Contains(got, "\nand 6 more: disinto status --all\n") {
		t.Errorf("got no count of the 35 and 6 items that are not shown:\n%s", got)
	}
	if !strings.Contains(got, "\n\nNEEDS YOU\n") || strings.Index(got, "issue #207") > strings.Index(got, "issue #206") {
		t.Errorf("items that need a person are not first, oldest first:\n%s", got)
	}
	// A pipe gets lines of any length, and with All every row.
	if got = (View{Now: noon}).Status(d); !strings.Contains(got, "\nand 35 more: disinto") {
		t.Errorf("a pipe: got no count of the 35 items that are not shown:\n%s", got)
	}
	got = View{Now: noon, All: true}.Status(d)
	if strings.Contains(got, "\nand ") || strings.Contains(got, "…") || strings.Count(got, "gave up after 5") != 8 {
		t.Errorf("all in a pipe: got cut or missing rows:\n%s", got)
	}
}

// The status joins a reason that ends with an agent's sentence to its remedy, and shows the reason's times relative to
// now.
func TestStatusRemedy(t *testing.T) {
	earlier, later := noon.Add(-2*time.Hour).Format(time.RFC3339), noon.Add(65*time.Minute).Format(time.RFC3339)
	for why, want := range map[string]string{
		"refused: no schema.": "refused: no schema: answer it",
		"dev-a asked @ada at " + earlier + ", no answer: go?": "dev-a asked @ada 2h00m ago, no answer: go? answer it",
		"the plan of dev-a waits for @ada since " + earlier:   "the plan of dev-a waits for @ada for 2h00m: answer it",
		"dev-a works on #4, free about " + later:              "dev-a works on #4, free in about 1h05m: answer it",
		"dev-a works on #4, free about " + earlier:            "dev-a works on #4, free soon: answer it",
		"backing off until " + later:                          "backing off for 1h05m: answer it",
		"its note says at 2026-99-99T00:00:00Z":               "its note says at 2026-99-99T00:00:00Z: answer it",
	} {
		d := control.Document{Unqueued: []control.QueueDocument{{
			Repo: "johba/harb", Number: 2, Kind: agents.KindIssue, NeedsPerson: true, Why: why, Mend: "answer it",
		}}}
		if got := (View{Now: noon}).Status(&d); !strings.Contains(got, want) {
			t.Errorf("%s: got no %q in\n%s", why, want, got)
		}
	}
}

// All issues without the label backlog share one line; a convoy without it has its own line.
func TestStatusViewUnqueued(t *testing.T) {
	d := read[control.Document](t, "status/empty.json")
	for i := range 10_000 {
		d.Unqueued = append(d.Unqueued, control.QueueDocument{
			Repo: "johba/harb", Number: int64(100 + i), Kind: agents.KindIssue, Code: threads.NotBacklog,
			Why: "not labelled backlog",
		})
	}
	d.Unqueued[3].Title, d.Unqueued[3].Code, d.Unqueued[3].Why = "Sell by mail", threads.Tracking,
		"a convoy, 2 of 5 members closed"
	got := (View{Now: noon, Width: 80}).Status(d)
	want := "WAITS       TITLE         WHY\n" +
		"issue #103  Sell by mail  a convoy, 2 of 5 members closed\n" +
		"not labelled backlog: #100, #101, #102, #104, #105, #106 and 9993 more\n"
	if !strings.Contains(got, want) {
		t.Errorf("got\n%swant in it\n%s", got, want)
	}
}

func TestClean(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain text, Ünïcode 元 🚀", "plain text, Ünïcode 元 🚀"},
		{"\x1b[31mred\x1b[0m", "[31mred[0m"},
		{"\x1b]0;title\a", "]0;title"},
		{"two\nlines\r\nand\ttab", "two lines and tab"},
		{"\n\nlead and trail\n", "lead and trail"},
		{"c1 \u009b31m", "c1 31m"},
		{"raw c1 \x9b31m", "raw c1 \ufffd31m"},
		{"bidi \u202eexe.gpj", "bidi exe.gpj"},
		{"zero\u200bwidth\u200d", "zerowidth"},
		{"sep\u2028arator", "sep arator"},
		{"del\x7f", "del"},
	}
	for _, tt := range tests {
		if got := Clean(tt.in); got != tt.want {
			t.Errorf("Clean(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[31m\x9b\u202e\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Clean(s) {
			if !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r) {
				t.Errorf("Clean(%q) keeps %U", s, r)
			}
		}
		for _, line := range wrap(Clean(s), 20) {
			if Columns(line) > 21 { // a wide character may need one column more
				t.Errorf("wrap(%q) has a line of %d columns", s, Columns(line))
			}
		}
		if got := Columns(cut(Clean(s), 10)); got > 10 {
			t.Errorf("cut(%q, 10) has %d columns", s, got)
		}
	})
}

func TestAge(t *testing.T) {
	tests := []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0s"},
		{1999 * time.Millisecond, "1s"},
		{59 * time.Second, "59s"},
		{3*time.Minute + 12*time.Second, "3m12s"},
		{2*time.Hour + 5*time.Minute, "2h05m"},
		{76 * time.Hour, "3d4h"},
	}
	for _, tt := range tests {
		if got := control.Age(tt.d); got != tt.want {
			t.Errorf("control.Age(%v) = %s, want %s", tt.d, got, tt.want)
		}
	}
}

// Scheduled work does not wait before it is due.
func TestRowNotDue(t *testing.T) {
	for since, want := range map[time.Time]string{noon.Add(time.Hour): "", noon.Add(-time.Hour): "1h"} {
		v := View{Now: noon}
		rows := v.Rows(&control.Document{Queue: []control.QueueDocument{{Kind: agents.KindSchedule, Since: since}}})
		if got := v.age(rows[0].At); got != want {
			t.Errorf("due at %s: it waits for %q, want %q", since, got, want)
		}
	}
}

// A pause of everything needs a person. The status shows it once, even at a first start, when a problem reports it too.
func TestStatusPaused(t *testing.T) {
	d := control.Document{Paused: true}
	want := "\n\nNEEDS YOU\neverything  paused; disinto resume starts waiting work\n"
	if got := (View{}).Status(&d); !strings.Contains(got, want) {
		t.Errorf("paused: got\n%swant in it\n%s", got, want)
	}
	d.Problems = []string{"first start: 2 items wait: disinto resume starts them"}
	if got := (View{}).Status(&d); strings.Count(got, "disinto resume") != 1 {
		t.Errorf("paused at a first start: got\n%swant disinto resume once", got)
	}
}

// An agent that works and is paused starts nothing after its session, and the status says what ends that.
func TestStatusPausedAtWork(t *testing.T) {
	d := control.Document{Agents: []control.AgentDocument{{Name: "dev-qwen", State: control.AgentWorking, Paused: true}}}
	want := "dev-qwen after its session: disinto resume dev-qwen"
	if got := (View{}).Status(&d); !strings.Contains(got, want) {
		t.Errorf("got\n%swant %q in it", got, want)
	}
	d.Agents[0].Paused = false
	if got := (View{}).Status(&d); strings.Contains(got, "resume") {
		t.Errorf("an agent that is not paused: got\n%s", got)
	}
}

// In a pipe, the status of a factory with 10,000 issues names a few of each kind and counts the rest.
func TestStatusOfManyIssues(t *testing.T) {
	d := &control.Document{}
	for i := range 10_000 {
		q := control.QueueDocument{
			Repo: "o/r", Number: int64(i + 1), Title: strings.Repeat("long title ", 23), Kind: agents.KindIssue,
			Why: strings.Repeat("a reason in many words ", 10), Code: threads.NoSlot,
		}
		switch i % 3 {
		case 0:
			q.NeedsPerson = true
		case 1:
			q.Code = threads.NotBacklog
		}
		d.Queue = append(d.Queue, q)
	}
	got := View{}.Status(d)
	if len(got) >= 50_000 || !strings.Contains(got, "and 3329 more: disinto status --all") {
		t.Errorf("got %d bytes, want less than 50,000 with the count of what needs a person:\n%s", len(got), got)
	}
}
