package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/services"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func issueKey(n int64) Key { return Key{Kind: agents.KindIssue, Ref: Ref{Repo: "o/r", Number: n}} }

func startRec(run string, n int64, attempt int) Record {
	return Record{At: noon, Start: &Start{
		Run: run, Thread: "llama", Slot: 1, Sticky: true, Agent: "dev-qwen", Login: "qwen", Role: "dev", Item: issueKey(n),
		Chain: Ref{Repo: "o/r", Number: n}, Attempt: attempt,
	}}
}

func endRec(run string, after time.Duration, e End) Record {
	e.Run = run
	return Record{At: noon.Add(after), End: &e}
}

func fold(records ...Record) *State { return Fold(records) }

// everything is a journal that sets every field of the state.
func everything() []Record {
	schedule := startRec("s", 0, 1)
	schedule.Start.Item, schedule.Start.Chain = Key{Kind: agents.KindSchedule, Ref: Ref{Repo: "o/r"}, Role: "planner"},
		Ref{Repo: "o/r"}
	schedule.Start.Agent = "planner-opus"
	rework := startRec("r", 12, 1)
	rework.Start.Item.Kind, rework.Start.Cause, rework.Start.Chain = agents.KindRework, threads.CauseCI,
		Ref{Repo: "o/r", Number: 11}
	review := startRec("v", 61, 1)
	review.Start.Item.Kind, review.Start.Chain, review.Start.Sticky, review.Start.Agent = agents.KindReview,
		Ref{Repo: "o/r", Number: 60}, false, "review-opus"
	conflict := startRec("w", 22, 1)
	conflict.Start.Item.Kind, conflict.Start.Cause = agents.KindRework, threads.CauseConflict
	elsewhere := startRec("i", 23, 1)
	elsewhere.Start.Thread, elsewhere.Start.Sticky = "anthropic", false
	full := startRec("y", 63, 1)
	full.Start.Thread = "box"
	again := startRec("x", 61, 1)
	again.Start.Item.Kind, again.Start.Chain, again.Start.Agent = agents.KindReview, review.Start.Chain, "review-opus"
	big := startRec("z", 62, 1)
	big.Start.Item.Kind, big.Start.Agent = agents.KindReview, "review-opus"
	review.Start.Author = "johba"
	planned := startRec("o", 62, 1)
	planned.Start.Item.Kind, planned.Start.Chain, planned.Start.Opener = agents.KindReview, review.Start.Chain, "planner"
	revoked := startRec("j", 24, 1)
	revoked.Start.Agent, revoked.Start.Thread, revoked.Start.Sticky = "dev-opus", "anthropic", false
	climbed := startRec("k", 25, 3)
	climbed.Start.Rung = 1
	away := startRec("y", 27, 1)
	away.Start.Executor = "nomad"
	plans := startRec("k", 71, 1)
	plans.Start.Cause = threads.CausePlan
	splits, filed := startRec("v", 72, 1), startRec("v", 73, 1)
	splits.Start.Cause, filed.Start.Cause = threads.CauseSplit, threads.CauseSplit
	over := startRec("p", 3, 1)
	over.Start.PassedOver = issueKey(4)
	back, other := startRec("z", 28, 1), startRec("z", 28, 1)
	other.Start.Agent = "dev-opus"
	forgets := startRec("y", 27, 1)
	forgets.Start.Model = "hybrid"
	return []Record{
		back, endRec("z", time.Minute, End{Result: agents.Done}), other,
		endRec("z", time.Minute, End{Result: agents.Done}), back, endRec("z", time.Minute, End{Result: agents.Done}),
		forgets, endRec("y", time.Minute, End{Result: agents.Done, Talk: 900, Restored: 800, Found: 8}),
		startRec("a", 1, 1), endRec("a", time.Minute, End{Result: agents.Failed, Reason: "boom", Tail: "line\n"}),
		startRec("q", 70, 1), endRec("q", time.Minute, End{Result: agents.Question, Reason: "Which?", Words: "Which?"}),
		{At: noon, Asked: &Asked{Ref{Repo: "o/r", Number: 70}, "q"}},
		plans, endRec("k", time.Minute, End{Result: agents.Planned, Reason: "First", Words: "First"}),
		{At: noon, Asked: &Asked{Ref{Repo: "o/r", Number: 71}, "k"}},
		{At: noon, Answered: &Answered{Ref: Ref{Repo: "o/r", Number: 71}, Comments: []int64{7, 9}}},
		splits, endRec("v", time.Minute, End{Result: agents.Planned, Reason: "First", Words: "# One"}),
		{At: noon, Answered: &Answered{Ref: Ref{Repo: "o/r", Number: 72}, Approved: true}},
		filed, endRec("v", time.Minute, End{Result: agents.Planned, Reason: "First", Words: "# One"}),
		{At: noon, Answered: &Answered{Ref: Ref{Repo: "o/r", Number: 73}, Filed: true}},
		startRec("b", 2, 1), endRec("b", time.Minute, End{Result: agents.Done, Receipt: &Receipt{
			N: 7, Hash: strings.Repeat("a", 64), Pull: Ref{Repo: "o/r", Number: 80}, Chain: Ref{Repo: "o/r", Number: 2},
		}}),
		{At: noon, Receipt: &Receipt{N: 6, Hash: strings.Repeat("b", 64), Pull: Ref{Repo: "o/r", Number: 81}}},
		{At: noon, Receipt: &Receipt{N: 6, Pull: Ref{Repo: "o/r", Number: 81}, Shown: true}},
		{At: noon, Receipt: &Receipt{N: 5, Hash: strings.Repeat("c", 64), Pruned: true, Lost: 2}},
		schedule, endRec("s", time.Minute, End{Result: agents.Done}),
		rework, over, climbed,
		away,
		{At: noon, Sent: &Sent{
			Run: "y", Title: "one", Head: "aa", Base: "main", Seen: noon, Reviewed: 3,
			Comments: []int64{4},
		}},
		{At: noon, Placed: &Placed{"y", "box2/1f0c", noon.Add(time.Second)}},
		{At: noon, Stop: &Stop{"y", threads.StopClosed, "closed"}},
		{At: noon, Service: &Service{Name: "old", Life: noon, State: services.New(noon)}},
		{At: noon, Service: &Service{Name: "old", Gone: true}},
		{At: noon, Service: &Service{
			Name: "llama", Life: noon, Run: "r1", Step: 2, Program: true, PID: 9, Definition: "ab",
			State: services.State{Phase: services.Ready, Since: noon, Good: noon, Starts: 2},
		}},
		startRec("u", 60, 1), endRec("u", time.Minute, End{
			Result: agents.Done, Resumed: &agents.Resumption{Cached: 9, Computed: 91, Changed: "line 3: x"}, Cold: "the prompt",
			Usage: &agents.Usage{InputTokens: 3, CacheUntold: true},
		}),
		planned, endRec("o", time.Minute, End{Result: agents.Done, Verdict: Approved}),
		review, endRec("v", 2*time.Minute, End{Result: agents.Done, Verdict: ChangesRequested}),
		again, endRec("x", 3*time.Minute, End{Result: agents.Done, Verdict: Approved, Approved: &threads.Approval{
			Head: "aa", Base: "main", MergeBase: "bb",
		}}),
		big, endRec("z", 3*time.Minute, End{
			Result: agents.TooBig, Reason: "a binary", Unshown: &threads.Unshown{Head: "aa", Base: "main"},
		}),
		startRec("c", 5, 1), endRec("c", time.Minute, End{Result: agents.Refused, Reason: "too large"}),
		startRec("d", 6, 1), endRec("d", time.Minute, End{
			Result: agents.Limited, RetryAt: noon.Add(time.Hour),
			Reason: "limit",
		}),
		startRec("f", 8, 1), endRec("f", time.Minute, End{
			Result: agents.Done, Remarked: true,
			Usage: &agents.Usage{InputTokens: 7, CostUSD: 0.5},
		}),
		startRec("g", 9, 1), endRec("g", time.Minute, End{
			Result: agents.ClaimFailed, Claim: ClaimForbidden, Reason: "403",
			NeverRan: true,
		}),
		startRec("l", 25, 1),
		{At: noon, Used: &Used{"l", agents.Usage{InputTokens: 9}}},
		endRec("l", time.Minute, End{Result: agents.OverBudget, Stop: threads.StopOverLimit, Reason: "9 of 9 tokens"}),
		startRec("q", 26, 1),
		{At: noon, Used: &Used{"q", agents.Usage{OutputTokens: 4}}},
		conflict, endRec("w", time.Minute, End{Result: agents.Done}),
		startRec("h", 10, 5), endRec("h", time.Minute, End{Result: agents.Stalled, Reason: "silent"}),
		startRec("m", 29, 1), endRec("m", time.Minute, End{Result: agents.Unanswered, Reason: "no credit"}),
		startRec("e", 7, 1), endRec("e", time.Minute, End{
			Result: agents.BackendDown, Breaker: time.Minute,
			Reason: "refused",
		}),
		revoked, endRec("j", time.Minute, End{Result: agents.TokenRejected, Reason: "the forge refuses it"}),
		elsewhere, endRec("i", time.Minute, End{Result: agents.Limited, Reason: "limit"}),
		full, endRec("y", time.Minute, End{Result: agents.NoRoom, Reason: "full"}),
		{At: noon, Blocked: &Blocked{Chain: Ref{Repo: "o/r", Number: 10}, Kind: agents.KindIssue, Why: "gave up"}},
		{At: noon, Released: &Released{Ref{Repo: "o/r", Number: 1}}},
		{At: noon, Handed: &Handed{Ref: Ref{Repo: "o/r", Number: 20}, Rounds: 6, Why: "6 rounds"}},
		{At: noon, Steal: &Steal{
			Ref: Ref{"o/r", 50}, Run: "s", From: "dev-qwen", To: "dev-opus", FromLogin: "qwen",
			ToLogin: "opus",
		}},
		{At: noon, Listen: &Listen{Ref: Ref{Repo: "o/r"}, Since: noon}},
		{At: noon, Heard: &Heard{Ref: Ref{"o/r", 7}, Comment: 5, By: "johba", Verb: "why"}},
		{At: noon, Heard: &Heard{Ref: Ref{"o/r", 7}, Comment: 5, Answer: "waits"}},
		{At: noon, Heard: &Heard{Ref: Ref{"o/r", 8}, Comment: 6, By: "johba", Verb: "retry"}},
		{At: noon, Heard: &Heard{Ref: Ref{"o/r", 8}, Comment: 6, Done: true}},
		{At: noon, Tell: &Tell{
			ID: 5, Ref: Ref{"o/r", 7}, Chain: Ref{"o/r", 11}, By: "johba", Text: "use tabs", Run: "r", Agent: "dev-qwen",
			Heard: noon.Add(time.Minute), Inbox: true,
		}},
		{At: noon, Steal: &Steal{Ref: Ref{"o/r", 51}, Run: "t", From: "dev-qwen", To: "dev-opus"}},
		{At: noon, Listen: &Listen{Ref: Ref{Repo: "o/r"}, Since: noon}},
		{At: noon, Heard: &Heard{Ref: Ref{"o/r", 7}, Comment: 5, By: "johba", Verb: "why"}},
		{At: noon, Heard: &Heard{Ref: Ref{"o/r", 7}, Comment: 5, Answer: "waits"}},
		{At: noon, Heard: &Heard{Ref: Ref{"o/r", 8}, Comment: 6, By: "johba", Verb: "retry"}},
		{At: noon, Heard: &Heard{Ref: Ref{"o/r", 8}, Comment: 6, Done: true}},
		{At: noon, Steal: &Steal{Ref: Ref{"o/r", 51}, Run: "t", From: "dev-qwen", To: "dev-opus", Done: true}},
		{At: noon, Cancel: &Cancel{Refs: []Ref{{"o/r", 40}, {"o/r", 41}}}},
		{At: noon, Cancel: &Cancel{Refs: []Ref{{"o/r", 41}}, Done: true}},
		{At: noon, Cancel: &Cancel{Refs: []Ref{{"o/r", 42}}, Close: true}},
		{At: noon, Told: &Told{Ref{Repo: "o/r", Number: 43}, "blocked by", "blocked by #1"}},
		{At: noon, Merged: &Merged{Ref: Ref{Repo: "o/r", Number: 61}, Chain: Ref{Repo: "o/r", Number: 60}, When: noon}},
		{At: noon, Merged: &Merged{
			Ref: Ref{Repo: "o/r", Number: 61}, Chain: Ref{Repo: "o/r", Number: 60}, When: noon, Agent: "dev-qwen",
			Credit: &Credit{Role: "dev", Model: "m", Thread: "llama", Labels: []string{"bug"}, Outcome: agents.Done, Reviews: 1},
		}},
		{At: noon, Day: &Day{Day: "2026-11-20", Sums: []Sum{
			{SumKey{}, Work{Sessions: 2, Failed: Waste{Sessions: 1, FailedBy: []string{"dev-qwen"}}}},
			{SumKey{ByAgent, "dev-qwen"}, Work{Sessions: 2}},
			{SumKey{ByThread, "llama"}, Work{Sessions: 2}},
		}}},
		{At: noon, Carried: &Carried{
			Ref: Ref{Repo: "o/r", Number: 44}, From: "a9", Head: "aa", Base: "main", MergeBase: "b1", Same: true,
		}},
		{At: noon, NoMerge: &NoMerge{
			Ref{Repo: "o/r", Number: 44},
			threads.NoMerge{Head: "aa", Base: "main", Cause: forge.RefusedRule, Words: "no", Count: 1, Until: noon},
		}},
		{At: noon, Free: &Free{"llama", 1, threads.AgentBusy, noon.Add(-time.Hour), noon}},
		{At: noon, Retry: &Retry{Refs: []Ref{{"o/r", 2}}}},
		{At: noon, Retry: &Retry{Refs: []Ref{{"o/r", 0}}, Role: "gardener"}},
		{At: noon, Repo: &Repo{"o/r", threads.RepoHistory{
			SetupFails: 2, SetupUntil: noon, SetupWhy: "npm ci, exit 1", RedBase: "ba5e", RedWhy: "go test, exit 1",
			Spent:  threads.Spent{Day: threads.Day(noon), Tokens: 7},
			Barred: map[string]threads.Bar{"dev-qwen": {Until: noon.Add(time.Hour), Why: "may only read"}},
		}}},
		{At: noon, Pause: &Pause{}},
		{At: noon, Pause: &Pause{Off: true}},
		{At: noon, Pause: &Pause{Pause: threads.Pause{Thread: "llama"}, By: "ada", Why: "too hot"}},
		{At: noon, Pause: &Pause{Pause: threads.Pause{Agent: "dev-qwen"}}},
		{At: noon, Pause: &Pause{Pause: threads.Pause{Repo: "o/r"}}},
		{At: noon, Renamed: &Renamed{
			Agents: map[string]string{"dev-before": "dev-after"}, Threads: map[string]string{"before": "after"},
		}},
		{At: noon, Chain: &Chain{Ref{Repo: "o/r", Number: 30}, threads.ChainHistory{Retried: noon}}},
		swept("s1", 0), sweptEnd("s1", 0),
		sick("1", 91), sickEnd("1"), sick("2", 92), sickEnd("2"), sick("3", 93), sickEnd("3"), sick("4", 94), sickEnd("4"),
	}
}

