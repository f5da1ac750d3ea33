package supervisor

import (
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// A loop reads the clock and waits for the state. Meanwhile a scan starts and lands while an issue is being labelled.
// The scan's facts are newer than the loop's clock, but may be from before the label.
func TestFactsAreStaleWhileWeWrite(t *testing.T) {
	busy := forge.Ref{Repo: "o/r", Number: 1}
	moving := forge.Ref{Repo: "o/r", Number: 2}
	cancelling := forge.Ref{Repo: "o/r", Number: 3}
	synctest.Test(t, func(t *testing.T) {
		b := newState(&threads.Config{}, nil, nil, nil)
		b.beginWrite(busy)
		b.ledger.Steals[moving] = ledger.Steal{}
		ledger.Entry(b.ledger.Chains, cancelling).Cancel = true
		waits := time.Now()
		time.Sleep(time.Second)
		scan := time.Now()
		b.setFacts(scan, forge.Facts{Repos: []forge.Repo{{Name: "o/r", AsOf: scan}}}, nil)
		b.view(waits, nil, func(snap threads.Snapshot) {
			for _, r := range []forge.Ref{busy, moving, cancelling} {
				if touched := snap.History.Touched[r]; snap.Facts.Repos[0].AsOf.After(touched) {
					t.Errorf("%s: facts of %s count as newer than a write of %s that is under way", r, scan, touched)
				}
			}
		})
	})
}
