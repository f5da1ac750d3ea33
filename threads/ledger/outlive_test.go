package ledger

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// TestOutlives checks that the journal gives back a session that was sent, even after compaction, and even without
// the record of its program's start.
func TestOutlives(t *testing.T) {
	begin := startRec("a", 61, 2)
	begin.Start.Executor, begin.Start.Item.Kind, begin.Start.Chain.Number = "nomad", agents.KindReview, 60
	begin.Start.Cause, begin.Start.Author, begin.Start.Rung, begin.Start.Priority = threads.CauseBase, "johba", 1, 3
	begin.Start.Opener = "mallory"
	item := threads.Item{
		Kind: agents.KindReview, Ref: forge.Ref{Repo: "o/r", Number: 61}, Chain: forge.Ref{Repo: "o/r", Number: 60},
		Title: "one", Priority: 3, HeadSHA: "aa", Base: "main", Seen: noon, Reviewed: 7, Cause: threads.CauseBase,
		Comments: []int64{4, 5}, Author: "johba", Opener: "mallory",
	}
	for field, v := range reflect.ValueOf(item).Fields() {
		if v.IsZero() && field.Name != "Role" && field.Name != "Since" { // for scheduled work; unused once it runs
			t.Errorf("the test's item lacks %s", field.Name)
		}
	}
	sent := Record{At: noon, Sent: SentOf("a", &item)}
	placed := Record{At: noon, Placed: &Placed{"a", "box2/1f0c", noon.Add(time.Second)}}
	used := Record{At: noon, Used: &Used{"a", agents.Usage{OutputTokens: 5}}}
	if o := Fold([]Record{begin}).Open["a"]; o.Outlives() {
		t.Error("Outlives is true for a session that was never sent")
	}
	here := startRec("b", 1, 1)
	if o := Fold([]Record{here, {At: noon, Sent: &Sent{Run: "b"}}}).Open["b"]; !o.Outlives() {
		t.Error("Outlives is false for a sent session on this machine")
	}
	want := threads.Session{
		RunID: "a", Thread: "llama", Slot: 1, Agent: "dev-qwen", Login: "qwen", Role: "dev", Item: item,
		State: threads.Running, Attempt: 2, Rung: 1, Started: noon,
	}
	for _, records := range [][]Record{{begin, sent}, {begin, sent, placed, used}} {
		state := Fold(records)
		if len(records) > 2 {
			want.Started, want.Used = noon.Add(time.Second), agents.Usage{OutputTokens: 5}
		}
		for _, s := range []*State{state, Fold(state.Compact(noon))} {
			o := s.Open["a"]
			if diff := cmp.Diff(want, o.Session()); diff != "" || !o.Outlives() {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
	state := Fold([]Record{begin, sent, placed, endRec("a", time.Minute, End{Result: agents.Done})})
	if got := state.Chain(forge.Ref{Repo: "o/r", Number: 60}).Place; got != "box2/1f0c" {
		t.Errorf("the chain's last place is %q, want box2/1f0c", got)
	}
}

// TestStopSurvives checks that the journal gives back the first reason for which a session was ended, even after
// compaction, and drops a reason that comes after the end.
func TestStopSurvives(t *testing.T) {
	stop := func(code threads.Code, why string) Record { return Record{At: noon, Stop: &Stop{"a", code, why}} }
	begin := []Record{startRec("a", 1, 1), {At: noon, Sent: &Sent{Run: "a"}}}
	state := Fold(append(begin, stop(threads.StopCancelled, "cancelled by johba"), stop(threads.StopClosed, "closed")))
	for _, s := range []*State{state, Fold(state.Compact(noon))} {
		o := s.Open["a"]
		if o.Stop == nil || o.Stop.Code != threads.StopCancelled || o.Stop.Why != "cancelled by johba" {
			t.Errorf("got stop %+v, want the first one", o.Stop)
		}
		if got := o.Session().State; got != threads.Stopping {
			t.Errorf("got state %s, want %s", got, threads.Stopping)
		}
	}
	over := Fold(append(begin, endRec("a", time.Minute, End{Result: agents.Done}), stop(threads.StopClosed, "closed")))
	if len(over.Open) > 0 {
		t.Errorf("got open sessions %+v after the end, want none", over.Open)
	}
}
