package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/session"
)

// own makes the bench's sessions run a program of the operator's.
func (b *bench) own(by agents.PromptBy, script string) {
	path := filepath.Join(b.t.TempDir(), "my-agent")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.program = func(p *session.Program) { p.CLI, p.Command, p.Prompt = "", []string{path, "argument"}, by }
}

// A program that edits files in its folder gets the prompt, the branch, the push, the pull request and the review from
// the built-in program. It neither knows git nor the forge.
func TestOwnProgram(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.own(agents.PromptStdin, `cat > "$HOME/prompt"; test "$1" = argument && echo order > order.txt; echo I wrote it.`)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, "")
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "Mind: a name may contain spaces.") {
		t.Errorf("got the prompt\n%s", p)
	}
	b.own(agents.PromptFile, `cp "$DISINTO_PROMPT" "$HOME/prompt"; test -z "$(cat)" &&
		echo '{"verdict":"request_changes","summary":"Not yet."}' > ../verdict.json`)
	b.want(agents.Done, "asked for changes", "review-sonnet", agents.KindReview, 12, "")
	if p := b.prompt("review-sonnet"); !strings.Contains(p, "+order") {
		t.Errorf("got the reviewer's prompt\n%s", p)
	}
	b.own(agents.PromptStdin, `grep -q "Not yet." && echo more >> order.txt`)
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, "")
	var files []struct{ Filename string }
	b.get("/pulls/12/files", &files)
	if len(files) != 1 || files[0].Filename != "order.txt" {
		t.Errorf("got the files %+v, want order.txt", files)
	}
	b.noSecrets()
}

// Its exit status says how it ended, and a result that it leaves counts more. A nudge repeats the prompt, because the
// program has no memory of it.
func TestOwnProgramOutcomes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, tt := range []struct {
		name, script string
		result       agents.Result
		reason       string
	}{
		{"changes nothing", `cat >> "$HOME/all"; echo Nothing to do.`, agents.NoProgress, "Nothing to do."},
		{"fails", `echo Working; printf 'Error: no idea\nand more' >&2; exit 3`, agents.Failed, "exit status 3: "},
		{"fails before it says anything", `echo "Error: no key" >&2; exit 3`, agents.Unanswered, "no key"},
		{"cannot reach its model", `echo "connect: connection refused" >&2; exit 1`, agents.BackendDown, "refused"},
		{"leaves a result", `echo '{"outcome":"limited","reason":"quota","retry_at":"2030-01-01T00:00:00Z",` +
			`"usage":{"input_tokens":70,"cost_usd":0.25}}' > "$DISINTO_RESULT"; exit 1`, agents.Limited, "quota"},
		{
			"leaves a usage", `echo '{"usage":{"input_tokens":70,"cost_usd":0.25}}' > "$DISINTO_RESULT"; echo x > f`,
			agents.Done, "opened #12",
		},
	} {
		b.own(agents.PromptStdin, tt.script)
		out := b.want(tt.result, tt.reason, "dev-qwen", agents.KindIssue, 8, "", "DISINTO_BACKEND=anthropic")
		if strings.HasPrefix(tt.name, "leaves") &&
			out.Usage != (agents.Usage{InputTokens: 70, CostUSD: 0.25, CacheUntold: true}) {
			t.Errorf("%s: got usage %+v", tt.name, out.Usage)
		}
	}
	for _, line := range []string{"Error: no idea\n", "and more\n"} {
		if log := b.log.String(); !strings.Contains(log, line) {
			t.Errorf("the log lacks a line that a program printed on stderr, %q:\n%s", line, log)
		}
	}
	all := b.read(filepath.Join(b.home("dev-qwen"), "all"))
	if strings.Count(all, "Mind: a name may contain spaces.") < 2 || !strings.Contains(all, "Make the change now") {
		t.Errorf("got the prompts\n%s", all)
	}
}
