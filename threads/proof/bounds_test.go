package proof

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// TestManyLabels gives Prove a thousand issues with different skills that no agent has. Only the first sets of labels
// are reported one by one.
func TestManyLabels(t *testing.T) {
	var open []forge.Issue
	for i := range 1000 {
		open = append(open, forge.Issue{
			Ref: forge.Ref{Repo: "johba/harb", Number: int64(i + 1)}, Labels: []string{"backlog", fmt.Sprintf("skill/x%d", i)},
		})
	}
	var told []Finding
	for _, f := range Prove(decode(t, sound), open) {
		if f.Claim == "skills" {
			told = append(told, f)
		}
	}
	if len(told) != mostTold+1 || !strings.Contains(told[mostTold].Text, "more sets of labels") {
		t.Errorf("got %d findings of skills, want %d and a summary", len(told), mostTold)
	}
}

// TestManySlots proves a thread with the largest max_concurrent that a file may have.
func TestManySlots(t *testing.T) {
	text := edited(t, sound, []string{"max_concurrent = 2", "max_concurrent = 1000"})
	const want = "threads.llama: max_concurrent = 1000, but at most 3 sessions can run there at once"
	found := told(Prove(decode(t, text), nil))
	if !strings.Contains(found, want) {
		t.Errorf("want %q in\n%s", want, found)
	}
}

// TestOneIssueOfMany expects only the first issues of a large set by number.
func TestOneIssueOfMany(t *testing.T) {
	var open []forge.Issue
	for i := range 50 {
		open = append(open, forge.Issue{
			Ref: forge.Ref{Repo: "johba/harb", Number: int64(i + 1)}, Labels: []string{"backlog", "skill/cobol"},
		})
	}
	const want = "#1, #2, #3 and 47 more with skill/cobol can never be done: no agent that may take it has skill/cobol"
	for _, f := range Prove(decode(t, sound), open) {
		if f.Claim == "skills" && f.Text != want {
			t.Errorf("got %q, want %q", f.Text, want)
		}
	}
}

// TestUnpicked lets agents work only on issues with a label. An issue without it waits for a person, which is not a
// mistake.
func TestUnpicked(t *testing.T) {
	open := []forge.Issue{
		{Ref: forge.Ref{Repo: "johba/harb", Number: 1}, Labels: []string{"backlog"}},
		{Ref: forge.Ref{Repo: "johba/harb", Number: 2}, Labels: []string{"backlog", "picked"}},
		{Ref: forge.Ref{Repo: "johba/harb", Number: 3}, Labels: []string{"backlog", "picked", "skill/cobol"}},
	}
	text := edited(t, sound, []string{"[roles.dev]", "[roles.dev]\nlabel = \"picked\""})
	var got []string
	for _, f := range Prove(decode(t, text), open) {
		if f.Claim == "skills" {
			got = append(got, fmt.Sprint(f.Weight == Wrong, " ", f.Text))
		}
	}
	want := []string{
		"false #1: every role for issues requires a label",
		"true #3 with picked and skill/cobol can never be done: no agent that may take it has skill/cobol",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// crowdOf is a factory with n agents of five kinds, and with skills, routes and ladders.
func crowdOf(t testing.TB, n int) *threads.Config {
	var names [5][]string
	kinds := []string{"dev-a", "dev-b", "docs", "review", "gardener"}
	for i := range n {
		names[i%5] = append(names[i%5], fmt.Sprintf("%q", fmt.Sprintf("%s%d", kinds[i%5]+"-", i)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[forge]\nurl = \"http://f\"\ntoken = \"t\"\nrepos = [\"o/a\", \"o/b\"]\n")
	for i, list := range names {
		backend := "local\"\nmax_concurrent = 2"
		if kinds[i] == "review" {
			backend = "api\"\nwindows = [{ length = \"5h\", usd = 10.0 }, { length = \"7d\", usd = 90.0 }]"
		}
		fmt.Fprintf(&b, "[threads.t%d]\nbackend = %s\nagents = [%s]\n", i, `"`+backend, strings.Join(list, ", "))
	}
	for i, name := range append(names[0], names[1]...) {
		skill := fmt.Sprintf("%q", fmt.Sprintf("s%d", i%3))
		fmt.Fprintf(&b, "[agents.%s]\nskills = [%s]\nescalate = [%s]\n", strings.Trim(name, `"`), skill, names[2][0])
	}
	b.WriteString("[roles.dev]\ncli = \"claude\"\n[roles.review]\ncli = \"claude\"\n[roles.gardener]\ncli = \"claude\"\n" +
		"[roles.docs]\non = \"issue\"\ncli = \"claude\"\n[routes]\n")
	return decode(t, b.String()+fmt.Sprintf("s0 = %s\ns1 = %s\n", names[0][0], names[1][0]))
}

// strangers is a factory of n agents that all differ: each has its own skill, route and ladder.
func strangers(t testing.TB, n int) *threads.Config {
	var names []string
	var tables, routes strings.Builder
	for i := range n {
		names = append(names, fmt.Sprintf("\"dev-%d\"", i))
		fmt.Fprintf(&tables, "[agents.dev-%d]\nskills = [\"s%d\"]\nescalate = [\"dev-api\"]\n", i, i)
		fmt.Fprintf(&routes, "s%d = \"dev-%d\"\n", i, i)
	}
	return decode(t, "[forge]\nurl = \"http://f\"\ntoken = \"t\"\nrepos = [\"o/r\"]\n"+
		"[threads.llama]\nbackend = \"local\"\nmax_concurrent = 4\nhold = \"2m\"\naffinity_wait = \"1m\"\nagents = ["+
		strings.Join(names, ", ")+"]\n[threads.api]\nbackend = \"api\"\nagents = [\"dev-api\", \"review-api\"]\n"+
		"windows = [{ length = \"5h\", usd = 10.0 }, { length = \"7d\", usd = 90.0 }]\nreserve = 0.2\n"+
		tables.String()+"[roles.dev]\ncli = \"claude\"\n[roles.review]\ncli = \"claude\"\n[routes]\n"+routes.String())
}

// BenchmarkProve proves factories of about twenty agents. Each should take at most two seconds.
func BenchmarkProve(b *testing.B) {
	prove := func(c *threads.Config) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				Prove(c, nil)
			}
		}
	}
	b.Run("alike", prove(crowdOf(b, 20)))
	b.Run("strangers", prove(strangers(b, 18)))
}
