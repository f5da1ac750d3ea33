package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/plan"
)

const inTOML = `
title = "Take orders by mail"
body = "By autumn."

[[task]]
id = "parse"
title = "Read an order from a mail"
skills = ["go"]
labels = ["area/mail"]
body = "A mail.\n\n\u0060\u0060\u0060\n## no task\n\u0060\u0060\u0060"

[[task]]
title = "Answer with a price"
priority = 2
depends_on = ["parse", "#12"]
repo = "johba/other"
`

const inMarkdown = `
# Take orders by mail

By autumn.

## Read an order from a mail {#parse}
Skills: go
- Labels: area/mail

A mail.

` + "```\n## no task\n```" + `

## Answer with a price
Priority: 2
Depends on: parse, #12
Repo: johba/other
`

// The TOML form and the Markdown form of a plan give the same Plan.
func TestParse(t *testing.T) {
	want := plan.Plan{
		Title: "Take orders by mail", Body: "By autumn.",
		Tasks: []plan.Task{
			{
				ID: "parse", Title: "Read an order from a mail", Skills: []string{"go"}, Labels: []string{"area/mail"},
				Body: "A mail.\n\n```\n## no task\n```",
			},
			{Title: "Answer with a price", Priority: 2, After: []string{"parse", "#12"}, Repo: "johba/other"},
		},
	}
	for name, text := range map[string]string{"a.toml": inTOML, "a.md": inMarkdown, "A.Markdown": inMarkdown} {
		got, err := plan.Parse(name, text)
		if err != nil {
			t.Errorf("Parse of %s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(plan.Task{})); diff != "" {
			t.Errorf("Parse of %s: -want +got\n%s", name, diff)
		}
	}
	if got := strings.Join(want.Tasks[0].AllLabels(), " "); got != "area/mail skill/go" {
		t.Errorf("got labels %q, want area/mail and skill/go", got)
	}
	tasks, issues := want.Needs(1, "johba/other")
	if got := fmt.Sprint(tasks, issues); got != "[0] [johba/other#12]" {
		t.Errorf("task 1 needs %s, want task 0 and johba/other#12", got)
	}
}

func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a.txt", "", "cannot read a.txt as a plan: its name must end in .toml or .md"},
		{"a.md", "", "a.md: the plan has no title\na.md: the plan has no tasks"},
		{"a.md", "# T\n## \n", "a.md:2: task 1 has no title"},
		{"a.md", "# T\n## a {#x}\nDepends on: x\n", "a.md:2: task x depends on itself"},
		{"a.md", "# T\n## a\nDepends on: 2\n## b\nDepends on: 1\n", "a.md:2: the tasks wait for each other: 1 -> 2 -> 1"},
		{
			"a.md", "# T\n## free\n## a {#a}\nDepends on: c\n## b {#b}\nDepends on: a\n## c {#c}\nDepends on: b, 1\n## after\n" +
				"Depends on: a\n",
			"a.md:3: the tasks wait for each other: a -> c -> b -> a",
		},
		{"a.md", "# T\n## a\nDepends on: d\n", `a.md:2: task 1 depends on "d", which is not a task: write #N for an issue`},
		{
			"a.md", "# T\n## a\nDepends on: #x\n",
			`a.md:2: task 1: cannot read "#x" as an issue: write 12, #12 or owner/name#12`,
		},
		{"a.md", "# T\n## a {#x}\n## b {#x}\n", "a.md:2: another task also has the id x"},
		{"a.md", "# T\n## a {#x y}\n", `a.md:2: "x y" is not an id: want letters and digits, with - _ . between them`},
		{
			"a.md", "# T\n## a {#" + strings.Repeat("x", 64) + "}\n## b {#" + strings.Repeat("x", 65) + "}\n",
			`a.md:3: "` + strings.Repeat("x", 65) + `" is not an id: want letters and digits, with - _ . between them`,
		},
		{"a.md", "# T\n## a\nPriority: high\n", "a.md:2: priority is -1, want 1 (first) to 10 (last)"},
		{
			"a.md", "# T\n## a\nLabels: staged, in-progress\n",
			"a.md:2: the label in-progress keeps an issue from being worked on\n" +
				"a.md:2: the label staged keeps an issue from being worked on",
		},
		{
			"a.md", "# T\nRepo: x\n## a\nRepo: y z\n",
			"a.md: \"x\" is not a repository: write owner/name\na.md:3: \"y z\" is not a repository: write owner/name",
		},
		{"a.toml", "title = 'T'\n[[task]]\ntitle = 'a'\ndepend_on = ['1']\n", "a.toml: unknown key task.depend_on"},
		{"a.toml", "title = \n", "a.toml:1: expected value but found '\\n' instead"},
		{"a.toml", "title = 'T'\n\n[[task]]\nid = 'a'\n", "a.toml:3: task a has no title"},
		{
			"a.md", "# T\n" + strings.Repeat("## a\n", plan.MostTasks+1),
			"a.md: the plan has 201 tasks, more than 200: make several convoys",
		},
		{"a.md", "# T\n## " + strings.Repeat("a", 300), "a.md:2: the title has 300 bytes, more than 255"},
	} {
		if _, err := plan.Parse(tt.name, tt.text); err == nil || err.Error() != tt.want {
			t.Errorf("Parse of %s %q:\ngot error:\n%v\nwant:\n%s", tt.name, tt.text, err, tt.want)
		}
	}
}

