package threads_test

import (
	"strings"
	"testing"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"

	"github.com/google/go-cmp/cmp"
)

func init() { threads.Decode = file.Decode }

func TestProblems(t *testing.T) {
	const programs = "[roles.dev]\ncommand = [\"x\"]\n[roles.review]\ncommand = [\"x\"]\n"
	env := map[string]string{
		"FORGE_URL": "http://f", "FORGE_REPO": "a/b", "FORGE_TOKEN": "s", "FORGE_TOKEN_DEV_X": "d",
		"FORGE_TOKEN_REVIEW_X": "r",
	}
	tests := []struct {
		name, text string
		want       []string
	}{
		{
			name: "none",
			text: "[threads.a]\nbackend = \"local\"\nagents = [\"dev-x\"]\n[threads.b]\nbackend = \"anthropic\"\n" +
				"agents = [\"review-x\"]\n" + programs,
		},
		{
			name: "people review",
			text: "[threads.a]\nbackend = \"local\"\nagents = [\"dev-x\"]\n" + programs,
		},
		{
			name: "local on local",
			text: "[threads.a]\nbackend = \"local\"\nagents = [\"dev-x\", \"review-x\"]\n" + programs,
			want: []string{"agents.dev-x: nobody may review the work of dev-x: add a review agent on an API thread"},
		},
		{
			name: "own work only",
			text: "[threads.a]\nbackend = \"anthropic\"\nagents = [\"dev-x\"]\n[agents.dev-x]\nroles = [\"dev\", \"review\"]\n" +
				programs,
			want: []string{"agents.dev-x: nobody may review the work of dev-x: add a review agent on an API thread"},
		},
		{
			name: "no token, no program",
			text: "[threads.a]\nbackend = \"local\"\nagents = [\"dev-y\"]\n",
			want: []string{
				"agents.dev-y: dev-y has no forge token: set $FORGE_TOKEN_DEV_Y",
				"roles.dev: role dev has no program: set `cli` or `command` in the role's table",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := file.Decode("factory.toml", tt.text, func(name string) (string, bool) {
				value, ok := env[name]
				return value, ok
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range c.Problems() {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A reviewer of the same thread that may not review the author is no reason to refuse the thread: the author has no
// reviewer at all, and the remedy is another one.
func TestDeadlockedNeedsAReviewer(t *testing.T) {
	c := decode(t, `
[forge]
url = "http://forgejo:3000"
token = "t"
repos = ["johba/harb"]
[threads.llama]
backend = "local"
agents = ["dev-kimi", "review-qwen"]
[roles.dev]
command = ["dev"]
waits_for_review = true
[roles.review]
cli = "claude"
`)
	if list := c.Deadlocked(c.Thread("llama")); list != nil {
		t.Errorf("Deadlocked returned %q", list)
	}
	if found := findings(c); !strings.Contains(found[0], "nobody may review the work of dev-kimi") {
		t.Errorf("got findings %q", found)
	}
}
