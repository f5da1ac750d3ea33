package ledger

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// TestTurnBack: a clock was 40 hours ahead. Times of our clock move back by that, days so that the newest is today, and
// times of the forge stay.
func TestTurnBack(t *testing.T) {
	ahead := noon.Add(40 * time.Hour)
	s := New()
	*Entry(s.Agents, "a") = threads.AgentHistory{HeldUntil: ahead, Spent: threads.Spent{Day: threads.Day(ahead)}}
	s.Open["r"] = Open{Start{Run: "r", Ready: ahead}, ahead}
	Entry(s.Authors, "eve").Reviews = map[string]time.Time{"r": ahead}
	s.TurnBack(ahead, noon)
	for what, got := range map[string][2]time.Time{
		"the hold of an agent":   {s.Agents["a"].HeldUntil, noon},
		"the day of its budget":  {s.Agents["a"].Spent.Day, threads.Day(noon)},
		"the start of a session": {s.Open["r"].At, noon},
		"the filing of an issue": {s.Open["r"].Ready, ahead},
		"a person's review":      {s.Authors["eve"].Reviews["r"], noon},
		"a time that is not set": {s.Agents["a"].IdleSince, {}},
	} {
		if !got[0].Equal(got[1]) {
			t.Errorf("%s: got %s, want %s", what, got[0], got[1])
		}
	}
}
