package supervisor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// One session on issue 1 ended after ten minutes: what is remembered of that. The empty answer is the one of a session
// that is done.
func TestEndTable(t *testing.T) {
	item := issueKey(1).threads()
	at := func(d time.Duration) time.Time { return noon.Add(10*time.Minute + d) }
	tests := []struct {
		name     string
		end      endRecord
		attempts int           // of the failed attempt
		rest     time.Duration // after the end, until the issue may start again
		parked   time.Duration // the thread, after the end
		held     time.Duration // the agent, after the end
		extra    func(h *history) bool
	}{
		{"done", endRecord{Result: agents.Done}, 0, 0, 0, 0, func(h *history) bool { return h.tallies["dev-qwen"] == tally{1, 0} }},
		{"words only", endRecord{Result: agents.Done, Remarked: true}, 0, time.Minute, 0, 0, nil},
		{"refused", endRecord{Result: agents.Refused, Reason: "no"}, 0, 0, 0, 0, func(h *history) bool { return h.Refused[item.Ref] == "no" }},
		{"failed", endRecord{Result: agents.Failed}, 1, 2 * time.Minute, 0, 0, func(h *history) bool { return h.tallies["dev-qwen"] == tally{0, 1} }},
		{"no progress", endRecord{Result: agents.NoProgress}, 1, 2 * time.Minute, 0, 0, nil},
		{
			"program not found",
			endRecord{Result: agents.Failed, NeverRan: true},
			0, 0, 0, time.Minute,
			func(h *history) bool { return len(h.Writers) == 0 && len(h.Warm) == 0 },
		},
		{
			"no room for a process",
			endRecord{Result: agents.NoRoom, NeverRan: true},
			0, 0, time.Minute, 0,
			func(h *history) bool { return len(h.Writers) == 0 && len(h.Warm) == 0 && len(h.tallies) == 0 },
		},
		{"stalled", endRecord{Result: agents.Stalled}, 1, 2 * time.Minute, 0, 0, nil},
		{"timeout", endRecord{Result: agents.TimedOut}, 1, 2 * time.Minute, 0, 0, nil},
		{"limited for an hour", endRecord{Result: agents.Limited, RetryAt: at(time.Hour)}, 0, 0, time.Hour, 0, nil},
		{"limited until yesterday", endRecord{Result: agents.Limited, RetryAt: at(-24 * time.Hour)}, 0, 0, time.Minute, 0, nil},
		{"limited until next year", endRecord{Result: agents.Limited, RetryAt: at(400 * 24 * time.Hour)}, 0, 0, 7 * 24 * time.Hour, 0, nil},
		{"limited, not said how long", endRecord{Result: agents.Limited}, 0, 0, 5 * time.Minute, 0, nil},
		{"no backend", endRecord{Result: agents.BackendDown, Breaker: time.Hour}, 0, 10 * time.Second, 0, 0, func(h *history) bool { return h.downs["llama"] == 1 }},
		{"cancelled", endRecord{Result: agents.Cancelled, Stop: threads.StopClosed}, 0, 0, 0, 0, nil},
		{"taken off", endRecord{Result: agents.Cancelled, Stop: threads.StopReassigned}, 0, time.Minute, 0, 0, nil},
		{"lost", endRecord{Result: agents.Lost}, 0, 0, 0, 0, func(h *history) bool { return h.Warm[threads.SlotKey{Thread: "llama", Slot: 1}].Agent == "dev-qwen" }},
		{
			"claim taken",
			endRecord{Result: agents.ClaimFailed, Claim: claimTaken, NeverRan: true},
			0, time.Minute, 0, 0,
			func(h *history) bool {
				return h.Claimed[item.Ref] == "" && len(h.Writers) == 0 && len(h.Warm) == 0 && len(h.recent) == 0
			},
		},
		{
			"claim unanswered",
			endRecord{Result: agents.ClaimFailed, Claim: claimUnavailable, NeverRan: true},
			0, 10 * time.Second, 0, 0,
			func(h *history) bool { return h.Claimed[item.Ref] == "dev-qwen" && h.logins[item.Ref] == "qwen" },
		},
		{"claim forbidden", endRecord{Result: agents.ClaimFailed, Claim: claimForbidden, NeverRan: true}, 0, 0, 0, 5 * time.Minute, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := fold(startRec("a", 1, 1), endRec("a", 10*time.Minute, tt.end))
			a := h.Attempts[threads.AttemptKey{Chain: item.Ref, Kind: item.Kind}]
			rest := h.CoolDown[item]
			if a.Until.After(rest) {
				rest = a.Until
			}
			got := fmt.Sprint(a.Count, since(rest), since(h.Parked["llama"].Until), since(h.AgentHolds["dev-qwen"].Until))
			want := fmt.Sprint(tt.attempts, tt.rest, tt.parked, tt.held)
			if got != want {
				t.Errorf("attempts, rest, parked, held: %s; want %s", got, want)
			}
			if tt.extra != nil && !tt.extra(h) {
				t.Errorf("history: %+v", h)
			}
			if !h.IdleSince["dev-qwen"].Equal(at(0)) || len(h.open) != 0 {
				t.Errorf("idle since %s, open %v", h.IdleSince["dev-qwen"], h.open)
			}
		})
	}
}

