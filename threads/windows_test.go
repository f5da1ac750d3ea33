package threads

import (
	"math"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// tokens is a session that used so many.
func tokens(n int64) agents.Usage { return agents.Usage{InputTokens: n, CachedTokens: 1e9} }

// use is a session that ended at a time.
func use(h *ThreadHistory, at time.Time, kind agents.Kind, u agents.Usage) {
	h.Use(at, u)
	h.Learn(kind, u)
}

// TestUseCountsAsLong counts a use for at least its window and for no more than ten minutes longer, whatever the time
// within the step at which it ended.
func TestUseCountsAsLong(t *testing.T) {
	thread := Thread{Windows: []Window{{Length: 5 * time.Hour}, {Length: MaxWindow}}}
	for _, into := range []time.Duration{0, time.Second, 5 * time.Minute, useStep - time.Nanosecond} {
		ended := scriptStart.Truncate(useStep).Add(into)
		var h ThreadHistory
		use(&h, ended, agents.KindIssue, tokens(7))
		for i, w := range thread.Windows {
			counts := func(at time.Time) bool { return thread.Fill(&h, at)[i].Used.Tokens == 7 && len(h.UsesSince(at)) == 1 }
			if !counts(ended) || !counts(ended.Add(w.Length)) {
				t.Errorf("%s into the step, it does not count for %s", into, w.Name())
			}
			if thread.Fill(&h, ended.Add(w.Length+useStep))[i].Used.Tokens != 0 {
				t.Errorf("%s into the step, it counts for ten minutes more than %s", into, w.Name())
			}
		}
		if left := h.UsesSince(ended.Add(MaxWindow + useStep)); left != nil {
			t.Errorf("%v is remembered for ever", left)
		}
	}
}

// TestUsesAreBounded has sessions for a year, each of which says that it used all that there is.
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
		t.Errorf("%d uses and %d paces are remembered, want at most %d and 1", len(h.Uses), len(h.Paces), most)
	}
	used := (&Thread{Windows: []Window{{Length: MaxWindow}}}).Fill(&h, at)[0].Used
	if used.Tokens <= 0 || math.IsInf(used.USD, 0) || used.USD <= 0 {
		t.Errorf("in all they used %+v", used)
	}
}

// TestUseOfAClockThatGoesBack frees nothing, and keeps the order.
func TestUseOfAClockThatGoesBack(t *testing.T) {
	var h ThreadHistory
	for _, after := range []time.Duration{0, time.Hour, -time.Hour, time.Hour + useStep} {
		use(&h, scriptStart.Add(after), agents.KindIssue, tokens(1))
	}
	if len(h.Uses) != 3 || h.Uses[1].Tokens != 2 {
		t.Errorf("%+v", h.Uses)
	}
	use(&h, scriptStart, agents.KindIssue, agents.Usage{InputTokens: -5, CostUSD: math.NaN()})
	if len(h.Uses) != 3 || h.Uses[2].Tokens != 1 || h.Paces[0].N != 5 {
		t.Errorf("a session that says nonsense: %+v", h)
	}
}

// TestPace learns the mean of a kind, which newer sessions change within about ten.
func TestPace(t *testing.T) {
	var h ThreadHistory
	for _, n := range []int64{10, 20, 30} {
		use(&h, scriptStart, agents.KindIssue, tokens(n))
	}
	use(&h, scriptStart, agents.KindReview, tokens(4))
	if len(h.Paces) != 2 || h.Paces[0].Tokens != 20 || h.Paces[1] != (Pace{Kind: agents.KindReview, N: 1, Tokens: 4}) {
		t.Errorf("%+v", h.Paces)
	}
	for range 30 {
		use(&h, scriptStart, agents.KindIssue, tokens(1000))
	}
	if got := h.Paces[0].Tokens; got < 900 || got > 1000 {
		t.Errorf("%f after thirty sessions of 1000", got)
	}
}

func TestWindowName(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5 * time.Hour: "5h", MaxWindow: "7d", 24 * time.Hour: "1d", 36 * time.Hour: "36h", 90 * time.Minute: "90m",
	} {
		if got := (Window{Length: d}).Name(); got != want {
			t.Errorf("%s is written %s, want %s", d, got, want)
		}
	}
}
