package proof

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// TestRulesAsProofs compares the direct rules with the proofs: whatever a proof refuses, Config.Check or
// Config.Problems refuses in the same words, and they refuse nothing else.
func TestRulesAsProofs(t *testing.T) {
	for _, tt := range slips {
		compare(t, tt.name, edited(t, sound, tt.edit), tt.open)
		compare(t, tt.name+", mended", edited(t, edited(t, sound, tt.edit), tt.mend), tt.open)
	}
	for name, text := range documented(t) {
		compare(t, name, text, nil)
	}
	rng := rand.New(rand.NewPCG(30, 1))
	wrong, n := 0, rounds(600)
	for i := range n {
		text, open := anyFactory(rng)
		wrong += compare(t, fmt.Sprintf("factory %d", i), text, open)
	}
	t.Logf("%d of %d factories were refused", wrong, n)
}

func compare(t *testing.T, name, text string, open []forge.Issue) (wrong int) {
	t.Helper()
	c, err := try(text)
	if err != nil {
		return 0
	}
	var proofs, rules, proofHints, ruleHints []string
	for _, f := range Prove(c, open) {
		if f.Weight == Wrong {
			proofs = append(proofs, sorted(f.Text))
		} else if f.Weight == Hint {
			proofHints = append(proofHints, f.Claim+": "+f.Text)
		}
	}
	for _, p := range c.Problems() {
		if p.Reason.Code == threads.NoReviewer {
			rules = append(rules, p.String())
		}
	}
	for _, f := range c.Check(open) {
		if f.Weight == threads.Wrong {
			rules = append(rules, sorted(f.Text))
		} else if f.Weight == threads.Hint {
			ruleHints = append(ruleHints, f.About+": "+f.Text)
		}
	}
	slices.Sort(proofs)
	slices.Sort(rules)
	if !slices.Equal(proofs, rules) {
		t.Errorf("%s\nproofs:\n  %s\nrules:\n  %s\n%s%v", name, strings.Join(proofs, "\n  "),
			strings.Join(rules, "\n  "), text,
			open)
	}
	slices.Sort(proofHints)
	slices.Sort(ruleHints)
	if testing.Verbose() && !slices.Equal(proofHints, ruleHints) {
		t.Logf("%s\nhints of proofs:\n  %s\nof rules:\n  %s", name, strings.Join(proofHints, "\n  "),
			strings.Join(ruleHints, "\n  "))
	}
	if len(proofs) > 0 {
		return 1
	}
	return 0
}

// sorted sorts the names of the authors that wait: the proofs sorted them by kind.
func sorted(text string) string {
	names, why, found := strings.Cut(text, " can wait for ever")
	if !found {
		return text
	}
	words := strings.Fields(strings.ReplaceAll(names, ",", ""))
	slices.Sort(words)
	return strings.Join(words, " ") + why
}

// anyFactory returns a random factory of up to nine agents, and open issues.
func anyFactory(rng *rand.Rand) (text string, open []forge.Issue) {
	d := dice{rng}
	var threads, tables strings.Builder
	var names []string
	for i := range 1 + rng.IntN(3) {
		var crew []string
		for j := range 1 + rng.IntN(3) {
			role := d.pick("dev", "dev", "review", "docs", "gardener")
			name := fmt.Sprintf("%s-%c%d", role, 'a'+i, j)
			crew, names = append(crew, fmt.Sprintf("%q", name)), append(names, name)
			tables.WriteString(d.agent(name, role))
		}
		fmt.Fprintf(&threads, "[threads.t%d]\nbackend = %q\nmax_concurrent = %d\nagents = [%s]\n", i, d.pick("api", "local"),
			1+rng.IntN(3), strings.Join(crew, ", "))
		if d.chance(0.3) {
			threads.WriteString("overlap = true\nmax_sessions = 1\n")
		}
	}
	rest := d.roles()
	if d.chance(0.3) {
		rest += fmt.Sprintf("[routes]\ngo = %q\n", d.pick(names...))
	}
	for i := range rng.IntN(4) {
		is := forge.Issue{Ref: forge.Ref{Repo: "o/r", Number: int64(i + 1)}, Labels: []string{"backlog"}}
		for _, l := range []string{"docs", "skill/go", "skill/sql"} {
			if d.chance(0.3) {
				is.Labels = append(is.Labels, l)
			}
		}
		if d.chance(0.3) {
			is.Assignees = []string{d.pick(names...)}
		}
		open = append(open, is)
	}
	return "[forge]\nurl = \"http://f\"\ntoken = \"t\"\nrepos = [\"o/r\"]\n" + threads.String() +
		tables.String() + rest, open
}

// dice draws the parts of a factory.
type dice struct{ *rand.Rand }

func (d dice) chance(p float64) bool      { return d.Float64() < p }
func (d dice) pick(list ...string) string { return list[d.IntN(len(list))] }

// agent returns an agent's table, empty for most.
func (d dice) agent(name, role string) (table string) {
	if d.chance(0.2) {
		table += fmt.Sprintf("roles = [%q, %q]\n", role, d.pick("review", "docs", "dev"))
	}
	if d.chance(0.3) && role != "review" && role != "gardener" {
		table += fmt.Sprintf("skills = [%q]\n", d.pick("go", "sql"))
	}
	if d.chance(0.2) && role == "dev" {
		table += fmt.Sprintf("escalate = [%q]\n", d.pick("dev-a0", "dev-a1", "dev-b0", "docs-a1", "docs-b0"))
	}
	if table != "" {
		table = "[agents." + name + "]\n" + table
	}
	return table
}

// roles returns the tables of the roles.
func (d dice) roles() string {
	const program = "command = [\"x\"]\n"
	text := "[roles.gardener]\n" + program + "[roles.dev]\n" + program
	if d.chance(0.3) {
		text += "waits_for_review = true\n"
	}
	text += "[roles.docs]\non = \"issue\"\n" + program
	if d.chance(0.6) {
		text += "label = \"docs\"\n"
	}
	text += "[roles.review]\n" + program
	if d.chance(0.3) {
		text += fmt.Sprintf("label = %q\n", d.pick("docs", "other"))
	}
	return text
}
