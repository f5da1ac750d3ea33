package threads_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
)

// decode reads a factory.toml. Every variable of the environment is set.
func decode(t testing.TB, text string) *threads.Config {
	t.Helper()
	c, err := file.Decode("factory.toml", text, func(name string) (string, bool) {
		switch name {
		case "FORGE_URL":
			return "http://forgejo:3000", true
		case "FORGE_REPO":
			return "johba/harb", true
		}
		return "value-of-" + name, true
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// findings returns the problems with reviewers and the findings of Check that are more than fine, one a line.
func findings(c *threads.Config, open ...forge.Issue) (lines []string) {
	for _, p := range c.Problems() {
		if p.Reason.Code == threads.NoReviewer { // programs and tokens are assumed to exist
			lines = append(lines, "wrong "+p.String())
		}
	}
	for _, f := range c.Check(open) {
		if f.Weight != threads.Fine {
			lines = append(lines, fmt.Sprintf("%s %s: %s", []string{"fine", "hint", "wrong"}[f.Weight], f.About, f.Text))
		}
	}
	return lines
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
	want []string // as findings returns them
}{
	{
		name: "no reviewer for local work",
		edit: []string{
			`agents = ["dev-opus", "review-opus"]`, `agents = ["dev-opus"]`,
			`"gardener-qwen"]`, `"gardener-qwen", "review-qwen"]`,
		},
		mend: []string{`agents = ["dev-opus"]`, `agents = ["dev-opus", "review-opus"]`},
		want: []string{
			"wrong agents.dev-kimi: nobody may review the work of dev-kimi: add a review agent on an API thread",
			"wrong agents.dev-qwen: nobody may review the work of dev-qwen: add a review agent on an API thread",
		},
	},
	{
		name: "a review role that asks for a label",
		edit: []string{"[roles.review]\n", "[roles.review]\nlabel = \"docs\"\n"},
		mend: []string{"label = \"docs\"\n", ""},
		want: []string{
			"wrong reviewers: the work of dev-kimi, dev-opus and dev-qwen can wait for ever: no agent for review",
		},
	},
	{
		name: "another writer of the issue's label, whom only a reviewer with another label may review",
		edit: []string{
			`"dev-opus", "review-opus"`, `"dev-opus", "docs-opus"`, `"gardener-qwen"]`, `"gardener-qwen", "review-qwen"]`,
			"[agents.dev-opus]\nskills = [\"go\", \"sql\"]\n", "[agents.docs-opus]\nrole = \"docs\"\n",
			"[routes]\nsql = \"dev-opus\"\n", "[roles.docs]\non = \"review\"\nlabel = \"docs\"\ncli = \"claude\"\n",
			"[roles.dev]\n", "[roles.dev]\nlabel = \"code\"\n",
		},
		mend: []string{"label = \"docs\"\n", ""},
		want: []string{
			"wrong reviewers: the work of dev-kimi, dev-opus and dev-qwen can wait for ever: local work needs a reviewer " +
				"that is not local, review-qwen is",
		},
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
		want: []string{
			"wrong reviewers: sessions that wait for a review can take all slots and agents that review: give a " +
				"reviewer a thread of its own, or have the program end once its pull request is open",
		},
	},
	{
		name: "a route to an agent whose role asks for a label",
		edit: []string{
			"[agents.dev-opus]", "[agents.dev-opus]\nrole = \"docs\"",
			"[routes]", "[roles.docs]\non = \"issue\"\nlabel = \"docs\"\ncli = \"claude\"\n[routes]",
		},
		mend: []string{`sql = "dev-opus"`, `go = ["dev-qwen", "dev-opus"]`},
		want: []string{
			"wrong skills: an issue with skill/sql waits for ever: no agent that may take it has skill/sql",
		},
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
		want: []string{
			"wrong skills: #3 and #7 with skill/go and skill/rust can never be done: no agent that may take it " +
				"has skill/go and skill/rust",
		},
	},
	{
		name: "an issue assigned to an agent without its skill",
		mend: []string{"[agents.dev-qwen]", "[agents.dev-kimi]\nskills = [\"go\"]\n[agents.dev-qwen]"},
		open: []forge.Issue{{
			Ref: forge.Ref{Repo: "johba/harb", Number: 4}, Labels: []string{"backlog", "skill/go"},
			Assignees: []string{"dev-kimi"},
		}},
		want: []string{
			"wrong skills: #4 with skill/go, assigned to dev-kimi, can never be done: no other agent takes it",
		},
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
		want: []string{
			"hint order: threads.llama: scheduled roles can keep every slot busy, so that an issue of priority 5 " +
				"never starts: raise their every, lower their timeout, or set their priority to 5 or more",
		},
	},
	{
		name: "scheduled work that leaves exactly no time",
		edit: []string{
			`"dev-kimi", "dev-qwen", "gardener-qwen"`, `"dev-kimi", "architect-qwen", "gardener-qwen"`,
			"max_concurrent = 2", "max_concurrent = 1",
			"[agents.dev-qwen]\nskills = [\"go\"]\nescalate = [\"dev-opus\"]\n", "",
			`agents = ["dev-opus", "review-opus"]`, `agents = ["review-opus"]`,
			"[agents.dev-opus]\nskills = [\"go\", \"sql\"]", "",
			"[routes]\nsql = \"dev-opus\"\n",
			"[roles.architect]\ncli = \"claude\"\npriority = 4\ntimeout = \"1h\"\nevery = \"1h\"\n",
			"[roles.gardener]\n", "[roles.gardener]\npriority = 3\ntimeout = \"1h\"\nevery = \"1h\"\n",
		},
		mend: []string{"priority = 3\ntimeout = \"1h\"", "priority = 3\ntimeout = \"59m\""},
		want: []string{
			"hint order: threads.llama: scheduled roles can keep every slot busy, so that an issue of priority 5 " +
				"never starts: raise their every, lower their timeout, or set their priority to 5 or more",
		},
	},
	{
		name: "no limit for a night",
		edit: []string{"budget = { usd_per_day = 20.0 }\n", ""},
		mend: []string{"[threads.api]\n", "[threads.api]\nwindows = [{ length = \"5h\", usd = 10.0 }]\n"},
		want: []string{
			"hint cost: threads.api: no limit for a night, as it has neither budget nor windows: set budget = { " +
				"usd_per_day = 20.0 }",
		},
	},
	{
		name: "more slots than agents",
		edit: []string{"max_concurrent = 2", "max_concurrent = 4"},
		mend: []string{"max_concurrent = 4", "max_concurrent = 3"},
		want: []string{
			"hint slots: threads.llama: max_concurrent = 4, but at most 3 sessions can run there at once",
		},
	},
	{
		name: "two agents for one scheduled run",
		edit: []string{
			`"dev-kimi", "dev-qwen", "gardener-qwen"`, `"dev-qwen", "gardener-kimi", "gardener-qwen"`,
			"max_concurrent = 2", "max_concurrent = 3",
		},
		mend: []string{`["johba/harb"]`, `["johba/harb", "johba/other"]`},
		want: []string{
			"hint slots: threads.llama: max_concurrent = 3, but at most 2 sessions can run there at once",
		},
	},
	{
		name: "a reviewer that may review no author",
		edit: []string{
			`"dev-opus", "review-opus"`, `"review-opus"`, `"gardener-qwen"`, `"gardener-qwen", "review-qwen"`,
			"[agents.dev-opus]\nskills = [\"go\", \"sql\"]", "", "escalate = [\"dev-opus\"]", "",
			"[routes]\nsql = \"dev-opus\"\n", "",
		},
		mend: []string{`["review-opus"]`, `["dev-opus", "review-opus"]`},
		want: []string{
			"hint slots: agents.review-qwen: it may review the work of people, but of no agent",
		},
	},
	{
		name: "a reserve that keeps nothing",
		edit: []string{
			`"dev-opus", "review-opus"`, `"review-opus"`, "[agents.dev-opus]\nskills = [\"go\", \"sql\"]", "",
			"escalate = [\"dev-opus\"]", "", "[routes]\nsql = \"dev-opus\"\n", "",
			"budget = { usd_per_day = 20.0 }", "windows = [{ length = \"5h\", tokens = 1000000 }]\nreserve = 0.2",
		},
		mend: []string{"reserve = 0.2", ""},
		want: []string{
			"hint rules: threads.api.reserve can never have an effect: it holds back new issues, and no agent of " +
				"the thread takes any",
		},
	},
	{
		name: "a window that shorter ones keep empty",
		edit: []string{
			"budget = { usd_per_day = 20.0 }",
			"windows = [{ length = \"5h\", usd = 2.0 }, { length = \"24h\", usd = 30.0 }]",
		},
		mend: []string{"usd = 30.0", "usd = 6.0"},
		want: []string{
			"hint rules: threads.api.windows can never have an effect: use within 1d never reaches it, because " +
				"the shorter windows allow less",
		},
	},
	{
		name: "a hold without a reviewer",
		edit: []string{
			"max_concurrent = 2", "max_concurrent = 2\nhold = \"2m\"", `"dev-opus", "review-opus"`, `"dev-opus"`,
			"[roles.review]\ncli = \"claude\"\n", "",
		},
		mend: []string{`"dev-opus"]`, `"dev-opus", "review-opus"]`},
		want: []string{
			"hint rules: threads.llama.hold can never have an effect: it keeps a slot for an agent whose work is " +
				"under review",
		},
	},
	{
		name: "skills of a reviewer",
		edit: []string{"[roles.dev]", "[agents.review-opus]\nskills = [\"go\"]\n[roles.dev]"},
		mend: []string{"[agents.review-opus]\nskills = [\"go\"]\n", ""},
		want: []string{
			"hint rules: agents.review-opus.skills can never have an effect: only issues ask for skills, and it " +
				"takes no issues",
		},
	},
	{
		name: "a budget above that of the thread",
		edit: []string{"[roles.dev]", "[agents.review-opus]\nbudget = { usd_per_day = 30.0 }\n[roles.dev]"},
		mend: []string{"usd_per_day = 30.0", "usd_per_day = 10.0"},
		want: []string{
			"hint rules: agents.review-opus.budget can never have an effect: the thread's budget is no higher",
		},
	},
	{
		name: "a repository whose only reviewer is its author",
		edit: []string{
			`repos = ["johba/harb"]`, `repos = ["johba/harb", "johba/site"]`,
			"[routes]", "[agents.dev-kimi]\nroles = [\"dev\", \"review\"]\n[repos.\"johba/site\"]\n" +
				"agents = [\"dev-kimi\"]\nreviewers = [\"dev-kimi\"]\n[routes]",
		},
		mend: []string{`reviewers = ["dev-kimi"]`, `reviewers = ["review-opus"]`},
		want: []string{
			`wrong repos."johba/site": nobody may review the work of dev-kimi: add a review agent on an API thread`,
		},
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
		want: []string{
			"hint rules: agents.dev-qwen: its ladder never reaches dev-opus, which may take none of its issues",
		},
	},
}

// TestCheck expects the findings of each slip, and none of them after the smallest fix.
func TestCheck(t *testing.T) {
	for _, tt := range slips {
		t.Run(tt.name, func(t *testing.T) {
			text := edited(t, sound, tt.edit)
			got := findings(decode(t, text), tt.open...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, line := range findings(decode(t, edited(t, text, tt.mend)), tt.open...) {
				if slices.Contains(got, line) {
					t.Errorf("after the fix: %s", line)
				}
			}
		})
	}
}

// TestCheckFine has the lines about a sound factory, and the bounds of a night for each kind of limit.
func TestCheckFine(t *testing.T) {
	const over = " plus what running sessions use beyond that"
	tests := []struct {
		edit []string
		want string
	}{
		{nil, "threads.api $40.00 (budget of two days)" + over},
		{
			[]string{"[roles.dev]", "[roles.dev]\nmax_usd = 2.0", "[roles.review]", "[roles.review]\nmax_usd = 1.5"},
			"threads.api $40.00 (budget of two days) plus at most $8.00 by running sessions",
		},
		{
			[]string{
				"budget = { usd_per_day = 20.0 }",
				"windows = [{ length = \"5h\", usd = 4.0 }, { length = \"7d\", usd = 90.0 }]",
			},
			"threads.api $12.00 (3 windows of 5h)" + over,
		},
		{
			[]string{"budget = { usd_per_day = 20.0 }", "budget = { tokens_per_day = 1000000 }"},
			"threads.api 2000000 tokens (budget of two days)" + over,
		},
		{
			[]string{
				"budget = { usd_per_day = 20.0 }", "", "[agents.dev-opus]",
				"[agents.review-opus]\nbudget = { usd_per_day = 3.0 }\n" +
					"[agents.dev-opus]\nbudget = { usd_per_day = 5.0 }",
			},
			"threads.api $16.00 (budgets of its agents for two days)" + over,
		},
	}
	for _, tt := range tests {
		want := []threads.Finding{
			{About: "reviewers", Text: "every author's work has a reviewer, also after other agents continued it"},
			{About: "skills", Text: "every label and skill in use can be worked on"},
			{About: "cost", Text: "a night of 12 hours uses at most: " + tt.want},
		}
		if diff := cmp.Diff(want, decode(t, edited(t, sound, tt.edit)).Check(nil)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for want, edit := range map[string][]string{
		"a night costs no money: all threads are local": {
			"[threads.api]\nbackend = \"api\"",
			"[threads.api]\nbackend = \"local\"",
		},
		"a night of 12 hours uses at most $42.00: threads.api $40.00 (budget of two days)" + over +
			"; threads.llama $2.00 (budget of two days)" + over: {
			"[threads.llama]\nbackend = \"local\"",
			"[threads.llama]\nbackend = \"api\"\nbudget = { usd_per_day = 1.0 }",
		},
	} {
		found := decode(t, edited(t, sound, edit)).Check(nil)
		if !slices.ContainsFunc(found, func(f threads.Finding) bool { return f.Text == want }) {
			t.Errorf("got %v, want %q", found, want)
		}
	}
}

// TestCheckLabels checks many issues whose labels no agent takes: the first issues are named, the first sets of labels
// have a finding of their own, and an issue without the label that every role asks for is no mistake.
func TestCheckLabels(t *testing.T) {
	issues := func(n int, labels func(i int) []string) (list []forge.Issue) {
		for i := range n {
			ref := forge.Ref{Repo: "johba/harb", Number: int64(i + 1)}
			list = append(list, forge.Issue{Ref: ref, Labels: append([]string{"backlog"}, labels(i)...)})
		}
		return list
	}
	many := issues(1000, func(i int) []string { return []string{fmt.Sprintf("skill/x%d", i)} })
	got := findings(decode(t, sound), many...)
	if len(got) != 11 || !strings.Contains(got[10], "more sets of labels") {
		t.Errorf("got %q, want ten findings and a summary", got)
	}
	alike := issues(50, func(int) []string { return []string{"skill/cobol"} })
	want := []string{"wrong skills: #1, #2, #3 and 47 more with skill/cobol can never be done: no agent that may take " +
		"it has skill/cobol"}
	if diff := cmp.Diff(want, findings(decode(t, sound), alike...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	picked := issues(3, func(i int) []string { return [][]string{nil, {"picked"}, {"picked", "skill/cobol"}}[i] })
	want = []string{
		"hint skills: #1: every role for issues requires a label",
		"wrong skills: #3 with picked and skill/cobol can never be done: no agent that may take it has skill/cobol",
	}
	text := edited(t, sound, []string{"[roles.dev]", "[roles.dev]\nlabel = \"picked\""})
	if diff := cmp.Diff(want, findings(decode(t, text), picked...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
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

// TestDocumented checks every configuration of the documentation: none may have a problem or a hint, except that a
// night has no limit.
func TestDocumented(t *testing.T) {
	for name, text := range documented(t) {
		t.Run(name, func(t *testing.T) {
			for _, line := range findings(decode(t, text)) {
				if !strings.HasPrefix(line, "hint cost: ") {
					t.Error(line)
				}
			}
		})
	}
}

// documented returns the factory.toml of the tree that have threads, and those in the pages.
func documented(t *testing.T) map[string]string {
	const root = "../"
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
			if strings.HasPrefix(text, "[") && strings.Contains(text, "[threads.") &&
				strings.Contains(text, "backend = ") {
				configs[fmt.Sprintf("%s %d", filepath.Base(page), i)] = text
			}
		}
	}
	if len(configs) < 10 {
		t.Fatalf("got %d configurations, want at least 10", len(configs))
	}
	return configs
}
