package audit

import (
	"fmt"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
)

// TestComparePulls tampers with the comments on two pull requests: of issue 1, with an attempt that opened none and a
// review, and of issue 2, whose comment a forge did not take yet.
func TestComparePulls(t *testing.T) {
	issue, pull := forge.Ref{Repo: "o/r", Number: 1}, forge.Ref{Repo: "o/r", Number: 11}
	owed := forge.Ref{Repo: "o/r", Number: 12}
	run := func(n int) string { return fmt.Sprintf("%s-%d", instance, n) }
	hash := func(n int) string { return strings.Repeat(fmt.Sprint(n), 64) }
	row := func(n int, hash string) string {
		return fmt.Sprintf("| %s | dev | review | done | `%s` |\n", run(n), hash)
	}
	journal := func() *Journal {
		j := &Journal{Hashes: make(map[string]string), Owed: map[forge.Ref]bool{owed: true}}
		j.Sessions = []Session{
			{Run: run(1), Item: issue, Chain: issue},
			{Run: run(2), Item: issue, Chain: issue, Pull: pull},
			{Run: run(3), Item: pull, Chain: issue, Pull: pull},
			{Run: run(4), Item: owed, Chain: owed, Pull: owed},
			{Run: run(5), Item: issue, Chain: issue}, // after the merge, and no pull request shows it
		}
		for i := range 5 {
			j.Hashes[run(i+1)] = hash(i + 1)
		}
		return j
	}
	shown := row(1, hash(1)) + row(2, hash(2)) + row(3, hash(3))
	tests := []struct {
		name     string
		edit     func(j *Journal, comments map[forge.Ref]string)
		matching int
		want     string // the faults' sessions and reasons
	}{
		{"untouched", func(*Journal, map[forge.Ref]string) {}, 3, ""},
		{"not written", func(_ *Journal, c map[forge.Ref]string) { clear(c) }, 0, "1 not have, 2 not have, 3 not have"},
		{"moved to another pull request", func(_ *Journal, c map[forge.Ref]string) {
			clear(c)
			c[forge.Ref{Repo: "o/r", Number: 40}] = row(1, hash(1))
		}, 1, "1 not have, 2 not have, 3 not have"},
		{"a session taken out", func(_ *Journal, c map[forge.Ref]string) {
			c[pull] = row(2, hash(2)) + row(3, hash(3))
		}, 2, "1 not have"},
		{"another hash", func(_ *Journal, c map[forge.Ref]string) {
			c[pull] = strings.Replace(shown, hash(2), hash(9), 1)
		}, 2, "2 another hash"},
		{"no hash", func(_ *Journal, c map[forge.Ref]string) {
			c[pull] = strings.Replace(shown, hash(2), "<script>", 1)
		}, 2, "2 another hash"},
		{"a session put in", func(_ *Journal, c map[forge.Ref]string) { c[pull] += row(7, hash(7)) }, 3, "7 not know"},
		{"put in first", func(_ *Journal, c map[forge.Ref]string) { c[pull] = row(7, hash(7)) + shown }, 3, "7 not know"},
		{"forgotten", func(j *Journal, c map[forge.Ref]string) {
			j.Forgot, c[pull] = true, row(7, hash(7))+shown+row(8, hash(8))
		}, 3, "8 not know"},
		{"another supervisor's", func(_ *Journal, c map[forge.Ref]string) {
			c[pull] += strings.ReplaceAll(row(7, hash(7)), instance, "zyxwvutsrq")
		}, 3, ""},
		{"taken late", func(_ *Journal, c map[forge.Ref]string) { c[owed] = row(4, hash(4)) }, 4, ""},
		{"more sessions than a comment shows", func(j *Journal, c map[forge.Ref]string) {
			c[pull] = ""
			for i := range MostShown + 3 {
				n := 100 + i
				j.Sessions = append(j.Sessions, Session{Run: run(n), Item: pull, Chain: issue, Pull: pull})
				if j.Hashes[run(n)] = hash(8); i >= 3 {
					c[pull] += row(n, hash(8))
				}
			}
		}, MostShown, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j, comments := journal(), map[forge.Ref]string{pull: "Sessions:\n\n|---|---|\n" + shown + "\nsigned\n"}
			tt.edit(j, comments)
			p := j.ComparePulls(instance, comments, func(string) bool { return true })
			var got []string
			for _, f := range p.Faults {
				for _, why := range []string{"not have", "another hash", "not know"} {
					if strings.Contains(f.Why, why) {
						got = append(got, strings.TrimPrefix(f.Run, instance+"-")+" "+why)
					}
				}
			}
			if strings.Join(got, ", ") != tt.want || p.Matching != tt.matching {
				t.Errorf("got %d rows and %v, want %d and %s", p.Matching, p.Faults, tt.matching, tt.want)
			}
		})
	}
}

// A hostile comment with a million rows costs a bounded report, and a repository that was not read no faults.
func TestComparePullsBounds(t *testing.T) {
	pull := forge.Ref{Repo: "o/r", Number: 11}
	j := &Journal{Sessions: []Session{{Run: "a", Item: pull, Chain: pull, Pull: pull}}}
	comments := make(map[forge.Ref]string)
	for n := range int64(20) {
		comments[forge.Ref{Repo: "o/r", Number: n}] = strings.Repeat("| "+instance+"-x | | `00` |\n", 50_000)
	}
	if p := j.ComparePulls(instance, comments, func(string) bool { return true }); len(p.Faults) != mostFaults {
		t.Errorf("got %d faults, want %d", len(p.Faults), mostFaults)
	}
	if p := j.ComparePulls(instance, nil, func(string) bool { return false }); len(p.Faults) > 0 {
		t.Errorf("without a repository got %v", p.Faults)
	}
}

// A fault counts if a second comparison finds it too.
func TestFaultsAlso(t *testing.T) {
	p := Pulls{Faults: []Fault{{"o/r#1", "a", "x"}, {"o/r#1", "b", "x"}}}
	p.Also([]Fault{{"o/r#1", "b", "x"}, {"o/r#1", "c", "x"}})
	if len(p.Faults) != 1 || p.Faults[0].Run != "b" {
		t.Errorf("got %v", p.Faults)
	}
}