// sick and sickEnd are a session of an agent that fails whatever it does.
func sick(run string, number int64) Record {
	r := startRec("sick"+run, number, 1)
	r.Start.Agent, r.Start.Thread, r.Start.Role, r.Start.Sticky = "dev-sick", "sick", "sick", false
	return r
}

func sickEnd(run string) Record {
	end := End{Result: agents.Failed, Reason: "exit status 127", LastLine: "npm: not found"}
	return endRec("sick"+run, time.Minute, end)
}

// swept and sweptEnd are a run of scheduled work that fails at a time.
func swept(run string, after time.Duration) Record {
	r := startRec(run, 0, 1)
	r.At = noon.Add(after)
	r.Start.Agent, r.Start.Thread, r.Start.Role, r.Start.Sticky = "dev-sick", "sick", "sweeper", false
	r.Start.Item, r.Start.Chain = Key{Kind: agents.KindSchedule, Ref: Ref{Repo: "o/r"}, Role: "sweeper"}, Ref{Repo: "o/r"}
	return r
}

func sweptEnd(run string, after time.Duration) Record {
	end := endRec(run, 0, End{Result: agents.Failed, Reason: "exit status 1", LastLine: "no broom"})
	end.At = noon.Add(after)
	return end
}

// Scheduled work that fails rests longer each time in a row, until a run succeeds or a person asks for one.
func TestFailedRuns(t *testing.T) {
	h := fold()
	at := time.Duration(0)
	rests := []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute, 160 * time.Minute}
	key := threads.Key{Kind: agents.KindSchedule, Ref: forge.Ref{Repo: "o/r"}, Role: "sweeper"}
	for i, want := range rests {
		run := fmt.Sprint("r", i)
		h.Apply(swept(run, at))
		h.Apply(sweptEnd(run, at))
		it := h.Item(key)
		if rest := it.CoolDown.Sub(noon.Add(at)); rest != want || it.Runs.Failed != i+1 || !it.Runs.Since.Equal(noon) {
			t.Errorf("failure %d: got a rest of %s and %+v, want %s", i+1, rest, it.Runs, want)
		}
		at += want
	}
	if got := h.Item(key).Runs.Words; got != "exit status 1: no broom" {
		t.Errorf("got the words %q", got)
	}
	h.Apply(Record{At: noon.Add(at), Retry: &Retry{Refs: []Ref{{Repo: "o/r"}}, Role: "sweeper"}})
	if it := h.Item(key); !it.CoolDown.IsZero() || !it.Wanted() {
		t.Errorf("after a request: got %+v, want no rest", it)
	}
	h.Apply(swept("good", at))
	end := endRec("good", 0, End{Result: agents.Done})
	end.At = noon.Add(at)
	h.Apply(end)
	if got := h.Item(key).Runs; got != (threads.FailedRuns{}) {
		t.Errorf("after a good run: got %+v, want none", got)
	}
}

