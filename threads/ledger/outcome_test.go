package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// TestEndTable ends one session on issue 1 after ten minutes, in each way, and checks the consequences. The zero row
// is that of a session that is done.
func TestEndTable(t *testing.T) {
	item := issueKey(1).Of()
	at := func(d time.Duration) time.Time { return noon.Add(10*time.Minute + d) }
	tests := []struct {
		name     string
		end      End
		attempts int           // of the failed attempt
		rest     time.Duration // after the end, until the issue may start again
		parked   time.Duration // the thread, after the end
		held     time.Duration // the agent, after the end
		extra    func(h *State) bool
	}{
		{"done", End{Result: agents.Done}, 0, 0, 0, 0, func(h *State) bool {
			return h.Agent("dev-qwen").Done == 1 &&
				h.Agent("dev-qwen").Failed == 0
		}},
		{"words only", End{Result: agents.Done, Remarked: true}, 0, time.Minute, 0, 0, nil},
		{
			"refused",
			End{Result: agents.Refused, Reason: "no"},
			0, 0, 0, 0,
			func(h *State) bool { return h.Chain(item.Ref).Refused == "no" },
		},
		{
			"push refused",
			End{Result: agents.PushRefused, Reason: "no ticket"},
			0, 0, 0, 0,
			func(h *State) bool {
				c := h.Chain(item.Ref)
				return c.Refused == "no ticket" && c.RefusedAs == threads.PushRefused && h.Agent("dev-qwen").Failed == 0
			},
		},
		{
			"too big",
			End{
				Result: agents.TooBig, Reason: "a.bin was not shown",
				Approved: &threads.Approval{Head: "aa", Base: "main"},
				Unshown:  &threads.Unshown{Head: "aa", Base: "main"},
			},
			0, 0, 0, 0,
			func(h *State) bool {
				c := h.Chain(item.Ref)
				return *c.Unshown == threads.Unshown{Head: "aa", Base: "main", Words: "a.bin was not shown"} &&
					c.Approved == nil && h.Agent("dev-qwen").Failed == 0
			},
		},
		{
			"over its limit",
			End{Result: agents.OverBudget, Stop: threads.StopOverLimit, Reason: "5 of 5 tokens"},
			0, 0, 0, 0,
			func(h *State) bool {
				c := h.Chain(item.Ref)
				return c.Refused == "5 of 5 tokens" && c.RefusedAs == threads.OverLimit && h.Agent("dev-qwen").Failed == 0
			},
		},
		{
			"over the day's budget",
			End{Result: agents.OverBudget, Stop: threads.StopOverBudget},
			0, 0, 0, 0,
			func(h *State) bool { return !h.Chain(item.Ref).HasRefusal() },
		},
		{"loop", End{Result: agents.Looped}, 1, 2 * time.Minute, 0, 0, nil},
		{
			"failed",
			End{Result: agents.Failed},
			1, 2 * time.Minute, 0, 0,
			func(h *State) bool { return h.Agent("dev-qwen").Done == 0 && h.Agent("dev-qwen").Failed == 1 },
		},
		{
			"token rejected",
			End{Result: agents.TokenRejected, Reason: "refused"},
			0, 0, 0, 5 * time.Minute,
			func(h *State) bool {
				a := h.Agent("dev-qwen")
				return a.HeldAs == threads.TokenRejected && a.HeldWhy == "refused" && a.Failed == 0
			},
		},
		{
			"no place",
			End{Result: agents.NoPlace, NeverRan: true, Reason: "no node has meta.llama = box2"},
			0, 0, 0, time.Minute,
			func(h *State) bool {
				a := h.Agent("dev-qwen")
				return a.HeldAs == threads.NoPlace && a.Failed == 0 && len(h.Chain(item.Ref).Writers) == 0
			},
		},
		{"failed with a comment", End{Result: agents.Failed, Remarked: true}, 1, 2 * time.Minute, 0, 0, nil},
		{"no progress", End{Result: agents.NoProgress}, 1, 2 * time.Minute, 0, 0, nil},
		{
			"program not found",
			End{Result: agents.Failed, NeverRan: true},
			0, 0, 0, time.Minute,
			func(h *State) bool {
				return len(h.Chain(item.Ref).Writers) == 0 && len(h.Slots) == 0 && h.Agent("dev-qwen").HeldAs == threads.NoAnswer
			},
		},
		{
			"no room for a process",
			End{Result: agents.NoRoom, NeverRan: true},
			0, 0, time.Minute, 0,
			func(h *State) bool {
				return len(h.Chain(item.Ref).Writers) == 0 && len(h.Slots) == 0 && h.Agent("dev-qwen").Failed == 0
			},
		},
		{"stalled", End{Result: agents.Stalled}, 1, 2 * time.Minute, 0, 0, nil},
		{"timeout", End{Result: agents.TimedOut}, 1, 2 * time.Minute, 0, 0, nil},
		{"limited for an hour", End{Result: agents.Limited, RetryAt: at(time.Hour)}, 0, 0, time.Hour, 0, nil},
		{"limited until yesterday", End{Result: agents.Limited, RetryAt: at(-24 * time.Hour)}, 0, 0, time.Minute, 0, nil},
		{
			"limited until next year",
			End{Result: agents.Limited, RetryAt: at(400 * 24 * time.Hour), Reason: "limit"},
			0, 0, 5 * time.Minute,
			0, func(h *State) bool { return h.Thread("llama").ParkedWhy == "limit (reset in 2027 is not believed)" },
		},
		{
			"limited for a week",
			End{Result: agents.Limited, RetryAt: at(7 * 24 * time.Hour)},
			0, 0,
			7 * 24 * time.Hour, 0, nil,
		},
		{"limited, not said how long", End{Result: agents.Limited}, 0, 0, 5 * time.Minute, 0, nil},
		{
			"no backend",
			End{Result: agents.BackendDown, Breaker: time.Hour},
			0, 10 * time.Second, 0, 0,
			func(h *State) bool { return h.Thread("llama").Downs == 1 },
		},
		{
			"no answer",
			End{Result: agents.Unanswered, Reason: "no credit"},
			0, 2 * time.Minute, 0, time.Minute,
			func(h *State) bool {
				a := h.Agent("dev-qwen")
				return a.HeldAs == threads.NoAnswer && a.HeldWhy == "no credit" && a.Failed == 0
			},
		},
		{
			"killed",
			End{Result: agents.Killed},
			0, 2 * time.Minute, 0, time.Minute,
			func(h *State) bool { return h.Agent("dev-qwen").Failed == 0 && h.Thread("llama").Unanswered == "" },
		},
		{"cancelled", End{Result: agents.Cancelled, Stop: threads.StopClosed}, 0, 0, 0, 0, nil},
		{"taken off", End{Result: agents.Cancelled, Stop: threads.StopReassigned}, 0, time.Minute, 0, 0, nil},
		{"released", End{Result: agents.Cancelled, Stop: threads.StopReleased}, 0, time.Minute, 0, 0, nil},
		{"done when it was taken off", End{Result: agents.Done, Stop: threads.StopReassigned}, 0, 0, 0, 0, nil},
		{
			"done at its limit",
			End{Result: agents.Done, Stop: threads.StopOverLimit},
			0, 0, 0, 0,
			func(h *State) bool { return !h.Chain(item.Ref).HasRefusal() },
		},
		{
			"an approval that no review gave",
			End{Result: agents.Done, Approved: &threads.Approval{Head: "aa"}},
			0, 0, 0, 0,
			func(h *State) bool { return len(h.Chain(item.Ref).Approved) == 0 },
		},
		{
			"lost",
			End{Result: agents.Lost},
			0, 0, 0, 0,
			func(h *State) bool { return h.Slots[threads.SlotKey{Thread: "llama", Slot: 1}].Agent == "dev-qwen" },
		},
		{
			"claim taken",
			End{Result: agents.ClaimFailed, Claim: ClaimTaken, NeverRan: true},
			0, time.Minute, 0, 0,
			func(h *State) bool {
				return h.Chain(item.Ref).Claimed == "" && len(h.Chain(item.Ref).Writers) == 0 && len(h.Slots) == 0 &&
					len(h.Recent) == 0
			},
		},
		{
			"claim unanswered",
			End{Result: agents.ClaimFailed, Claim: ClaimUnavailable, NeverRan: true},
			0, 10 * time.Second, 0, 0,
			func(h *State) bool {
				return h.Chain(item.Ref).Claimed == "dev-qwen" && h.Chain(item.Ref).Login == "qwen"
			},
		},
		{
			"claim forbidden",
			End{Result: agents.ClaimFailed, Claim: ClaimForbidden, NeverRan: true, Reason: "no right"},
			0, 0, 0, 0,
			func(h *State) bool { // in other repositories the agent works
				return h.Repo("o/r").Barred["dev-qwen"] == threads.Bar{Until: noon.Add(15 * time.Minute), Why: "no right"}
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := fold(startRec("a", 1, 1), endRec("a", 10*time.Minute, tt.end))
			a := h.Chain(item.Ref).Attempt(item.Kind)
			rest := h.Item(item).CoolDown
			if a.Until.After(rest) {
				rest = a.Until
			}
			got := fmt.Sprint(a.Count, since(rest), since(h.Thread("llama").ParkedUntil), since(h.Agent("dev-qwen").HeldUntil))
			want := fmt.Sprint(tt.attempts, tt.rest, tt.parked, tt.held)
			if got != want {
				t.Errorf("attempts, rest, parked, held: got %s, want %s", got, want)
			}
			if tt.extra != nil && !tt.extra(h) {
				t.Errorf("got history %+v", h)
			}
			if !h.Agent("dev-qwen").IdleSince.Equal(at(0)) || len(h.Open) != 0 {
				t.Errorf("got idle since %s and open sessions %v", h.Agent("dev-qwen").IdleSince, h.Open)
			}
		})
	}
}

