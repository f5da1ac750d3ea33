package main

import (
	"bytes"
	"strings"
	"testing"
)

// A plan can come from stdin, in either format, because a person's file does not exist inside a container.
func TestPlanFromStdin(t *testing.T) {
	for text, want := range map[string]string{
		"# Sell by mail\n\n## Read an order\n": `POST /v1/convoy application/json ` +
			`{"plan":{"title":"Sell by mail",`,
		"title = \"Sell by mail\"\n[[task]]\ntitle = \"Read an order\"": `POST /v1/convoy application/json ` +
			`{"plan":{"title":"Sell by mail",`,
		"": "stdin.md: the plan has no",
		"# T\n## a\nDepends on: 2\n## b\nDepends on: 1\n":        "stdin.md:2: the tasks wait for each other",
		"[[task]]\ntitle = 1\n":                                  "stdin.toml",
		"# T\n\n## a\n" + strings.Repeat("word ", longestPlan/5): "cannot read the plan from stdin: it is longer than 8 MiB",
	} {
		state, told := obedient(t, 200, `{"subject":"a/b#20"}`)
		var stderr bytes.Buffer
		c := testCLI(nil)
		c.stdin, c.stderr = strings.NewReader(text), &stderr
		code := c.run(t.Context(), []string{"convoy", "create", "-", "--state", state})
		said := stderr.String()
		if strings.HasPrefix(want, "POST") {
			said = told()
		}
		if (code == exitDone) != strings.HasPrefix(want, "POST") || !strings.Contains(said, want) ||
			code == exitDone && !strings.Contains(said, `"title":"Read an order"`) {
			t.Errorf("%.40q: got exit code %d, %.300s, want %s", text, code, said, want)
		}
	}
}

// --chart - prints only the picture.
func TestChartOnStdout(t *testing.T) {
	files := map[string]string{"factory.toml": "[threads.llama]\nbackend = \"local\"\nagents = [\"dev-qwen\"]\n"}
	text, complaint, code := simulate(t, files, "--days", "1", "--policy", policyNames()[0], "--chart", "-")
	if code != exitDone || complaint != "" || !strings.HasPrefix(text, "<svg") ||
		!strings.HasSuffix(strings.TrimSpace(text), "</svg>") {
		t.Errorf("got exit code %d, stderr %q, stdout %.80q", code, complaint, text)
	}
}
