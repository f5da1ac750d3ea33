package session

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// A CLI that reported its end and keeps running is ended, and its work counts. A CLI that reports more events after its
// end, or has reported no end, keeps running. On an API, a CLI that never answers is ended with backend-down.
func TestCLIThatStays(t *testing.T) {
	end, err := os.ReadFile("testdata/qwen/text.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(end)))
	last := lines[len(lines)-1]
	if !strings.Contains(last, `"result"`) {
		t.Fatalf("the recording ends with %s", last)
	}
	spoken := func(lines int) time.Duration { return time.Duration(lines) * 10 * time.Second }
	tests := []struct {
		name   string
		api    bool
		says   []string // each line ten seconds after the previous one
		leaves time.Duration
		took   time.Duration
		want   agents.Result
	}{
		{"leaves at once", false, lines, 0, spoken(len(lines)), agents.Done},
		{"stays", false, lines, 3 * time.Hour, spoken(len(lines)-1) + lastWord, agents.Done},
		{"has more to say", false, append(lines[:len(lines):len(lines)], last, last), 0, spoken(len(lines) + 2), agents.Done},
		{"says nothing of an end", false, lines[:2], 20 * time.Minute, spoken(2) + 20*time.Minute, agents.Unanswered},
		{"is silent on a local backend", false, nil, time.Hour, time.Hour, agents.Unanswered},
		{"is silent on an API", true, nil, time.Hour, firstAnswer, agents.BackendDown},
		{
			"has answered on an API", true, lines[:len(lines)-1], time.Hour, spoken(len(lines)-2) + nextAnswer,
			agents.BackendDown,
		},
		{"stays on an API", true, lines, time.Hour, spoken(len(lines)-1) + lastWord, agents.Done},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &run{
					Program: &Program{CLI: "qwen", Environ: []string{"PATH=/bin"}, Out: io.Discard, Now: time.Now},
					work: work{
						Local: !tt.api, Workspace: t.TempDir(), Home: t.TempDir(), ResultPath: filepath.Join(t.TempDir(), "result.json"),
					}, cli: adapters["qwen"],
				}
				r.Run = func(ctx context.Context, cmd agents.Cmd) error {
					for _, line := range tt.says {
						_, _ = io.WriteString(cmd.Stdout, line)
						select {
						case <-ctx.Done():
							return ctx.Err()
						case <-time.After(10 * time.Second):
						}
					}
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(tt.leaves):
						return nil
					}
				}
				began := time.Now()
				_, out := r.runCLI(t.Context(), r.newCall(t.Context()), "do it")
				if out.Result != tt.want {
					t.Errorf("outcome %+v, want %s", out, tt.want)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %s, want %s", took, tt.took)
				}
			})
		})
	}
}