// since returns how long a time is after the session's end at ten past noon; 0 for none.
func since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return t.Sub(noon.Add(10 * time.Minute))
}

func TestAttemptsRest(t *testing.T) {
	want := []time.Duration{2 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 0}
	for i, rest := range want {
		h := fold(startRec("a", 1, i+1), endRec("a", 10*time.Minute, End{Result: agents.Failed}))
		a := h.Chain(forge.Ref{Repo: "o/r", Number: 1}).Attempt(agents.KindIssue)
		if got := since(a.Until); a.Count != i+1 || got != rest {
			t.Errorf("after attempt %d: got count %d and rest %s, want %d and %s", i+1, a.Count, got, i+1, rest)
		}
	}
}

// TestBreakerCounts checks that the breaker opens at the third failure in a row and not before, and that a session
// that found its backend resets the count.
func TestBreakerCounts(t *testing.T) {
	down := End{Result: agents.BackendDown, Breaker: 5 * time.Minute}
	run := func(ends ...End) *State {
		h := New()
		for i, e := range ends {
			name := fmt.Sprint(i)
			h.Apply(startRec(name, int64(i+1), 1))
			h.Apply(endRec(name, 10*time.Minute, e))
		}
		return h
	}
	tests := []struct {
		name string
		ends []End
		want time.Duration
	}{
		{"twice", []End{down, down}, 0},
		{"three times", []End{down, down, down}, 5 * time.Minute},
		{"once it worked", []End{down, down, {Result: agents.Failed}, down, down}, 0},
		{"one was cancelled", []End{down, down, {Result: agents.Cancelled}, down}, 5 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := since(run(tt.ends...).Thread("llama").ParkedUntil); got != tt.want {
				t.Errorf("got parked for %s, want %s", got, tt.want)
			}
		})
	}
}

// TestBreakerOfAgentAndItem: one agent finds no backend while another agent on its thread does. The thread's breaker
// never opens, so the agent is held, and the item rests, longer each time. If no agent of the thread finds a backend,
// only the thread's breaker counts.
func TestBreakerOfAgentAndItem(t *testing.T) {
	down := End{Result: agents.BackendDown, Breaker: 5 * time.Minute, Reason: "refused"}
	h, at, n := New(), noon, 0
	play := func(agent string, item int64, e End) {
		n++
		begin := startRec(fmt.Sprint(n), item, 1)
		begin.At, begin.Start.Agent = at, agent
		h.Apply(begin)
		end := endRec(fmt.Sprint(n), 0, e)
		end.At = at
		h.Apply(end)
	}
	var holds, rests []time.Duration
	for i := range 8 {
		play("dev-opus", int64(100+i), End{Result: agents.Done})
		play("dev-qwen", 1, down)
		if until := h.Agent("dev-qwen").HeldUntil; until.IsZero() {
			holds = append(holds, 0)
		} else {
			holds = append(holds, until.Sub(at))
		}
		rests = append(rests, h.Item(issueKey(1).Of()).CoolDown.Sub(at))
		at = at.Add(2 * time.Hour)
	}
	const m, s = time.Minute, time.Second
	if want := []time.Duration{0, 0, 5 * m, 10 * m, 20 * m, 40 * m, 60 * m, 60 * m}; !slices.Equal(holds, want) {
		t.Errorf("the agent was held for %v, want %v", holds, want)
	}
	if want := []time.Duration{
		10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 640 * s,
		1280 * s,
	}; !slices.Equal(rests, want) {
		t.Errorf("the item rested for %v, want %v", rests, want)
	}
	play("dev-qwen", 1, End{Result: agents.NoProgress}) // it found the backend
	if h.Agent("dev-qwen").Downs+h.Item(issueKey(1).Of()).Downs+h.Thread("llama").Downs != 0 {
		t.Error("a session that found the backend did not reset the counts")
	}
	for i := range 9 {
		play([]string{"dev-qwen", "dev-opus"}[i%2], int64(200+i), down)
	}
	if a := h.Agent("dev-qwen"); a.Downs > 1 || a.Held(at.Add(6*m)) || !h.Thread("llama").ParkedUntil.Equal(at.Add(5*m)) {
		t.Errorf("without any backend: got agent %+v, thread parked until %s", a, h.Thread("llama").ParkedUntil)
	}
}

