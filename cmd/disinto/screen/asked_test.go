package screen

import (
	"strings"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Hints call an item as the person did: in a factory with several repositories a number alone is refused. After a word
// of a shell's command, # would begin a comment.
func TestHintsCallItemAsAsked(t *testing.T) {
	ex := threads.Explanation{
		Repo: "a/b", Number: 3, Code: threads.GaveUp, Verdict: "blocked by a/b#2; sessions: 1 (disinto show a/b#3)",
		Mend: "`disinto retry a/b#3`", Candidates: []threads.CandidateSteps{{Agent: "x"}},
	}
	life := control.ItemDocument{Repo: "a/b", Number: 3, Verdict: ex.Verdict, Mend: ex.Mend}
	for asked, want := range map[string][]string{
		"3":     {"disinto show 3)", "`disinto retry 3`", "disinto why 3 --all"},
		"a/b#3": {"disinto show a/b#3)", "`disinto retry a/b#3`", "disinto why a/b#3 --all"},
		"#3":    {"disinto show a/b#3)", "`disinto retry a/b#3`", "disinto why a/b#3 --all"},
	} {
		v := View{Asked: asked}
		why, item := v.Why(&ex), v.Item(&life)
		for i, hint := range want {
			if !strings.Contains(why, hint) || i < 2 && !strings.Contains(item, hint) {
				t.Errorf("asked for %s: want %q in\n%s\n%s", asked, hint, why, item)
			}
		}
		if !strings.Contains(why, "blocked by #2") {
			t.Errorf("asked for %s: the heading names the repository, but the verdict does too:\n%s", asked, why)
		}
	}
}