// since is how long after the end of the session at ten past noon a time is; 0 for none.
func since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return t.Sub(noon.Add(10 * time.Minute))
}

func TestAttemptsRest(t *testing.T) {
	want := []time.Duration{2 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 0}
	for i, rest := range want {
		h := fold(startRec("a", 1, i+1), endRec("a", 10*time.Minute, endRecord{Result: agents.Failed}))
		a := h.Attempts[threads.AttemptKey{Chain: forge.Ref{Repo: "o/r", Number: 1}, Kind: agents.KindIssue}]
		if got := since(a.Until); a.Count != i+1 || got != rest {
			t.Errorf("after attempt %d: count %d, rest %s; want %s", i+1, a.Count, got, rest)
		}
	}
}

// The breaker opens at the third time in a row, not before, and one session that found its backend starts the count over.
func TestBreakerCounts(t *testing.T) {
	down := endRecord{Result: agents.BackendDown, Breaker: 5 * time.Minute}
	run := func(ends ...endRecord) *history {
		h := newHistory()
		for i, e := range ends {
			name := fmt.Sprint(i)
			h.apply(startRec(name, int64(i+1), 1))
			h.apply(endRec(name, 10*time.Minute, e))
		}
		return h
	}
	tests := []struct {
		name string
		ends []endRecord
		want time.Duration
	}{
		{"twice", []endRecord{down, down}, 0},
		{"three times", []endRecord{down, down, down}, 5 * time.Minute},
		{"once it worked", []endRecord{down, down, {Result: agents.Failed}, down, down}, 0},
		{"one was cancelled", []endRecord{down, down, {Result: agents.Cancelled}, down}, 5 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := since(run(tt.ends...).Parked["llama"].Until); got != tt.want {
				t.Errorf("parked for %s, want %s", got, tt.want)
			}
		})
	}
}

// What sessions used counts for the agent and for its thread, on the day on which they ended, however they ended.
func TestSpent(t *testing.T) {
	used := func(in, out int64, usd float64) *agents.Usage {
		return &agents.Usage{InputTokens: in, OutputTokens: out, CachedTokens: 1000, CostUSD: usd}
	}
	h := fold(startRec("a", 1, 1), startRec("b", 2, 1), startRec("c", 3, 1),
		endRec("a", time.Minute, endRecord{Result: agents.Done, Usage: used(10, 5, 0.5)}),
		endRec("b", time.Hour, endRecord{Result: agents.Failed, Usage: used(1, 2, 0.25)}),
		endRec("c", 2*time.Hour, endRecord{Result: agents.Done}),
	)
	want := threads.Spent{Day: threads.Day(noon), Tokens: 18, USD: 0.75}
	for _, who := range []threads.Spender{{Agent: "dev-qwen"}, {Thread: "llama"}} {
		if got := h.Spent[who]; got != want {
			t.Errorf("%+v: got %+v, want %+v", who, got, want)
		}
	}
	h.apply(startRec("d", 4, 1))
	h.apply(endRec("d", 12*time.Hour, endRecord{Result: agents.Done, Usage: used(3, 4, 0)}))
	want = threads.Spent{Day: threads.Day(noon).Add(24 * time.Hour), Tokens: 7}
	if got := h.Spent[threads.Spender{Agent: "dev-qwen"}]; got != want {
		t.Errorf("after midnight: got %+v, want %+v", got, want)
	}
}