// TestLimitsInARow checks that a usage limit that comes back at every probe parks longer each time, whatever reset
// the program reports. Sessions that met it side by side count once.
func TestLimitsInARow(t *testing.T) {
	for name, retry := range map[string]time.Time{
		"in the past": noon.Add(-time.Hour), "in a moment": noon, "year 9999": time.Date(9999, 12, 31, 23, 59,
			59, 0, time.UTC),
		"unknown": {},
	} {
		h, at := New(), noon
		var parks []time.Duration
		for i := range 9 {
			for _, twin := range []string{"a", "b"} {
				begin := startRec(fmt.Sprint(i, twin), int64(i), 1)
				begin.At = at
				h.Apply(begin)
			}
			for _, twin := range []string{"a", "b"} {
				end := endRec(fmt.Sprint(i, twin), 0, End{Result: agents.Limited, RetryAt: retry})
				end.At = at
				h.Apply(end)
			}
			until := h.Thread("llama").ParkedUntil
			parks = append(parks, until.Sub(at).Round(time.Minute)/time.Minute)
			at = until
		}
		want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60}
		if name == "year 9999" || name == "unknown" {
			want[0], want[1], want[2] = 5, 5, 5
		}
		if !slices.Equal(parks, want) {
			t.Errorf("%s: got parked for %d minutes, want %d", name, parks, want)
		}
		h.Apply(startRec("z", 1, 1))
		h.Apply(endRec("z", 0, End{Result: agents.Done}))
		if n := h.Thread("llama").Limits; n != 0 {
			t.Errorf("%s: got %d limits after a session that met none, want 0", name, n)
		}
	}
}

// TestSpent checks that usage counts for the agent and its thread on the day of its report, however a session ended.
func TestSpent(t *testing.T) {
	used := func(in, out int64, usd float64) *agents.Usage {
		return &agents.Usage{InputTokens: in, OutputTokens: out, CachedTokens: 1000, CostUSD: usd}
	}
	h := fold(startRec("a", 1, 1), startRec("b", 2, 1), startRec("c", 3, 1),
		endRec("a", time.Minute, End{Result: agents.Done, Usage: used(10, 5, 0.5)}),
		endRec("b", time.Hour, End{Result: agents.Failed, Usage: used(1, 2, 0.25)}),
		endRec("c", 2*time.Hour, End{Result: agents.Done}),
	)
	want := threads.Spent{Day: threads.Day(noon), Tokens: 18, USD: 0.75}
	if agent, thread := h.Agent("dev-qwen").Spent, h.Thread("llama").Spent; agent != want || thread != want {
		t.Errorf("got %+v and %+v, want %+v", agent, thread, want)
	}
	h.Apply(startRec("d", 4, 1))
	h.Apply(endRec("d", 12*time.Hour, End{Result: agents.Done, Usage: used(3, 4, 0)}))
	want = threads.Spent{Day: threads.Day(noon).Add(24 * time.Hour), Tokens: 7}
	if got := h.Agent("dev-qwen").Spent; got != want {
		t.Errorf("after midnight: got %+v, want %+v", got, want)
	}
}

// TestUsed checks that the usage of a running session counts at once, for its agent, its thread and its issue, on the
// day of its report. Usage that shrinks counts for nothing, and the end adds only what was not reported before. All
// of it survives a restart; the issue's own part lasts until a retry.
func TestUsed(t *testing.T) {
	told := func(run string, after time.Duration, tokens int64, usd float64) Record {
		return Record{At: noon.Add(after), Used: &Used{run, agents.Usage{InputTokens: tokens, CostUSD: usd}}}
	}
	one := forge.Ref{Repo: "o/r", Number: 1}
	review := startRec("b", 12, 1)
	review.Start.Item.Kind, review.Start.Chain = agents.KindReview, Ref(one)
	h := fold(startRec("a", 1, 1), told("a", time.Minute, 100, 1), told("a", 2*time.Minute, 40, 2), told("x", 0, 5, 5))
	check := func(when string, today threads.Spent, issue threads.Used) {
		t.Helper()
		if got := h.Agent("dev-qwen").Spent; got != today || h.Thread("llama").Spent != today {
			t.Errorf("%s: agent %+v and thread %+v, want %+v", when, got, h.Thread("llama").Spent, today)
		}
		if got := h.Chain(one).Used; got != issue {
			t.Errorf("%s: issue %+v, want %+v", when, got, issue)
		}
	}
	day := threads.Day(noon)
	check("while it runs", threads.Spent{Day: day, Tokens: 100, USD: 2}, threads.Used{Tokens: 100, USD: 2})
	h = Fold(h.Compact(noon.Add(3 * time.Minute)))
	check("after a restart", threads.Spent{Day: day, Tokens: 100, USD: 2}, threads.Used{Tokens: 100, USD: 2})
	h.Apply(told("a", 13*time.Hour, 130, 2))
	check("after midnight", threads.Spent{Day: day.Add(24 * time.Hour), Tokens: 30}, threads.Used{Tokens: 130, USD: 2})
	h.Apply(endRec("a", 14*time.Hour, End{Result: agents.Failed, Usage: &agents.Usage{InputTokens: 131, CostUSD: 1}}))
	check("at its end", threads.Spent{Day: day.Add(24 * time.Hour), Tokens: 31}, threads.Used{Tokens: 131, USD: 2})
	if p := h.Past[0]; *p.Usage != (agents.Usage{InputTokens: 131, CostUSD: 2}) {
		t.Errorf("the past session has usage %+v, want 131 tokens and $2", *p.Usage)
	}
	h.Apply(review)
	h.Apply(told("b", 15*time.Hour, 9, 0))
	h.Apply(endRec("b", 16*time.Hour, End{Result: agents.Lost}))
	check("a review that was lost", threads.Spent{Day: day.Add(24 * time.Hour), Tokens: 40},
		threads.Used{Tokens: 140, USD: 2})
	h.Apply(Record{At: noon, Handed: &Handed{Ref: Ref(one)}})
	check("a person was asked", threads.Spent{Day: day.Add(24 * time.Hour), Tokens: 40}, threads.Used{Tokens: 140, USD: 2})
	again := h.Compact(noon)
	h.Apply(Record{At: noon, Handed: &Handed{Ref: Ref{"o/r", 12}, Used: Ref(one)}})
	check("a person was asked about it", threads.Spent{Day: day.Add(24 * time.Hour), Tokens: 40}, threads.Used{})
	h = Fold(again)
	h.Apply(Record{At: noon, Retry: &Retry{Refs: []Ref{Ref(one)}}})
	check("a person says retry", threads.Spent{Day: day.Add(24 * time.Hour), Tokens: 40}, threads.Used{})
}

