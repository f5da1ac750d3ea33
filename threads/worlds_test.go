//go:build storms

package threads_test

import (
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// unplayed are rules that no world misses but some script does: worlds have neither routes nor steals, and the placer
// too finds out whether a slot is free, so that without that rule only the reasons differ. Since people meddle with
// pull requests at their merge, none of 20,000 worlds has a program that waits for a merge which ends its session.
var unplayed = []string{"on its route", "slot free", "steal/", "merged while it waits for that"}

// enough is the number of worlds within which each rule is missed. Most are within twenty.
const enough = 12_000

// TestWorldsMissEveryRule removes each rule in turn and plays worlds until an invariant is broken. It tests the
// simulator: weaker invariants or tamer worlds would miss the removal. Only make check has the tag: some rules take a
// thousand worlds, and threads/sim is compiled once more against the package under test.
func TestWorldsMissEveryRule(t *testing.T) {
	for _, r := range threads.EveryRule() {
		t.Run(r.Name, func(t *testing.T) {
			if slices.ContainsFunc(unplayed, func(part string) bool { return strings.Contains(r.Name, part) }) {
				t.Skip("no world is about that")
			}
			defer r.Without()()
			for seed := uint64(1); seed <= enough; seed++ {
				if breaks(seed) {
					t.Logf("world %d", seed)
					return
				}
			}
			t.Errorf("%d worlds, and no invariant is broken", enough)
		})
	}
}

// breaks reports whether a world breaks an invariant. A panic counts: a rule may rely on what those before it refused.
func breaks(seed uint64) (broken bool) {
	defer func() {
		if recover() != nil {
			broken = true
		}
	}()
	_, err := sim.Play(seed, nil)
	return err != nil
}
