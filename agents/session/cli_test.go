package session

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// A CLI that says how it ended and then stays is ended, and what it did counts; one that goes on to speak is left
// alone, and so is one that has said nothing of an end.
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
	tests := []struct {
		name   string
		says   []string // each ten seconds after the one before
		leaves time.Duration
		took   time.Duration
		want   agents.Result
	}{
		{"leaves at once", lines, 0, time.Duration(len(lines)) * 10 * time.Second, agents.Done},
		{"stays", lines, 3 * time.Hour, time.Duration(len(lines))*10*time.Second - 10*time.Second + lastWord, agents.Done},
		{"has more to say", slices.Concat(lines, []string{last, last, last, last}), 0, time.Duration(len(lines)+4) * 10 * time.Second, agents.Done},
		{"says nothing of an end", lines[:2], 20 * time.Minute, 20*time.Minute + 20*time.Second, agents.Failed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &run{
					Program: &Program{CLI: "qwen", Environ: []string{"PATH=/bin"}, Out: io.Discard, Now: time.Now},
					work:    work{Local: true, Workspace: t.TempDir(), Home: t.TempDir()}, cli: adapters["qwen"],
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
				_, out := r.runCLI(t.Context(), r.call(t.Context()), "do it")
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
