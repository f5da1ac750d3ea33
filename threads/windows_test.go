package threads

import (
	"math"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// tokens returns a session's usage of n tokens.
func tokens(n int64) agents.Usage { return agents.Usage{InputTokens: n, CachedTokens: 1e9} }

// use adds a session that ended at a time.
func use(h *ThreadHistory, at time.Time, kind agents.Kind, u agents.Usage) {
	h.Use(at, u)
	h.Learn(kind, u)
}

// TestUseCountsAsLong checks that a use counts for its window and at most ten minutes longer, wherever in the step it
// ended.
func TestUseCountsAsLong(t *testing.T) {
	thread := Thread{Windows: []Window{{Length: 5 * time.Hour}, {Length: MaxWindow}}}
	for _, into := range []time.Duration{0, time.Second, 5 * time.Minute, useStep - time.Nanosecond} {
		ended := scriptStart.Truncate(useStep).Add(into)
		var h ThreadHistory
		use(&h, ended, agents.KindIssue, tokens(7))
		for i, w := range thread.Windows {
			counts := func(at time.Time) bool { return thread.Fill(&h, at)[i].Used.Tokens == 7 && len(h.UsesSince(at)) == 1 }
			if !counts(ended) || !counts(ended.Add(w.Length)) {
				t.Errorf("%s into the step: the use does not count for %s", into, w.Name())
			}
			if thread.Fill(&h, ended.Add(w.Length+useStep))[i].Used.Tokens != 0 {
				t.Errorf("%s into the step: the use counts for ten minutes more than %s", into, w.Name())
			}
		}
		if left := h.UsesSince(ended.Add(MaxWindow + useStep)); left != nil {
			t.Errorf("got %v after the longest window, want none", left)
		}
	}
}

// TestUsesAreBounded adds a year of sessions with the largest possible usage.
func TestUsesAreBounded(t *testing.T) {
	var h ThreadHistory
	at := scriptStart
	for range 365 * 24 * 12 {
		use(&h, at, agents.KindReview, agents.Usage{
			InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64,
			CostUSD: math.Inf(1),
		})
		at = at.Add(5 * time.Minute)
	}
	const most = int(MaxWindow/useStep) + 2
	if len(h.Uses) > most || len(h.Paces) != 1 {
		t.Errorf("got %d uses and %d paces, want at most %d and 1", len(h.Uses), len(h.Paces), most)
	}
	used := (&Thread{Windows: []Window{{Length: MaxWindow}}}).Fill(&h, at)[0].Used
	if used.Tokens <= 0 || math.IsInf(used.USD, 0) || used.USD <= 0 {
		t.Errorf("got a sum of %+v, want a finite one above 0", used)
	}
}

// TestUseOfAClockThatGoesBack checks that a clock that goes back frees no usage, and keeps the order of the uses.
func TestUseOfAClockThatGoesBack(t *testing.T) {
	var h ThreadHistory
	for _, after := range []time.Duration{0, time.Hour, -time.Hour, time.Hour + useStep} {
		use(&h, scriptStart.Add(after), agents.KindIssue, tokens(1))
	}
	if len(h.Uses) != 3 || h.Uses[1].Tokens != 2 {
		t.Errorf("got uses %+v, want 3 with 2 tokens in the second", h.Uses)
	}
	use(&h, scriptStart, agents.KindIssue, agents.Usage{InputTokens: -5, CostUSD: math.NaN()})
	if len(h.Uses) != 3 || h.Uses[2].Tokens != 1 || h.Paces[0].N != 5 {
		t.Errorf("after an impossible usage: got %+v", h)
	}
}

// TestPace checks that a pace is the mean of a kind, and that about ten newer sessions change it.
func TestPace(t *testing.T) {
	var h ThreadHistory
	for _, n := range []int64{10, 20, 30} {
		use(&h, scriptStart, agents.KindIssue, tokens(n))
	}
	use(&h, scriptStart, agents.KindReview, tokens(4))
	if len(h.Paces) != 2 || h.Paces[0].Tokens != 20 || h.Paces[1] != (Pace{Kind: agents.KindReview, N: 1, Tokens: 4}) {
		t.Errorf("got paces %+v, want 20 and 4 tokens", h.Paces)
	}
	for range 30 {
		use(&h, scriptStart, agents.KindIssue, tokens(1000))
	}
	if got := h.Paces[0].Tokens; got < 900 || got > 1000 {
		t.Errorf("got %f after thirty sessions of 1000, want 900 to 1000", got)
	}
}

func TestWindowName(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5 * time.Hour: "5h", MaxWindow: "7d", 24 * time.Hour: "1d", 36 * time.Hour: "36h", 90 * time.Minute: "90m",
	} {
		if got := (Window{Length: d}).Name(); got != want {
			t.Errorf("the name of %s is %s, want %s", d, got, want)
		}
	}
}
