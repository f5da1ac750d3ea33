package sim

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// TestReplay turns the sessions of a journal into a load, with one issue for each issue and the sessions that it took.
func TestReplay(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	session := func(kind agents.Kind, number, chain int64, start, took time.Duration) ledger.Past {
		ref := func(n int64) forge.Ref { return forge.Ref{Repo: "owner/name", Number: n} }
		return ledger.Past{
			Agent: "x", Kind: kind, Ref: ledger.Ref(ref(number)), Chain: ledger.Ref(ref(chain)),
			Start: at.Add(start), End: at.Add(start + took),
		}
	}
	config := &threads.Config{Forge: threads.Forge{Repos: []string{"owner/name"}}}
	waited := session(agents.KindIssue, 5, 5, 5*time.Hour, time.Hour)
	waited.Ready, waited.Priority, waited.Skills = at.Add(30*time.Minute), 2, []string{"nobody's"}
	load := Replay([]ledger.Past{
		session(agents.KindIssue, 1, 1, 0, time.Hour),
		session(agents.KindReview, 3, 1, time.Hour, 10*time.Minute),
		session(agents.KindIssue, 2, 2, 90*time.Minute, 30*time.Minute),
		session(agents.KindRework, 3, 1, 2*time.Hour, 20*time.Minute),
		session(agents.KindReview, 3, 1, 3*time.Hour, 20*time.Minute),
		session(agents.KindIssue, 8, 8, -25*time.Hour, time.Hour), // on the day before
		session(agents.KindIssue, 7, 7, 4*time.Hour, -time.Minute),
		session(agents.KindIssue, 6, 6, 5*time.Hour, 100*365*24*time.Hour),
		waited,
	}, config, 24*time.Hour)
	if len(load) != 3 || load[2].At != 90*time.Minute || load[0].Review != 15*time.Minute ||
		len(load[0].Sessions) != 2 || load[0].Sessions[1] != 20*time.Minute {
		t.Errorf("%+v", load)
	}
	if w := load[1]; w.At != 30*time.Minute || w.Priority != 2 || len(w.Skills) != 0 || len(w.Sessions) != 1 {
		t.Errorf("the issue that waited: %+v", w)
	}
	if len(Replay(nil, config, time.Hour)) > 0 {
		t.Error("an empty journal gives work")
	}
}
