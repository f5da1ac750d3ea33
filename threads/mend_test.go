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
		"remove the label staged":                                         {Code: SkipLabel, Note: forge.LabelStaged},
		"`disinto retry johba/harb#1` tries now":                          {Code: CoolDown, Count: 1},
	} {
		if got := r.MendFor("johba/harb#1"); got != want {
			t.Errorf("%s %s: got %q, want %q", r.Code, r.Note, got, want)
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