// TestScheduledOverLimit checks that scheduled work that reaches its limit waits for its next due time. It asks no
// person, because it has no issue for the question. Scheduled work that a day's budget ended stays due.
func TestScheduledOverLimit(t *testing.T) {
	for stop, ran := range map[threads.Code]bool{threads.StopOverLimit: true, threads.StopOverBudget: false} {
		start := startRec("a", 0, 1)
		start.Start.Item, start.Start.Chain = Key{Kind: agents.KindSchedule, Ref: Ref{Repo: "o/r"}, Role: "planner"},
			Ref{Repo: "o/r"}
		h := fold(start, Record{At: noon, Used: &Used{"a", agents.Usage{InputTokens: 9}}},
			endRec("a", time.Minute, End{Result: agents.OverBudget, Stop: stop, Reason: "9 of 9 tokens"}))
		c := h.Chain(forge.Ref{Repo: "o/r"})
		if got := !h.Item(start.Start.Item.Of()).LastRun.IsZero(); got != ran || c.HasRefusal() ||
			c.Used != (threads.Used{}) {
			t.Errorf("%s: got ran %v, want %v; chain %+v", stop, got, ran, c)
		}
	}
}

// An account that is never answered burns no attempt, and each of its issues starts at most 30 times a day.
func TestAccountWithoutAnswers(t *testing.T) {
	h, at, starts := New(), time.Duration(0), make(map[int64]int)
	for n := 0; at < 24*time.Hour; n++ {
		var issue int64 // the first of three that may start
		for issue = 1; issue < 3 && h.Item(issueKey(issue).Of()).CoolDown.After(noon.Add(at)); issue++ {
		}
		at = max(at, h.Item(issueKey(issue).Of()).CoolDown.Sub(noon))
		starts[issue]++
		run := fmt.Sprint(n)
		start := startRec(run, issue, 1)
		start.At = noon.Add(at)
		h.Apply(start)
		end := endRec(run, 0, End{Result: agents.Unanswered, Reason: "no credit"})
		end.At = noon.Add(at + 2*time.Second)
		h.Apply(end)
		at = h.Agent("dev-qwen").HeldUntil.Sub(noon)
	}
	for issue := int64(1); issue <= 3; issue++ {
		if a := h.Chain(forge.Ref{Repo: "o/r", Number: issue}).Attempts; len(a) > 0 || starts[issue] > 30 {
			t.Errorf("issue %d: %d starts, attempts %+v", issue, starts[issue], a)
		}
	}
	if rest := h.Agent("dev-qwen").HeldUntil.Sub(noon); rest > 25*time.Hour+time.Minute {
		t.Errorf("the agent is held until %s", rest)
	}
}

// A program that cannot be started is tried 3 times in 7 minutes and 28 times a day, not each minute, and costs no
// issue an attempt.
func TestUnstartable(t *testing.T) {
	h, starts := New(), map[time.Duration]int{}
	for n, at := 0, time.Duration(0); at < 24*time.Hour; n++ {
		run := fmt.Sprint(n)
		start := startRec(run, 1, 1)
		start.At = noon.Add(at)
		h.Apply(start)
		end := endRec(run, 0, End{Result: agents.Failed, NeverRan: true, Reason: "cannot start claude: no such file"})
		end.At = start.At
		h.Apply(end)
		for _, within := range []time.Duration{7 * time.Minute, 24 * time.Hour} {
			if at < within {
				starts[within]++
			}
		}
		at = h.Agent("dev-qwen").HeldUntil.Sub(noon)
	}
	if a := h.Chain(forge.Ref{Repo: "o/r", Number: 1}).Attempts; len(a) > 0 || starts[7*time.Minute] != 3 ||
		starts[24*time.Hour] > 30 {
		t.Errorf("got starts %v, attempts %v", starts, a)
	}
}

// An issue that is not answered while its agent's other issues are is at fault from the third time on. An answered
// session on it starts the count again.
func TestIssueWithoutAnswers(t *testing.T) {
	h := New()
	play := func(issue int64, result agents.Result) {
		run := fmt.Sprint(len(h.Recent), issue, result)
		h.Apply(startRec(run, issue, 1))
		h.Apply(endRec(run, time.Minute, End{Result: result, Reason: "400"}))
	}
	for _, rounds := range []int{aloneMost - 1, aloneMost} {
		for n := 1; n <= rounds; n++ {
			play(2, agents.Done)
			play(1, agents.Unanswered)
			if got, want := len(h.Chain(forge.Ref{Repo: "o/r", Number: 1}).Attempts), n/aloneMost; got != want {
				t.Errorf("after %d without an answer: got %d failed kinds, want %d", n, got, want)
			}
		}
		if rounds < aloneMost {
			play(1, agents.Refused)
			h.Chains[forge.Ref{Repo: "o/r", Number: 1}].Refused = ""
		}
	}
	if a := h.Agent("dev-qwen"); a.Held(noon.Add(2*time.Minute)) && a.Downs > 0 {
		t.Errorf("the agent is held for an issue's fault: %+v", a)
	}
}

// Two agents of a thread without an answer share an account. One alone does not park the thread, nor do agents that
// were killed.
func TestThreadWithoutAnswers(t *testing.T) {
	for _, tt := range []struct {
		second string
		result agents.Result
		parked bool
	}{
		{"dev-opus", agents.Unanswered, true},
		{"dev-qwen", agents.Unanswered, false},
		{"dev-opus", agents.Killed, false},
	} {
		h := New()
		for i, agent := range []string{"dev-qwen", tt.second} {
			start := startRec(fmt.Sprint(i), int64(i+1), 1)
			start.Start.Agent = agent
			h.Apply(start)
			h.Apply(endRec(fmt.Sprint(i), time.Minute, End{Result: tt.result, Reason: "no credit"}))
		}
		if got := h.Thread("llama").ParkedAs == threads.ThreadDown; got != tt.parked {
			t.Errorf("%+v: got parked %t", tt, got)
		}
	}
}