// Of two sessions that met the limit the later reset counts; and only a session that began after it closes the matter.
func TestParking(t *testing.T) {
	limit := func(d time.Duration) endRecord { return endRecord{Result: agents.Limited, RetryAt: noon.Add(d)} }
	h := fold(
		startRec("a", 1, 1), startRec("b", 2, 1), startRec("c", 3, 1),
		endRec("a", time.Minute, limit(2*time.Hour)), endRec("b", 2*time.Minute, limit(time.Hour)),
	)
	if until := h.Parked["llama"].Until; !until.Equal(noon.Add(2 * time.Hour)) {
		t.Errorf("parked until %s, want the later of both", until)
	}
	h.apply(endRec("c", 3*time.Minute, endRecord{Result: agents.Done}))
	if _, parked := h.Parked["llama"]; !parked {
		t.Error("a session from before the limit ended the parking")
	}
	probe := startRec("d", 4, 1)
	probe.At = noon.Add(2 * time.Hour)
	h.apply(probe)
	h.apply(endRec("d", 3*time.Hour, endRecord{Result: agents.NoProgress}))
	if p, parked := h.Parked["llama"]; parked {
		t.Errorf("still parked after a session: %+v", p)
	}
}

func TestStartRemembers(t *testing.T) {
	first := startRec("a", 1, 1)
	first.Start.PassedOver = issueKey(2)
	ci := startRec("b", 12, 1)
	ci.Start.Item.Kind, ci.Start.Chain, ci.Start.Cause, ci.Start.Agent = agents.KindRework, ref{Repo: "o/r", Number: 1}, threads.CauseCI, "dev-opus"
	h := fold(first, ci)
	one, pull := forge.Ref{Repo: "o/r", Number: 1}, forge.Ref{Repo: "o/r", Number: 12}
	if h.PassedOver[issueKey(2).threads()] != 1 || h.CIFixes[pull] != 1 || h.Claimed[pull] != "dev-opus" {
		t.Errorf("passed over %v, CI fixes %v, claimed %v", h.PassedOver, h.CIFixes, h.Claimed)
	}
	if !slices.Equal(h.Writers[one], []string{"dev-qwen", "dev-opus"}) {
		t.Errorf("writers %v", h.Writers)
	}
	// A claim that fails takes back what only a session that ran is to leave.
	h.apply(endRec("b", time.Minute, endRecord{Result: agents.ClaimFailed, Claim: claimTaken, NeverRan: true}))
	if h.CIFixes[pull] != 0 || !slices.Equal(h.Writers[one], []string{"dev-qwen"}) {
		t.Errorf("after a failed claim: CI fixes %v, writers %v", h.CIFixes, h.Writers)
	}
	// Starting ends an item's patience.
	h.apply(startRec("c", 2, 1))
	if h.PassedOver[issueKey(2).threads()] != 0 {
		t.Errorf("passed over %v", h.PassedOver)
	}
}

