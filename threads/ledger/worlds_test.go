//go:build storms

package ledger_test

import (
	"slices"
	"testing"

	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/worlds"
)

// No world tells the rows in unplayed; TestEndTable and TestFailedRuns have them. The rows in counted matter only to
// the breaker's count: see breakers.
var (
	unplayed = []string{"not started", "no room", "setup failed", "scheduled work failed"}
	counted  = []string{"cancelled", "lost", "scheduled work"}
)

// TestWorldsMissEveryOutcome removes each row of the table of outcomes in turn and plays worlds until an invariant is
// broken. Only make check has the tag, because a claim that is taken shows in world 17665, and threads/worlds is
// compiled once more against the package under test.
func TestWorldsMissEveryOutcome(t *testing.T) {
	for _, name := range ledger.Outcomes() {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(unplayed, name) {
				t.Skip("no world tells this row")
			}
			defer ledger.WithoutOutcome(name)()
			if slices.Contains(counted, name) {
				if wrong := breakers(); len(wrong) == 0 {
					t.Error("no case of breakers fails without this row")
				}
				return
			}
			for seed := uint64(1); seed <= 40000; seed++ {
				if _, err := worlds.Play(seed, nil); err != nil {
					t.Log(err)
					return
				}
			}
			t.Error("no invariant was broken in 40000 worlds")
		})
	}
}