// A plan that Parse accepts can be filed: Order has every task once, each after those it depends on. No text makes
// Parse panic.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		inTOML, inMarkdown, "# T\n## a\nDepends on: 2\n## b\n",
		"# T\n## a {#2}\n## b\nDepends on: 2\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"a.md", "a.toml"} {
			p, err := plan.Parse(name, text)
			if err != nil {
				continue
			}
			order := p.Order()
			if len(order) != len(p.Tasks) || len(order) == 0 {
				t.Fatalf("Order returned %v, want each of %d tasks", order, len(p.Tasks))
			}
			for n, i := range order {
				tasks, issues := p.Needs(i, "a/b")
				if len(tasks)+len(issues) != len(p.Tasks[i].After) {
					t.Errorf("task %d depends on %q, but Needs returned tasks %v, issues %v", i, p.Tasks[i].After, tasks, issues)
				}
				for _, need := range tasks {
					if !slices.Contains(order[:n], need) {
						t.Errorf("task %d comes before %d, which it needs", i, need)
					}
				}
				if forge.SkipLabel(p.Tasks[i].AllLabels()) != "" {
					t.Errorf("a label keeps task %d from being worked on: %q", i, p.Tasks[i].AllLabels())
				}
			}
			if err := p.Check(); err != nil {
				t.Errorf("Check refuses a plan that Parse accepted: %v", err)
			}
		}
	})
}

// The limits of a split beside those of every plan; simtest has what becomes of each mistake.
func TestParseSplit(t *testing.T) {
	of := forge.Ref{Repo: "johba/harb", Number: 7}
	p, err := plan.ParseSplit("## A {#a}\n\n## B {#b}\nDepends on: a, #12\nRepo: Johba/Harb\n\n## C\nDepends on: a\n", of)
	if err != nil || len(p.Tasks) != 3 || p.LongestChain() != 2 {
		t.Errorf("got %+v, longest chain %d, %v", p, p.LongestChain(), err)
	}
	_, err = plan.ParseSplit("## A\nLabels: backlog, x\nDepends on: johba/harb#7\nRepo: o/r\n", of)
	if err == nil {
		t.Fatal("a plan with four mistakes was accepted")
	}
	want := "split.md:1: the label backlog is neither a skill nor a priority; split.md:1: the task is for another " +
		"repository, o/r; split.md:1: the task depends on #7, which waits for it"
	if got := plan.Lines(err); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	_, err = plan.ParseSplit(strings.Repeat("## A\nLabels: x\n", 5), of)
	if !strings.HasSuffix(plan.Lines(err), "; and 2 more") {
		t.Errorf("got %s", plan.Lines(err))
	}
}
