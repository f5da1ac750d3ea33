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

// simulate --break reports what would hurt the factory most and what would help. The same seed gives the same answer,
// although the simulations run in parallel.
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
		t.Fatalf("got exit code %d, %v: %s", code, err, complaint)
	}
	if got.Break.Worst == nil || len(got.Break.Harms) < 6 || len(got.Break.Helps) < 4 {
		t.Errorf("got %+v", got.Break)
	}
	if !storms() {
		return
	}
	if again, _, _ := simulate(t, files, args...); again != text {
		t.Error("the same seed gave two answers")
	}
}

// One slot does 8 issues of an hour in 8 hours. The advice says that two slots would have done more in the journal's
// time.
func TestSimulateAdvise(t *testing.T) {
	files := map[string]string{"factory.toml": simulated, "journal.jsonl": hourly(8)}
	text, complaint, code := simulate(t, files, "--advise", "--replay", "journal.jsonl")
	if code != 0 || complaint != "" || !strings.Contains(text, "--days is 30") {
		t.Fatalf("got exit code %d: %s%s", code, complaint, text)
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
			t.Errorf("%s: got exit code %d, %q, want %q", tt.args, code, complaint, tt.want)
		}
	}
}

// An interrupted search ends at once, without an answer.
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
		t.Errorf("got exit code %d: %s%s", code, &out, &complaint)
	}
}