func TestForget(t *testing.T) {
	h := fold(everything()...)
	h.CoolDown[(&threads.Merge{Ref: forge.Ref{Repo: "o/r", Number: 12}}).Key()] = noon // a merge was refused
	for _, r := range sorted(h.Claimed, forge.Ref.Compare) {
		h.apply(record{At: noon, Released: &releasedRecord{ref(r)}})
	}
	for _, r := range h.remembered() {
		h.apply(record{At: noon, Forget: &forgetRecord{ref(r)}})
	}
	if left := h.remembered(); len(left) > 0 {
		t.Errorf("still remembered: %v", left)
	}
	if n := len(h.Attempts) + len(h.failures) + len(h.remarks) + len(h.refusedAt) + len(h.logins); n > 0 {
		t.Errorf("%d entries left: %+v", n, h)
	}
	if len(h.tallies) == 0 || len(h.LastRun) == 0 {
		t.Error("agents and scheduled runs were forgotten too")
	}
}

func TestHanded(t *testing.T) {
	item := forge.Ref{Repo: "o/r", Number: 12}
	h := newHistory()
	h.CIFixes[item], h.Asked[item], h.Refused[item] = 3, 1, "no"
	h.apply(record{At: noon, Handed: &handedRecord{Ref: ref(item), Rounds: 6}})
	if h.Asked[item] != 7 || h.CIFixes[item] != 3 || h.Refused[item] != "" {
		t.Errorf("after too many rounds: %+v", h.History)
	}
	h.apply(record{At: noon, Handed: &handedRecord{Ref: ref(item), Fixes: true}})
	if h.CIFixes[item] != 0 || h.Asked[item] != 7 {
		t.Errorf("after too many fixes: %+v", h.History)
	}
}

func TestRecentIsBounded(t *testing.T) {
	h := newHistory()
	for i := range 3 * control.RecentLimit {
		h.remember(control.RecentDocument{RunID: fmt.Sprint(i)})
	}
	if len(h.recent) != control.RecentLimit || h.recent[0].RunID != fmt.Sprint(3*control.RecentLimit-1) {
		t.Errorf("%d, newest %s", len(h.recent), h.recent[0].RunID)
	}
}

// What is learned of verdicts: how long after the session in the sticky slot the first one on it came, and what it wanted.
func TestReturnsLearned(t *testing.T) {
	write := startRec("w", 1, 1)
	review := startRec("v", 11, 1)
	review.Start.Item.Kind, review.Start.Chain, review.Start.Thread, review.Start.Sticky = agents.KindReview, ref{"o/r", 1}, "anthropic", false
	wrote := endRec("w", time.Minute, endRecord{Result: agents.Done})
	judged := endRec("v", 3*time.Minute, endRecord{Result: agents.Done, Verdict: verdictChanges})
	api := write
	start := *write.Start
	start.Sticky, start.Thread = false, "anthropic"
	api.Start = &start
	for _, tt := range []struct {
		name    string
		records []record
		want    threads.Returns
	}{
		{"wants changes", []record{write, wrote, review, judged}, threads.Returns{N: 1, Gap: 120, Back: 1}},
		{"approved", []record{write, wrote, review, endRec("v", 2*time.Minute, endRecord{Result: agents.Done, Verdict: verdictApproved})}, threads.Returns{N: 1, Gap: 60}},
		{"a second reviewer", []record{write, wrote, review, judged, review, judged}, threads.Returns{N: 1, Gap: 120, Back: 1}},
		{"no verdict", []record{write, wrote, review, endRec("v", time.Minute, endRecord{Result: agents.Failed})}, threads.Returns{}},
		{"nothing was written", []record{write, endRec("w", time.Minute, endRecord{Result: agents.Failed}), review, judged}, threads.Returns{}},
		{"words only", []record{write, endRec("w", time.Minute, endRecord{Result: agents.Done, Remarked: true}), review, judged}, threads.Returns{}},
		{"written on an API", []record{api, wrote, review, judged}, threads.Returns{}},
		{"forgotten", []record{write, wrote, {At: noon, Forget: &forgetRecord{ref{"o/r", 1}}}, review, judged}, threads.Returns{}},
	} {
		h := fold(tt.records...)
		if got := h.Returns["llama"]; got != tt.want || len(h.Returns) > 1 {
			t.Errorf("%s: got %+v, want %+v", tt.name, h.Returns, tt.want)
		}
	}
}