// Scheduled work has no issue that could be refused, discussed or given up. It waits for its next due time, unless the
// session could not work.
func TestScheduledWork(t *testing.T) {
	for result, ran := range map[agents.Result]bool{
		agents.Done: true, agents.Refused: true, agents.Question: true, agents.Planned: true, agents.Failed: true,
		agents.BackendDown: false, agents.Cancelled: false, agents.Lost: false,
	} {
		start := startRec("a", 0, 1)
		start.Start.Item, start.Start.Chain = Key{Kind: agents.KindSchedule, Ref: Ref{Repo: "o/r"}, Role: "planner"},
			Ref{Repo: "o/r"}
		h := fold(start, endRec("a", time.Minute, End{Result: result, Reason: "why", Words: "why"}))
		if got := !h.Item(start.Start.Item.Of()).LastRun.IsZero(); got != ran {
			t.Errorf("%s: got ran %v, want %v", result, got, ran)
		}
		if c := h.Chain(forge.Ref{Repo: "o/r"}); c.HasRefusal() || c.Dialogue != nil || len(c.Attempts) > 0 {
			t.Errorf("%s: got chain %+v", result, c)
		}
	}
}

// The last question that is allowed is asked. One more is a refusal.
func TestTooManyQuestions(t *testing.T) {
	h := New()
	for n := 1; n <= threads.MaxQuestions+1; n++ {
		run := fmt.Sprint(n)
		h.Apply(startRec(run, 1, 1))
		h.Apply(endRec(run, time.Minute, End{Result: agents.Question, Reason: "Which?"}))
		c := h.Chain(forge.Ref{Repo: "o/r", Number: 1})
		if refused := n > threads.MaxQuestions; c.HasRefusal() != refused || (c.Dialogue.Run == run) == refused {
			t.Errorf("after question %d: got refused %q, dialogue %+v", n, c.Refused, c.Dialogue)
		}
	}
}

// A session elsewhere than in a sticky slot leaves no resident. One whose attempt has no number, as in a damaged
// journal, can still fail.
func TestEndOfOddSessions(t *testing.T) {
	api := startRec("a", 1, 1)
	api.Start.Sticky = false
	if h := fold(api, endRec("a", time.Minute, End{Result: agents.Done})); len(h.Slots) > 0 {
		t.Errorf("got residents %v", h.Slots)
	}
	h := fold(startRec("b", 1, 0), endRec("b", time.Minute, End{Result: agents.Failed}))
	if a := h.Chain(forge.Ref{Repo: "o/r", Number: 1}).Attempt(agents.KindIssue); !a.Until.IsZero() {
		t.Errorf("got attempt %+v", a)
	}
}

func TestDoubledIsBounded(t *testing.T) {
	for times, want := range map[int]time.Duration{
		0: time.Minute, 1: time.Minute, 2: 2 * time.Minute, 7: time.Hour,
		200: time.Hour,
	} {
		if got := doubled(time.Minute, times, time.Hour); got != want {
			t.Errorf("%d times: got %s, want %s", times, got, want)
		}
	}
}

// TestParking checks that of two sessions that met the limit the later reset counts, and that only a session that
// started after the limit ends the park.
func TestParking(t *testing.T) {
	limit := func(d time.Duration) End { return End{Result: agents.Limited, RetryAt: noon.Add(d)} }
	h := fold(
		startRec("a", 1, 1), startRec("b", 2, 1), startRec("c", 3, 1),
		endRec("a", time.Minute, limit(2*time.Hour)), endRec("b", 2*time.Minute, limit(time.Hour)),
	)
	if until := h.Thread("llama").ParkedUntil; !until.Equal(noon.Add(2 * time.Hour)) {
		t.Errorf("got parked until %s, want the later reset", until)
	}
	if as := h.Thread("llama").ParkedAs; as != "" {
		t.Errorf("a provider's limit: got parked as %s", as)
	}
	h.Apply(endRec("c", 3*time.Minute, End{Result: agents.Done}))
	if h.Thread("llama").ParkedUntil.IsZero() {
		t.Error("a session from before the limit ended the park")
	}
	probe := startRec("d", 4, 1)
	probe.At = noon.Add(2 * time.Hour)
	h.Apply(probe)
	h.Apply(endRec("d", 3*time.Hour, End{Result: agents.NoProgress}))
	if until := h.Thread("llama").ParkedUntil; !until.IsZero() {
		t.Errorf("got parked until %s after a session, want not parked", until)
	}
}

// The agent of the last writing session finished the chain, even if another agent wrote between two of its sessions.
// A session that never ran does not count, even after the journal was compacted while it was open.
func TestFinisher(t *testing.T) {
	start := func(run, agent string) Record {
		r := startRec(run, 1, 1)
		r.Start.Agent = agent
		return r
	}
	one := forge.Ref{Repo: "o/r", Number: 1}
	done, never := End{Result: agents.Done}, End{Result: agents.ClaimFailed, Claim: ClaimTaken, NeverRan: true}
	records := []Record{
		start("a", "dev-qwen"), endRec("a", time.Minute, done), start("b", "dev-opus"), endRec("b", time.Minute, done),
		start("c", "dev-qwen"), endRec("c", time.Minute, done), start("d", "dev-opus"),
	}
	for want, last := range map[string]End{"dev-opus": done, "dev-qwen": never} {
		h, short := fold(records...), fold(fold(records...).Compact(noon)...)
		for _, s := range []*State{h, short} {
			s.Apply(endRec("d", time.Minute, last))
			c := s.Chain(one)
			if c.Finisher() != want || !slices.Equal(c.Writers, []string{"dev-qwen", "dev-opus"}) {
				t.Errorf("%s wrote last of %v, want %s", c.Finisher(), c.Writers, want)
			}
		}
	}
	old := threads.ChainHistory{Writers: []string{"dev-qwen", "dev-opus"}} // compacted by an older version
	if old.Finisher() != "dev-opus" {
		t.Errorf("of an older journal %s wrote last, want dev-opus", old.Finisher())
	}
}

