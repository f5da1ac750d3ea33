package threads

import (
	"testing"

	"codeberg.org/johba/disinto/forge"
)

// A remedy is that of this reason: why of a paused agent advised to end all pauses, and of a cancelled issue to settle
// what its comments ask.
func TestRemedyFitsReason(t *testing.T) {
	for want, r := range map[string]Reason{
		"`disinto resume`":                                                {Code: Paused},
		"`disinto resume dev-qwen`":                                       {Code: Paused, Agent: "dev-qwen"},
		"`disinto resume llama`":                                          {Code: Paused, Thread: "llama"},
		"`disinto retry johba/harb#1` takes it up again":                  {Code: SkipLabel, Note: forge.LabelCancelled},
		"settle what its comments ask; then `disinto retry johba/harb#1`": {Code: SkipLabel, Note: forge.LabelBlocked},
		"remove the dependency, or `disinto retry o/r#6`; then remove `needs-human`": {
			Code: SkipLabel, Note: forge.LabelNeedsHuman, Refs: []forge.Ref{{Repo: "o/r", Number: 6}},
		},
		"remove the label staged":                {Code: SkipLabel, Note: forge.LabelStaged},
		"`disinto retry johba/harb#1` tries now": {Code: CoolDown, Count: 1},
	} {
		if got := r.MendFor("johba/harb#1"); got != want {
			t.Errorf("%s %s: got %q, want %q", r.Code, r.Note, got, want)
		}
	}
}

// Release is advised only where another host claims the item: a factory of one host was told of one that is gone.
func TestReleaseNeedsAnotherHost(t *testing.T) {
	for why, want := range map[string]string{
		"": "`disinto retry a/b#1` tries now", "agent is failing": "`disinto retry a/b#1` tries now",
		"already taken: claimed by dev-x on another host": "`disinto retry a/b#1` tries now; if a host that claims it is " +
			"gone: `disinto release a/b#1`",
	} {
		if got := (Reason{Code: CoolDown, Why: why}).MendFor("a/b#1"); got != want {
			t.Errorf("%q: got %q, want %q", why, got, want)
		}
	}
}

// A wait that only a person can end has a remedy: without one, why said of an issue behind a stranger's pull request
// that it continues by itself.
func TestPeoplesWaitsHaveRemedies(t *testing.T) {
	for _, d := range Codes() {
		if (d.Ends == ByPerson || d.Ends == ByChoice) && d.Mend == "" {
			t.Errorf("%s waits for a person, and has no remedy", d.Code)
		}
	}
}
