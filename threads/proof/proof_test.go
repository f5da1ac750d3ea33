package proof

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
)

var update = flag.Bool("update", false, "rewrite the golden files; read the diff before you commit it")

// decode reads a factory.toml. Every variable of the environment is set.
func decode(t testing.TB, text string) *threads.Config {
	t.Helper()
	c, err := try(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func try(text string) (*threads.Config, error) {
	return file.Decode("factory.toml", text, func(name string) (string, bool) {
		switch name {
		case "FORGE_URL":
			return "http://forgejo:3000", true
		case "FORGE_REPO":
			return "johba/harb", true
		}
		return "value-of-" + name, true
	})
}

// told formats findings for golden files.
func told(found []Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s %s: %s\n", []string{"ok", "hint", "wrong"}[f.Weight], f.Claim, f.Text)
		for _, line := range f.Story {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	return b.String()
}

// sound is a factory without a hint or a problem.
const sound = `
[forge]
url = "http://forgejo:3000"
token = "t"
repos = ["johba/harb"]

[threads.api]
backend = "api"
agents = ["dev-opus", "review-opus"]
budget = { usd_per_day = 20.0 }

[threads.llama]
backend = "local"
max_concurrent = 2
agents = ["dev-kimi", "dev-qwen", "gardener-qwen"]

[agents.dev-opus]
skills = ["go", "sql"]

[agents.dev-qwen]
skills = ["go"]
escalate = ["dev-opus"]

[roles.dev]
cli = "claude"
[roles.review]
cli = "claude"
[roles.gardener]
cli = "claude"

[routes]
sql = "dev-opus"
`

// slips are factories with a hint or a problem: sound with an edit, and the smallest change that fixes it.
var slips = []struct {
	name string
	text string   // empty: sound
	edit []string // old, new
	mend []string // old, new; of the edited text
	open []forge.Issue
	want string // claim of the first finding
}{
	{
		name: "no reviewer for local work",
		edit: []string{
			`agents = ["dev-opus", "review-opus"]`, `agents = ["dev-opus"]`,
			`"gardener-qwen"]`, `"gardener-qwen", "review-qwen"]`,
		},
		mend: []string{`agents = ["dev-opus"]`, `agents = ["dev-opus", "review-opus"]`},
		want: "reviewers",
	},
	{
		name: "a review role that asks for a label",
		edit: []string{"[roles.review]\n", "[roles.review]\nlabel = \"docs\"\n"},
		mend: []string{"label = \"docs\"\n", ""},
		want: "reviewers",
	},
	{
		name: "reviewers in slots that wait for them",
		edit: []string{
			"[roles.dev]\ncli = \"claude\"", "[roles.dev]\ncommand = [\"dev\"]\nwaits_for_review = true",
			`agents = ["dev-kimi", "dev-qwen", "gardener-qwen"]`, `agents = ["dev-kimi", "review-qwen", "gardener-qwen"]`,
			"max_concurrent = 2", "max_concurrent = 1", `"review-opus"]`, "\"review-opus\"]\nmax_sessions = 1",
			"[agents.dev-qwen]\nskills = [\"go\"]\nescalate = [\"dev-opus\"]\n", "",
		},
		mend: []string{"max_sessions = 1", "max_sessions = 2"},
		want: "reviewers",
	},
	{
		name: "a route to an agent whose role asks for a label",
		edit: []string{
			"[agents.dev-opus]", "[agents.dev-opus]\nrole = \"docs\"",
			"[routes]", "[roles.docs]\non = \"issue\"\nlabel = \"docs\"\ncli = \"claude\"\n[routes]",
		},
		mend: []string{`sql = "dev-opus"`, `go = ["dev-qwen", "dev-opus"]`},
		want: "skills",
	},
	{
		name: "issues that no agent has the skill for",
		mend: []string{`skills = ["go"]`, `skills = ["go", "rust"]`},
		open: []forge.Issue{
			{Ref: forge.Ref{Repo: "johba/harb", Number: 3}, Labels: []string{"backlog", "priority/2", "skill/go", "skill/rust"}},
			{Ref: forge.Ref{Repo: "johba/harb", Number: 7}, Labels: []string{"backlog", "skill/go", "skill/rust"}},
			{Ref: forge.Ref{Repo: "johba/harb", Number: 8}, Labels: []string{"backlog", "blocked", "skill/cobol"}},
			{Ref: forge.Ref{Repo: "johba/harb", Number: 9}, Labels: []string{"skill/cobol"}},
			{
				Ref: forge.Ref{Repo: "johba/harb", Number: 10}, Labels: []string{"backlog", "skill/lisp"},
				Assignees: []string{"ada"},
			},
		},
		want: "skills",
	},
	{
		name: "an issue assigned to an agent without its skill",
		mend: []string{"[agents.dev-qwen]", "[agents.dev-kimi]\nskills = [\"go\"]\n[agents.dev-qwen]"},
		open: []forge.Issue{{
			Ref: forge.Ref{Repo: "johba/harb", Number: 4}, Labels: []string{"backlog", "skill/go"},
			Assignees: []string{"dev-kimi"},
		}},
		want: "skills",
	},
	{
		name: "scheduled work that leaves no time",
		edit: []string{
			`"dev-kimi", "dev-qwen", "gardener-qwen"`, `"dev-kimi", "architect-qwen", "gardener-qwen"`,
			"max_concurrent = 2", "max_concurrent = 1",
			"[agents.dev-qwen]\nskills = [\"go\"]\nescalate = [\"dev-opus\"]\n", "",
			`agents = ["dev-opus", "review-opus"]`, `agents = ["review-opus"]`,
			"[agents.dev-opus]\nskills = [\"go\", \"sql\"]", "",
			"[routes]\nsql = \"dev-opus\"\n", "[roles.architect]\ncli = \"claude\"\npriority = 4\n",
			"[roles.gardener]\n", "[roles.gardener]\npriority = 3\n",
		},
		mend: []string{"priority = 3", "priority = 5"},
		want: "order",
	},
	{
		name: "no limit for a night",
		edit: []string{"budget = { usd_per_day = 20.0 }\n", ""},
		mend: []string{"[threads.api]\n", "[threads.api]\nwindows = [{ length = \"5h\", usd = 10.0 }]\n"},
		want: "cost",
	},
	{
		name: "more slots than agents",
		edit: []string{"max_concurrent = 2", "max_concurrent = 4"},
		mend: []string{"max_concurrent = 4", "max_concurrent = 3"},
		want: "slots",
	},
	{
		name: "two agents for one scheduled run",
		edit: []string{
			`"dev-kimi", "dev-qwen", "gardener-qwen"`, `"dev-qwen", "gardener-kimi", "gardener-qwen"`,
			"max_concurrent = 2", "max_concurrent = 3",
		},
		mend: []string{`["johba/harb"]`, `["johba/harb", "johba/other"]`},
		want: "slots",
	},
	{
		name: "a reviewer that may review no author",
		edit: []string{
			`"dev-opus", "review-opus"`, `"review-opus"`, `"gardener-qwen"`, `"gardener-qwen", "review-qwen"`,
			"[agents.dev-opus]\nskills = [\"go\", \"sql\"]", "", "escalate = [\"dev-opus\"]", "",
			"[routes]\nsql = \"dev-opus\"\n", "",
		},
		mend: []string{`["review-opus"]`, `["dev-opus", "review-opus"]`},
		want: "slots",
	},
	{
		name: "a reserve that keeps nothing",
		edit: []string{
			`"dev-opus", "review-opus"`, `"review-opus"`, "[agents.dev-opus]\nskills = [\"go\", \"sql\"]", "",
			"escalate = [\"dev-opus\"]", "", "[routes]\nsql = \"dev-opus\"\n", "",
			"budget = { usd_per_day = 20.0 }", "windows = [{ length = \"5h\", tokens = 1000000 }]\nreserve = 0.2",
		},
		mend: []string{"reserve = 0.2", ""},
		want: "rules",
	},
	{
		name: "a window that shorter ones keep empty",
		edit: []string{
			"budget = { usd_per_day = 20.0 }",
			"windows = [{ length = \"5h\", usd = 2.0 }, { length = \"24h\", usd = 30.0 }]",
		},
		mend: []string{"usd = 30.0", "usd = 6.0"},
		want: "rules",
	},
	{
		name: "a hold without a reviewer",
		edit: []string{
			"max_concurrent = 2", "max_concurrent = 2\nhold = \"2m\"", `"dev-opus", "review-opus"`, `"dev-opus"`,
			"[roles.review]\ncli = \"claude\"\n", "",
		},
		mend: []string{`"dev-opus"]`, `"dev-opus", "review-opus"]`},
		want: "rules",
	},
	{
		name: "an affinity_wait for the only agent",
		edit: []string{
			"max_concurrent = 2", "max_concurrent = 2\naffinity_wait = \"2m\"", `"dev-kimi", "dev-qwen"`, `"dev-qwen"`,
			`"dev-opus", "review-opus"`, `"review-opus"`, "[agents.dev-opus]\nskills = [\"go\", \"sql\"]", "",
			"escalate = [\"dev-opus\"]", "", "[routes]\nsql = \"dev-opus\"\n", "",
		},
		mend: []string{`"dev-qwen",`, `"dev-qwen", "dev-kimi",`},
		want: "rules",
	},
	{
		name: "skills of a reviewer",
		edit: []string{"[roles.dev]", "[agents.review-opus]\nskills = [\"go\"]\n[roles.dev]"},
		mend: []string{"[agents.review-opus]\nskills = [\"go\"]\n", ""},
		want: "rules",
	},
	{
		name: "a budget above that of the thread",
		edit: []string{"[roles.dev]", "[agents.review-opus]\nbudget = { usd_per_day = 30.0 }\n[roles.dev]"},
		mend: []string{"usd_per_day = 30.0", "usd_per_day = 10.0"},
		want: "rules",
	},
	{
		name: "a rung whose role asks for a label",
		edit: []string{
			"[agents.dev-opus]\nskills = [\"go\", \"sql\"]", "[agents.dev-opus]\nrole = \"docs\"",
			"[routes]\nsql = \"dev-opus\"\n", "[roles.docs]\non = \"issue\"\nlabel = \"docs\"\ncli = \"claude\"\n",
			"escalate = [\"dev-opus\"]", "role = \"code\"\nescalate = [\"dev-opus\"]",
			"[roles.review]", "[roles.code]\non = \"issue\"\nlabel = \"code\"\ncli = \"claude\"\n[roles.review]",
		},
		mend: []string{"label = \"code\"\n", ""},
		want: "rules",
	},
	{
		name: "a ladder that people come before",
		edit: []string{"escalate = [\"dev-opus\"]", "escalate = [\"dev-opus\"]\nescalate_after = 40"},
		mend: []string{"escalate_after = 40", "escalate_after = 4"},
		want: "rules",
	},
}

// TestProve expects the shortest story of each slip, and no finding of it after the smallest fix.
func TestProve(t *testing.T) {
	for _, tt := range slips {
		t.Run(tt.name, func(t *testing.T) {
			text := edited(t, sound, tt.edit)
			about := func(text string) (slips []Finding) {
				for _, f := range Prove(decode(t, text), tt.open) {
					if f.Weight != Proven {
						slips = append(slips, f)
					}
				}
				return slips
			}
			found := about(text)
			if len(found) == 0 || found[0].Claim != tt.want {
				t.Errorf("got %q, want a finding about %s first", told(found), tt.want)
			}
			golden(t, strings.ReplaceAll(tt.name, " ", "-")+".txt", told(found))
			rest := about(edited(t, text, tt.mend))
			for _, f := range rest {
				for _, was := range found {
					if f.Claim == was.Claim && f.Text == was.Text {
						t.Errorf("after the fix: got %s, want the finding gone", told(rest))
					}
				}
			}
		})
	}
}

// TestSound proves the sound factory, and checks the bounds of a night for each kind of limit.
func TestSound(t *testing.T) {
	golden(t, "sound.txt", told(Prove(decode(t, sound), nil)))
	var b strings.Builder
	for _, edit := range [][]string{
		{"[roles.dev]", "[roles.dev]\nmax_usd = 2.0", "[roles.review]", "[roles.review]\nmax_usd = 1.5"},
		{"budget = { usd_per_day = 20.0 }", "windows = [{ length = \"5h\", usd = 4.0 }, { length = \"7d\", usd = 90.0 }]"},
		{"budget = { usd_per_day = 20.0 }", "budget = { tokens_per_day = 1000000 }"},
		{
			"budget = { usd_per_day = 20.0 }", "", "[agents.dev-opus]",
			"[agents.review-opus]\nbudget = { usd_per_day = 3.0 }\n" +
				"[agents.dev-opus]\nbudget = { usd_per_day = 5.0 }",
		},
		{"[threads.llama]\nbackend = \"local\"", "[threads.llama]\nbackend = \"api\"\nbudget = { usd_per_day = 1.0 }"},
		{"[threads.api]\nbackend = \"api\"", "[threads.api]\nbackend = \"local\""},
	} {
		for _, f := range Prove(decode(t, edited(t, sound, edit)), nil) {
			if f.Claim == "cost" {
				b.WriteString(told([]Finding{f}))
			}
		}
	}
	golden(t, "cost.txt", b.String())
}

func edited(t *testing.T, text string, edits []string) string {
	t.Helper()
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("the text to edit lacks %q", edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	return text
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("run with -update if this is right (-want +got):\n%s", diff)
	}
}

// TestDocumented proves every configuration of the documentation: none may have a problem or a hint, except that a
// night has no limit.
func TestDocumented(t *testing.T) {
	for name, text := range documented(t) {
		t.Run(name, func(t *testing.T) {
			for _, f := range Prove(decode(t, text), nil) {
				if f.Weight != Proven && f.Claim != "cost" {
					t.Error(told([]Finding{f}))
				}
			}
		})
	}
}

// documented returns the factory.toml of the tree that have threads, and those in the pages.
func documented(t *testing.T) map[string]string {
	const root = "../../"
	configs := make(map[string]string)
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, name := range []string{
		"factory.toml.example", "docker/factory.toml",
		"threads/file/testdata/decode/seed.toml",
	} {
		configs[name] = read(root + name)
	}
	glob := func(pattern string) []string {
		paths, err := filepath.Glob(root + pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		return paths
	}
	for _, made := range glob("agents/upstream/testdata/*.toml") { // generated from upstream's projects
		configs[filepath.Base(made)] = read(made)
	}
	pages := glob("docs/*.md")
	blocks := regexp.MustCompile("(?ms)^```toml\n(.*?)^```|((?:^    [^\n]*\n\n?)+)")
	for _, page := range append(pages, root+"README.md") {
		for i, m := range blocks.FindAllStringSubmatch(read(page), -1) {
			text := regexp.MustCompile("(?m)^    ").ReplaceAllString(m[1]+m[2], "")
			if strings.HasPrefix(text, "[") && strings.Contains(text, "[threads.") && strings.Contains(text, "backend = ") {
				configs[fmt.Sprintf("%s %d", filepath.Base(page), i)] = text
			}
		}
	}
	if len(configs) < 10 {
		t.Fatalf("got %d configurations, want at least 10", len(configs))
	}
	return configs
}