func TestStartRemembers(t *testing.T) {
	first := startRec("a", 1, 1)
	first.Start.PassedOver = issueKey(2)
	ci := startRec("b", 12, 1)
	ci.Start.Item.Kind, ci.Start.Chain, ci.Start.Cause, ci.Start.Agent = agents.KindRework, Ref{Repo: "o/r", Number: 1},
		threads.CauseCI, "dev-opus"
	h := fold(first, ci)
	one, pull := forge.Ref{Repo: "o/r", Number: 1}, forge.Ref{Repo: "o/r", Number: 12}
	if h.Item(issueKey(2).Of()).PassedOver != 1 || h.Toll(one).CIFixes != 1 || h.Chain(pull).Claimed != "dev-opus" {
		t.Errorf("passed over %v, CI fixes %v, claimed %v; want 1, 1, dev-opus", h.Item(issueKey(2).Of()).PassedOver,
			h.Toll(one).CIFixes, h.Chain(pull).Claimed)
	}
	if !slices.Equal(h.Chain(one).Writers, []string{"dev-qwen", "dev-opus"}) {
		t.Errorf("got writers %v, want dev-qwen and dev-opus", h.Chain(one).Writers)
	}
	// A failed claim undoes the effects of a start, and says why the item rests.
	const by = "already taken: it is claimed by dev-x on b"
	h.Apply(endRec("b", time.Minute, End{Result: agents.ClaimFailed, Claim: ClaimTaken, NeverRan: true, Reason: by}))
	if got := h.Item(threads.Key{Kind: agents.KindRework, Ref: pull}).CoolWhy; got != by {
		t.Errorf("after a failed claim: the item rests because of %q, want %q", got, by)
	}
	if h.Toll(one) != (threads.Toll{Sessions: 1}) || !slices.Equal(h.Chain(one).Writers, []string{"dev-qwen"}) {
		t.Errorf("after a failed claim: got %+v and writers %v, want one session and dev-qwen", h.Toll(one),
			h.Chain(one).Writers)
	}
	if got := h.Chain(one).Finisher(); got != "dev-qwen" {
		t.Errorf("after a failed claim: %s wrote last, want dev-qwen", got)
	}
	// A start resets the count of an item that was passed over.
	h.Apply(startRec("c", 2, 1))
	if h.Item(issueKey(2).Of()).PassedOver != 0 {
		t.Errorf("got passed over %v after its start, want 0", h.Item(issueKey(2).Of()).PassedOver)
	}
}

func TestForget(t *testing.T) {
	h := fold(everything()...)
	Entry(h.Items, (&threads.Merge{Ref: forge.Ref{Repo: "o/r", Number: 12}}).Key()).CoolDown = noon // a merge was refused
	for _, r := range h.Select(func(c *threads.ChainHistory) bool { return c.Claimed != "" }) {
		h.Apply(Record{At: noon, Released: &Released{Ref(r)}})
	}
	for _, r := range h.Remembered() {
		h.Apply(Record{At: noon, Forget: &Forget{Ref(r)}})
	}
	if left := h.Remembered(); len(left) > 0 {
		t.Errorf("got remembered %v, want none", left)
	}
	for r, c := range h.Chains {
		if !isZero(*c) && !c.Cancel { // a cancel must still be carried out
			t.Errorf("%s: got history %+v, want none", r, c)
		}
	}
	ran := func(i *threads.ItemHistory) bool { return !i.LastRun.IsZero() }
	if len(h.Agents) == 0 || !slices.ContainsFunc(slices.Collect(maps.Values(h.Items)), ran) {
		t.Error("the history of agents or of scheduled runs was lost")
	}
}

func TestHanded(t *testing.T) {
	item := forge.Ref{Repo: "o/r", Number: 12}
	h := New()
	*Entry(h.Chains, item) = threads.ChainHistory{Asked: 1, Refused: "no"}
	h.Apply(Record{At: noon, Handed: &Handed{Ref: Ref(item), Rounds: 6}})
	if h.Chain(item).Asked != 7 || h.Chain(item).Refused != "" { // the rounds are those of an older journal
		t.Errorf("after too many rounds: %+v", h.Chain(item))
	}
}

// TestLabelled checks that the cause of our label is kept until work continues, because the person who finds it needs
// it.
func TestLabelled(t *testing.T) {
	item := Ref{Repo: "o/r", Number: 12}
	for label, r := range map[string]Record{
		forge.LabelNeedsHuman: {At: noon, Handed: &Handed{Ref: item, Why: "6 rounds"}},
		forge.LabelBlocked:    {At: noon, Blocked: &Blocked{Chain: item, Kind: agents.KindIssue, Why: "6 rounds"}},
		"needs-human, told":   {At: noon, Told: &Told{Ref: item, Key: "k", Why: "6 rounds"}},
	} {
		h := fold(r, Record{At: noon, Told: &Told{Ref: item, Key: "another"}})
		label, _, _ = strings.Cut(label, ",")
		if got := h.Chain(forge.Ref(item)).Labelled; got != (threads.Labelled{Label: label, Why: "6 rounds"}) {
			t.Errorf("%s: %+v", label, got)
		}
		started, retried := h, fold(r, Record{At: noon, Retry: &Retry{Refs: []Ref{item}}})
		started.Apply(startRec("a", 12, 1))
		for _, s := range []*State{started, retried} {
			if got := s.Chain(forge.Ref(item)).Labelled; got != (threads.Labelled{}) {
				t.Errorf("%s: got %+v after work continued, want none", label, got)
			}
		}
	}
}

// TestHandedAgain: an account removes the label needs-human each time, and the supervisor sets it again. From the
// second time on the item rests, longer each time, until a retry.
func TestHandedAgain(t *testing.T) {
	item := forge.Ref{Repo: "o/r", Number: 12}
	h := New()
	var rests []time.Duration
	for range 10 {
		h.Apply(Record{At: noon, Handed: &Handed{Ref: Ref(item)}})
		rest := max(0, h.Item(threads.Key{Kind: agents.KindReview, Ref: item}).CoolDown.Sub(noon))
		rests = append(rests, rest)
		for _, kind := range []agents.Kind{agents.KindIssue, agents.KindRework} {
			if got := max(0, h.Item(threads.Key{Kind: kind, Ref: item}).CoolDown.Sub(noon)); got != rest {
				t.Errorf("%s rested %s, a review %s", kind, got, rest)
			}
		}
	}
	const want = "[0s 10m0s 20m0s 40m0s 1h20m0s 2h40m0s 5h20m0s 10h40m0s 21h20m0s 24h0m0s]"
	if got := fmt.Sprint(rests); got != want {
		t.Errorf("got rests %s, want %s", got, want)
	}
	h.Apply(Record{At: noon, Retry: &Retry{Refs: []Ref{Ref(item)}}})
	h.Apply(Record{At: noon, Handed: &Handed{Ref: Ref(item)}})
	if rest := h.Item(threads.Key{Kind: agents.KindReview, Ref: item}).CoolDown; !rest.IsZero() {
		t.Errorf("after a retry: got a rest until %s, want none", rest)
	}
}