// TestCompactionForgetsNothing checks that compaction keeps every field of every entry. A new field fails here until
// everything() sets it.
func TestCompactionForgetsNothing(t *testing.T) {
	h := fold(everything()...)
	set := make(map[string]bool)
	for _, entries := range []any{
		h.Chains, h.Items, h.Agents, h.Threads, h.Authors, h.Tolls, h.Opened, h.Failing, h.Repos,
	} {
		for _, e := range reflect.ValueOf(entries).Seq2() {
			noteFields(set, e.Elem())
		}
	}
	for name, in := range set {
		if !in {
			t.Errorf("no entry of the test sets %s", name)
		}
	}
	if min(len(h.Open), len(h.Steals), len(h.Recent), len(h.Past), len(h.Slots), len(h.Paused), len(h.Merges), len(h.Free),
		len(h.Parks), len(h.Days), len(h.Services), len(h.Listens), len(h.Heard), len(h.Tells), len(h.Owed),
		int(h.Receipt.N), int(h.Pruned.Lost)) == 0 {
		t.Errorf("the test leaves a part of the state empty: %+v", h)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for _, r := range h.Compact(noon) {
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	records, corrupt := Parse(text.Bytes())
	if len(corrupt) > 0 {
		t.Errorf("compaction wrote corrupt lines: %q", corrupt)
	}
	if diff := cmp.Diff(h, fold(records...), sameState); diff != "" {
		t.Error(diff)
	}
}

// TestEveryRecordIsRead checks that every kind of line is read as it was written. A new one is corrupt until valid
// knows it.
func TestEveryRecordIsRead(t *testing.T) {
	want := append(everything(), Record{At: noon, Forget: &Forget{Ref{Repo: "o/r", Number: 2}}})
	got, corrupt := Parse(encoded(t, want))
	if len(corrupt) > 0 {
		t.Errorf("got %d corrupt lines, want none; the first: %s", len(corrupt), corrupt[0])
	}
	if diff := cmp.Diff(want, got, unkept); diff != "" {
		t.Error(diff)
	}
	kinds := reflect.TypeFor[Record]()
	for i := range kinds.NumField() {
		here := func(r Record) bool { return !reflect.ValueOf(r).Field(i).IsZero() }
		compacted := fold(want...).Compact(noon)
		if !slices.ContainsFunc(want, here) && !slices.ContainsFunc(compacted, here) {
			t.Errorf("the test has no record %s", kinds.Field(i).Name)
		}
	}
}

// noteFields records by name which fields of an entry are set.
func noteFields(set map[string]bool, entry reflect.Value) {
	for i := range entry.NumField() {
		name := entry.Type().Name() + "." + entry.Type().Field(i).Name
		set[name] = set[name] || !entry.Field(i).IsZero()
	}
}

// unkept are the fields that no record has.
var unkept = cmpopts.IgnoreUnexported(services.State{})

// sameState compares states. An empty entry equals a missing one.
var sameState = cmp.Options{
	unkept,
	cmpopts.IgnoreMapEntries(func(_ forge.Ref, c *threads.ChainHistory) bool { return isZero(*c) }),
	cmpopts.IgnoreMapEntries(func(_ threads.Key, i *threads.ItemHistory) bool { return isZero(*i) }),
	cmpopts.IgnoreMapEntries(func(_ string, a *threads.AgentHistory) bool { return isZero(*a) }),
	cmpopts.IgnoreMapEntries(func(_ string, t *threads.ThreadHistory) bool { return isZero(*t) }),
}

func TestParseJournal(t *testing.T) {
	good := `{"at":"2026-11-21T12:00:00Z","released":{"ref":"o/r#1"}}`
	tests := []struct {
		name, text       string
		records, corrupt int
	}{
		{"empty", "", 0, 0},
		{"whole", good + "\n" + good + "\n", 2, 0},
		{"last line torn", good + "\n" + good[:20], 1, 0},
		{"last line without its end", good + "\n" + good, 2, 0},
		{"garbage inside", good + "\nnonsense\n" + good + "\n", 2, 1},
		{"zeros after a power cut", good + "\n" + strings.Repeat("\x00", 100), 1, 0},
		{"zeros inside", good + "\n" + strings.Repeat("\x00", 100) + "\n" + good + "\n", 2, 1},
		{"of a later version", `{"at":"2026-11-21T12:00:00Z","new":{}}` + "\n", 0, 1},
		{"unknown field", `{"at":"2026-11-21T12:00:00Z","released":{"ref":"o/r#1"},"new":1}` + "\n", 1, 0},
		{"number that is none", `{"at":"2026-11-21T12:00:00Z","released":{"ref":"o/r#x"}}` + "\n", 0, 1},
		{"blank lines", "\n\n" + good + "\n\n", 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			records, corrupt := Parse([]byte(tt.text))
			if len(records) != tt.records || len(corrupt) != tt.corrupt {
				t.Errorf("got %d records and %d corrupt lines, want %d and %d", len(records), len(corrupt), tt.records, tt.corrupt)
			}
		})
	}
}

// FuzzJournal checks that no text makes the reader panic, and that compaction keeps the meaning of what was read.
func FuzzJournal(f *testing.F) {
	var all bytes.Buffer
	enc := json.NewEncoder(&all)
	for _, r := range everything() {
		if err := enc.Encode(r); err != nil {
			f.Fatal(err)
		}
	}
	for line := range bytes.Lines(all.Bytes()) {
		f.Add(line)
	}
	f.Add(all.Bytes())
	f.Add(all.Bytes()[:all.Len()-9])
	f.Fuzz(func(t *testing.T, text []byte) {
		records, _ := Parse(text)
		h := fold(records...)
		h.Remembered()
		var compacted bytes.Buffer
		enc := json.NewEncoder(&compacted)
		for _, r := range h.Compact(noon) {
			if err := enc.Encode(r); err != nil {
				t.Skip("a year that JSON cannot encode")
			}
		}
		again, corrupt := Parse(compacted.Bytes())
		if len(corrupt) > 0 {
			t.Fatalf("compaction wrote corrupt lines: %q", corrupt)
		}
		first, second := h.Compact(noon), fold(again...).Compact(noon)
		if diff := cmp.Diff(first, second, unkept); diff != "" {
			t.Errorf("a second compaction changed the journal:\n%s", diff)
		}
	})
}

func TestRefText(t *testing.T) {
	for _, r := range []forge.Ref{{Repo: "o/r", Number: 12}, {Repo: "o/r"}, {}} {
		text, err := Ref(r).MarshalText()
		var back Ref
		if err == nil {
			err = back.UnmarshalText(text)
		}
		if err != nil || forge.Ref(back) != r {
			t.Errorf("%v became %q, and then %v, %v; want %v again", r, text, back, err, r)
		}
	}
}
