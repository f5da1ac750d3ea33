package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads/advice"
)

// The answers to "what would hurt most" and "what is one more worth", as text and as JSON, from a load and from a
// journal. The same seed gives the same answer, although processors share the plays.
func TestSimulateBreak(t *testing.T) {
	files := map[string]string{"factory.toml": simulated, "load.toml": "[[issues]]\nper_day = 300\nminutes = 2\n"}
	days := "0.01"
	if storms() {
		days = "0.2"
	}
	args := []string{"--break", "--load", "load.toml", "--days", days, "--json"}
	text, complaint, code := simulate(t, files, args...)
	var got struct {
		Days  float64
		Break advice.Breakdown
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != 0 || got.Days == 0 {
		t.Fatalf("exit code %d, %v: %s", code, err, complaint)
	}
	if got.Break.Worst == nil || len(got.Break.Harms) < 6 || len(got.Break.Helps) < 4 {
		t.Errorf("%+v", got.Break)
	}
	if !storms() {
		return
	}
	if again, _, _ := simulate(t, files, args...); again != text {
		t.Error("the same question has two answers")
	}
}

// One slot does 8 issues of an hour in 8 hours, and two would have done more of them in the time that the journal tells
// of.
func TestSimulateAdvise(t *testing.T) {
	files := map[string]string{"factory.toml": simulated, "journal.jsonl": hourly(8)}
	text, complaint, code := simulate(t, files, "--advise", "--replay", "journal.jsonl")
	if code != 0 || complaint != "" || !strings.Contains(text, "30 days were asked for") {
		t.Fatalf("exit code %d: %s%s", code, complaint, text)
	}
	slot := "one more slot on llama"
	if !strings.Contains(text, slot+"\n") || strings.Contains(text, "from chance: "+slot) {
		t.Error(text)
	}
	for _, tt := range []struct{ args, want string }{
		{"--break --advise", "want one of them"},
		{"--break --policy disinto", "--policy cannot be used with --break or --advise"},
		{"--advise --against factory.toml", "--against cannot be used with --break or --advise"},
		{"--advise --chart x.svg", "--chart cannot be used with --break or --advise"},
		{"--advise --days 0", "--days: 0"},
		{"--break --load a --replay b", "want one of them"},
	} {
		_, complaint, code := simulate(t, files, strings.Fields(tt.args)...)
		if code != 2 || !strings.Contains(complaint, tt.want) {
			t.Errorf("%s: exit code %d, %q, want %q", tt.args, code, complaint, tt.want)
		}
	}
}

// A person who interrupts the search gets the prompt back, and no answer.
func TestSimulateBreakStops(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("factory.toml", []byte(simulated), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, complaint bytes.Buffer
	c := &cli{stdout: &out, stderr: &complaint, now: time.Now}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if code := c.run(ctx, []string{"simulate", "--break", "--days", "7"}); code != 1 || out.Len() > 0 {
		t.Errorf("exit code %d: %s%s", code, &out, &complaint)
	}
}
