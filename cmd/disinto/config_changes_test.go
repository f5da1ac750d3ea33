package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A reload logs each changed key, and no secret: not one that stands in the file, nor one in the secrets file, nor one
// inside of another value.
func TestChangesOf(t *testing.T) {
	const before = `
[forge]
url = "http://forge"
token = "literal-old"
webhook_secret = "$HOOK"
[factory]
listen_token = "$OLD"
[threads.a]
max_concurrent = 1
agents = ["dev-a"]
env = { ANTHROPIC_API_KEY = "short", MODE = "quiet" }
budget = { tokens_per_day = 5 }
[notify]
urls = ["ntfy://:tk@host/topic"]
[roles.dev]
command = ["x", "--key", "a-literal-key"]
`
	after := strings.NewReplacer("literal-old", "literal-new", `"$OLD"`, `"$NEW"`,
		"max_concurrent = 1", "max_concurrent = 2",
		`"short"`, `"other"`, "= 5", "= 6", `["dev-a"]`, `["dev-a", "dev-b"]`, ":tk@", ":tk2@",
		"a-literal-key", "a-literal-lock",
		`webhook_secret = "$HOOK"`, "").Replace(before) + "timeout = \"1h\"\n"
	got := changesOf(bothTexts(before, "OLD=one\nSAME=s\nHOOK=three\n"), bothTexts(after, "OLD=two\nSAME=s\nNEW=four\n"),
		[]string{"a-literal-key", "a-literal-lock"})
	want := []string{
		`factory.listen_token is "$NEW", it was "$OLD"`,
		`forge.token has changed`,
		`forge.webhook_secret is gone, it was "$HOOK"`,
		`notify.urls has changed`,
		`roles.dev.command has changed`,
		`roles.dev.timeout is new: "1h"`,
		`threads.a.agents is ["dev-a", "dev-b"], it was ["dev-a"]`,
		`threads.a.budget.tokens_per_day is 6, it was 5`,
		`threads.a.env.ANTHROPIC_API_KEY has changed`,
		`threads.a.max_concurrent is 2, it was 1`,
		`the secrets file: HOOK is gone, it was [secret]`,
		`the secrets file: NEW is new: [secret]`,
		`the secrets file: OLD has changed`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := changesOf(bothTexts(before, ""), bothTexts("# a comment\n"+before, "# one\n"), nil); len(got) != 0 {
		t.Errorf("only comments: got %q", got)
	}
	many := "[a]\nx = 1\n"
	for i := range 60 {
		many += "k" + itoa(i) + " = 1\n"
	}
	got = changesOf(bothTexts("", ""), bothTexts(many, ""), nil)
	if len(got) != mostChanges+1 || got[mostChanges] != "and 11 more" {
		t.Errorf("61 keys: got %d lines, the last is %q", len(got), got[len(got)-1])
	}
}
