//go:build storms

package threads_test

import (
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/worlds"
)

// scripted are the rules that only scripts tell: no invariant of the worlds covers them, because they say who takes
// what, in which order and when, and no world has steals. scriptOf names their scripts.
var scripted = []string{
	"issue/no person assigned", "issue/rounds left", "issue/not on a dependency cycle",
	"issue/its opener's sessions left", "issue/within the issue's limit", "issue/comments read", "issue/chain free",
	"issue/review has room", "issue/new work may start", "schedule/new work may start",
	"pull/a review agent exists", "pull/rounds left", "pull/within the issue's limit", "pull/attempts left",
	"pull/chain free", "pull/its author's reviews left", "pull/its opener's sessions left",
	"pull/first to be up to date", "pull/its branch is not red",
	"end/out of rounds", "end/out of money", "end/asked or planned by an agent",
	"end/out of attempts", "end/waits for cancelled work", "end/filed twice",
	"end/not worked on, or shown in part", "end/waits for itself", "candidate/has the skills",
	"candidate/on its route",
	"candidate/author first", "candidate/asker first", "candidate/another first after a failure", "candidate/on its rung",
	"candidate/its work can be reviewed", "free/role has a program", "free/has a token",
	"free/one try while failing",
	"free/window not used up", "free/window not reserved", "free/room on the machine", "free/service ready",
	"free/slot free", "warm/the slot's last conversation",
	"warm/a conversation in the server's memory", "stop/its item is not cancelled",
	"spend/its thread within the budget", "spare/closed by its own merge", "spare/merged while it waits for that",
	"mark/an answer is recorded",
	"end/split twice", "mark/an approved split is filed", // no world splits
}

// enough is the number of worlds within which the removal of every other rule shows. Most show within twenty.
const enough = 10_000

// TestWorldsMissRules removes each rule in turn and plays worlds until an invariant is broken. It tests the worlds:
// with weaker invariants or tamer worlds, a removal would not show. Only make check has the tag, because some rules
// take a thousand worlds, and threads/worlds is compiled once more against the package under test.
func TestWorldsMissRules(t *testing.T) {
	for _, r := range threads.EveryRule() {
		t.Run(r.Name, func(t *testing.T) {
			if slices.Contains(scripted, r.Name) || strings.HasPrefix(r.Name, "steal/") {
				t.Skip("told by a script")
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