// TestRoundsCounted counts the rounds of an issue: sessions that answered a request for changes or a conflict, or
// claimed to, and reviews, even of a head that moved. Nothing but a retry of the issue forgets them. A session that
// burnt an attempt is not a round, nor is one that never ran or was kept from its work.
func TestRoundsCounted(t *testing.T) {
	on := func(run string, kind agents.Kind, cause threads.Cause) Record {
		r := startRec(run, 12, 1)
		r.Start.Item.Kind, r.Start.Chain, r.Start.Cause = kind, Ref{"o/r", 11}, cause
		return r
	}
	for _, tt := range []struct {
		end  End
		want int
	}{
		{End{Result: agents.Done}, 1},
		{End{Result: agents.Done, Remarked: true}, 1},
		{End{Result: agents.Cancelled, Stop: threads.StopHeadMoved}, 1},
		{End{Result: agents.Failed}, 0},
		{End{Result: agents.NoProgress}, 0},
		{End{Result: agents.Limited}, 0},
		{End{Result: agents.Lost}, 0},
		{End{Result: agents.ClaimFailed, Claim: ClaimTaken, NeverRan: true}, 0},
		{End{Result: agents.Cancelled, NeverRan: true}, 0},
	} {
		h := fold(
			on("a", agents.KindRework, threads.CauseConflict), endRec("a", time.Minute, tt.end),
			on("b", agents.KindReview, ""), endRec("b", time.Minute, tt.end),
			on("c", agents.KindRework, threads.CauseChanges), endRec("c", time.Minute, tt.end),
		)
		issue := forge.Ref{Repo: "o/r", Number: 11}
		for _, r := range []Record{
			{At: noon, Handed: &Handed{Ref: Ref{"o/r", 12}}},
			{At: noon, Forget: &Forget{Ref(issue)}},
			{At: noon, Forget: &Forget{Ref{"o/r", 12}}},
			{At: noon, Retry: &Retry{Refs: []Ref{{"o/r", 12}}}},
		} {
			h.Apply(r) // none is a retry of the issue
		}
		if c := h.Toll(issue); c.Rounds != 2*tt.want || c.Reviews != tt.want {
			t.Errorf("%+v: got %d rounds and %d reviews, want twice and once %d", tt.end, c.Rounds, c.Reviews, tt.want)
		}
		h.Apply(Record{At: noon, Retry: &Retry{Refs: []Ref{Ref(issue)}}})
		if c := h.Toll(issue); c != (threads.Toll{}) {
			t.Errorf("retried: got %+v, want nothing", c)
		}
	}
}

// TestPushClearsAttempts checks that a push answers a request for changes at once. Whether it repairs the checks or
// resolves the conflict shows only when a review starts; until then earlier failures count.
func TestPushClearsAttempts(t *testing.T) {
	rework := func(run string, attempt int, cause threads.Cause) Record {
		r := startRec(run, 12, attempt)
		r.Start.Item.Kind, r.Start.Chain, r.Start.Cause = agents.KindRework, Ref{"o/r", 11}, cause
		return r
	}
	review := startRec("v", 12, 1)
	review.Start.Item.Kind, review.Start.Chain = agents.KindReview, Ref{"o/r", 11}
	for cause, want := range map[threads.Cause]int{
		threads.CauseChanges: 0, threads.CauseCI: 1, threads.CauseConflict: 1,
	} {
		h := fold(
			rework("a", 1, cause), endRec("a", time.Minute, End{Result: agents.Failed}),
			rework("b", 2, cause), endRec("b", 5*time.Minute, End{Result: agents.Done, Reason: "pushed"}),
		)
		attempts := func() int { return h.Chain(forge.Ref{Repo: "o/r", Number: 11}).Attempt(agents.KindRework).Count }
		if got := attempts(); got != want {
			t.Errorf("%s: got %d failures after a push, want %d", cause, got, want)
		}
		h.Apply(review)
		h.Apply(endRec("v", 6*time.Minute, End{Result: agents.Done, Verdict: Approved}))
		if got := attempts(); got != 0 {
			t.Errorf("%s: got %d failures after a verdict, want 0", cause, got)
		}
	}
}

func TestRecentIsBounded(t *testing.T) {
	h := New()
	for i := range 3 * RecentLimit {
		h.remember(Recent{RunID: fmt.Sprint(i)})
	}
	if len(h.Recent) != RecentLimit || h.Recent[0].RunID != fmt.Sprint(3*RecentLimit-1) {
		t.Errorf("got %d sessions, the newest %s, want the newest 20", len(h.Recent), h.Recent[0].RunID)
	}
}

