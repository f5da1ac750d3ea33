//go:build storms

package threads_test

import (
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/worlds"
)

// unplayed are rules that no world misses but some script does. Worlds have neither routes nor steals. The placer
// also finds out whether a slot is free, so without "slot free" only the reasons differ. Since people change pull
// requests before their merge, none of 20,000 worlds has a program whose session ends with the merge that it waits
// for.
var unplayed = []string{"on its route", "slot free", "steal/", "merged while it waits for that"}

// enough is the number of worlds within which every removal shows. Most show within twenty.
const enough = 12_000

// TestWorldsMissEveryRule removes each rule in turn and plays worlds until an invariant is broken. It tests the
// simulator: with weaker invariants or tamer worlds, a removal would not show. Only make check has the tag, because
// some rules take a thousand worlds, and threads/worlds is compiled once more against the package under test.
func TestWorldsMissEveryRule(t *testing.T) {
	for _, r := range threads.EveryRule() {
		t.Run(r.Name, func(t *testing.T) {
			if slices.ContainsFunc(unplayed, func(part string) bool { return strings.Contains(r.Name, part) }) {
				t.Skip("no world plays this rule")
			}
			defer r.Without()()
			for seed := uint64(1); seed <= enough; seed++ {
				if breaks(seed) {
					t.Logf("world %d", seed)
					return
				}
			}
			t.Errorf("no invariant was broken in %d worlds", enough)
		})
	}
}

// breaks reports whether a world breaks an invariant. A panic counts: a rule may rely on the refusals of those before
// it.
func breaks(seed uint64) (broken bool) {
	defer func() {
		if recover() != nil {
			broken = true
		}
	}()
	_, err := worlds.Play(seed, nil)
	return err != nil
}