// TestReturnsLearned checks the statistics of verdicts: how long after the end of a session in a sticky slot the
// first verdict came, and whether it requested changes.
func TestReturnsLearned(t *testing.T) {
	write := startRec("w", 1, 1)
	review := startRec("v", 11, 1)
	review.Start.Item.Kind, review.Start.Chain, review.Start.Thread, review.Start.Sticky = agents.KindReview,
		Ref{"o/r", 1}, "anthropic", false
	wrote := endRec("w", time.Minute, End{Result: agents.Done})
	judged := endRec("v", 3*time.Minute, End{Result: agents.Done, Verdict: ChangesRequested})
	api := write
	start := *write.Start
	start.Sticky, start.Thread = false, "anthropic"
	api.Start = &start
	for _, tt := range []struct {
		name    string
		records []Record
		want    threads.Returns
	}{
		{"wants changes", []Record{write, wrote, review, judged}, threads.Returns{N: 1, Gap: 120, Back: 1}},
		{
			"approved",
			[]Record{write, wrote, review, endRec("v", 2*time.Minute, End{Result: agents.Done, Verdict: Approved})},
			threads.Returns{N: 1, Gap: 60},
		},
		{
			"a second reviewer",
			[]Record{write, wrote, review, judged, review, judged},
			threads.Returns{N: 1, Gap: 120, Back: 1},
		},
		{
			"no verdict",
			[]Record{write, wrote, review, endRec("v", time.Minute, End{Result: agents.Failed})},
			threads.Returns{},
		},
		{
			"nothing was written",
			[]Record{write, endRec("w", time.Minute, End{Result: agents.Failed}), review, judged},
			threads.Returns{},
		},
		{
			"words only",
			[]Record{write, endRec("w", time.Minute, End{Result: agents.Done, Remarked: true}), review, judged},
			threads.Returns{},
		},
		{"written on an API", []Record{api, wrote, review, judged}, threads.Returns{}},
		{"forgotten", []Record{write, wrote, {At: noon, Forget: &Forget{Ref{"o/r", 1}}}, review, judged}, threads.Returns{}},
	} {
		h := fold(tt.records...)
		if got := h.Thread("llama").Returns; got != tt.want || h.Thread("anthropic").Returns.N > 0 || len(h.Threads) > 2 {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestReviewsOfPeople checks that reviews of a person's pull requests count for an hour, and those of an agent's not
// at all. A review that never ran does not count.
func TestReviewsOfPeople(t *testing.T) {
	review := func(run, author string, at time.Duration) Record {
		r := startRec(run, 12, 1)
		r.At, r.Start.Item.Kind, r.Start.Author = noon.Add(at), agents.KindReview, author
		return r
	}
	h := fold(
		review("a", "johba", 0), endRec("a", time.Minute, End{Result: agents.Failed}),
		review("b", "johba", 30*time.Minute), endRec("b", 31*time.Minute, End{Result: agents.ClaimFailed, NeverRan: true}),
		review("c", "johba", 40*time.Minute), review("d", "ada", 50*time.Minute), review("e", "", 55*time.Minute),
	)
	count := func(at time.Duration) string {
		now := noon.Add(at)
		return fmt.Sprint(len(h.Reviewed("johba", now)), len(h.Reviewed("ada", now)), len(h.Authors))
	}
	for at, want := range map[time.Duration]string{
		55 * time.Minute: "2 1 2", time.Hour: "1 1 2",
		100 * time.Minute: "0 1 2",
	} {
		if got := count(at); got != want {
			t.Errorf("after %s: got %s reviews of johba and ada, and authors, want %s", at, got, want)
		}
	}
	h.Apply(review("f", "eve", 101*time.Minute))
	if got := count(101 * time.Minute); got != "0 1 2" {
		t.Errorf("after eve's review: got %s, want 0 1 2 without johba", got)
	}
	h.TurnBack(noon.Add(101*time.Minute), noon.Add(time.Minute))
	if got := len(h.Reviewed("eve", noon.Add(50*time.Minute))); got != 1 {
		t.Errorf("after TurnBack: got %d reviews of eve, want 1", got)
	}
	if list := h.Compact(noon.Add(24 * time.Hour)); slices.ContainsFunc(list,
		func(r Record) bool { return r.Author != nil }) {
		t.Error("a journal compacted the next day still has reviews of people")
	}
}

// TestTailOfTheLastAttempt checks that only the output of the last attempt is kept, for the comment on the blocked
// item.
func TestTailOfTheLastAttempt(t *testing.T) {
	s := New()
	for n := 1; n <= threads.MaxAttempts; n++ {
		run := fmt.Sprint("r", n)
		start := startRec(run, 1, 1)
		start.Start.Attempt = n
		s.Apply(start)
		s.Apply(endRec(run, time.Minute, End{Result: agents.Failed, Tail: "line\n"}))
		kept := s.Chain(forge.Ref{Repo: "o/r", Number: 1}).Attempt(agents.KindIssue)
		if last := n == threads.MaxAttempts; kept.Count != n || (kept.Tail != "") != last {
			t.Errorf("after attempt %d: got %+v, want a tail only after the last", n, kept)
		}
	}
}

// TestToll: every session counts for its issue, and for the agent that opened the issue, except those that say nothing
// about the work. Closing the issue and a compaction forget none.
func TestToll(t *testing.T) {
	opened := startRec("a", 11, 1)
	opened.Start.Opener = "planner"
	for _, tt := range []struct {
		end  End
		want int
	}{
		{End{Result: agents.Done}, 1},
		{End{Result: agents.Done, Remarked: true}, 1},
		{End{Result: agents.Failed}, 1},
		{End{Result: agents.Lost}, 1},
		{End{Result: agents.OverBudget}, 1},
		{End{Result: agents.Question, Words: "?"}, 1},
		{End{Result: agents.Cancelled, Stop: threads.StopClosed}, 1},
		{End{Result: agents.Cancelled, Stop: threads.StopReassigned}, 1},
		{End{Result: agents.Cancelled, Stop: threads.StopCancelled}, 0},
		{End{Result: agents.Cancelled, Stop: threads.StopReleased}, 0},
		{End{Result: agents.Limited}, 0},
		{End{Result: agents.BackendDown}, 0},
		{End{Result: agents.Unanswered}, 0},
		{End{Result: agents.TokenRejected}, 0},
		{End{Result: agents.Failed, NeverRan: true}, 0},
	} {
		h := fold(opened)
		if h.Toll(forge.Ref{Repo: "o/r", Number: 11}).Sessions != 1 || h.Opened["planner"].Sessions != 1 {
			t.Errorf("a running session does not count: %+v", h.Tolls)
		}
		h.Apply(endRec("a", time.Minute, tt.end))
		h.Apply(Record{At: noon, Forget: &Forget{Ref{"o/r", 11}}})
		h = Fold(h.Compact(noon.Add(time.Hour)))
		toll, day := h.Toll(forge.Ref{Repo: "o/r", Number: 11}).Sessions, h.Opened["planner"].Sessions
		if toll != tt.want || day != tt.want {
			t.Errorf("%+v: counted %d for the issue and %d for its opener, want %d", tt.end, toll, day, tt.want)
		}
		h.Apply(Record{At: noon, Retry: &Retry{Refs: []Ref{{"o/r", 11}}, Opener: "planner"}})
		if len(h.Tolls)+len(h.Opened) > 0 {
			t.Errorf("after a retry: got %v and %v, want nothing", h.Tolls, h.Opened)
		}
	}
	person, scheduled := startRec("a", 12, 1), startRec("b", 0, 1)
	person.Start.Author, scheduled.Start.Item.Kind = "johba", agents.KindSchedule
	if h := fold(person, scheduled); len(h.Tolls) > 0 {
		t.Errorf("got %v for a person's pull request and scheduled work, want nothing", h.Tolls)
	}
}

// TestStartClearsNothing: the failures of a rework are forgotten when a review gives a verdict, because it starts only
// after every request was answered. A review that achieves nothing forgets none.
func TestStartClearsNothing(t *testing.T) {
	on := func(run string, kind agents.Kind) Record {
		r := startRec(run, 12, 1)
		r.Start.Item.Kind, r.Start.Chain, r.Start.Cause = kind, Ref{"o/r", 11}, threads.CauseCI
		return r
	}
	h := fold(
		on("a", agents.KindRework), endRec("a", time.Minute, End{Result: agents.Failed}),
		on("b", agents.KindReview), endRec("b", time.Minute, End{Result: agents.NoProgress}), on("c", agents.KindReview),
	)
	failures := func() int { return h.Chain(forge.Ref{Repo: "o/r", Number: 11}).Attempt(agents.KindRework).Count }
	if failures() != 1 {
		t.Errorf("got %d failures after two starts of a review, want 1", failures())
	}
	h.Apply(endRec("c", 2*time.Minute, End{Result: agents.Done, Verdict: ChangesRequested}))
	if failures() != 0 {
		t.Errorf("got %d failures after a verdict, want none", failures())
	}
}

// TestOpenedDay: a day's count starts at zero, and what is taken back belongs to its own day.
func TestOpenedDay(t *testing.T) {
	var o threads.OpenedDay
	o = o.Add(noon, 1).Add(noon, 1).Add(noon, -1)
	if o.Sessions != 1 || !o.Day.Equal(threads.Day(noon)) {
		t.Errorf("got %+v, want one session", o)
	}
	next := noon.Add(24 * time.Hour)
	if o = o.Add(next, 1); o.Sessions != 1 {
		t.Errorf("got %+v on the next day, want one session", o)
	}
	if o = o.Add(noon, -1); o.Sessions != 1 {
		t.Errorf("got %+v after a session of yesterday was taken back, want one session", o)
	}
}
