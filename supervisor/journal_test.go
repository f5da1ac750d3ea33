package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func issueKey(n int64) key { return key{Kind: agents.KindIssue, Ref: ref{Repo: "o/r", Number: n}} }

func startRec(run string, n int64, attempt int) record {
	return record{At: noon, Start: &startRecord{
		Run: run, Thread: "llama", Slot: 1, Sticky: true, Agent: "dev-qwen", Login: "qwen", Role: "dev", Item: issueKey(n),
		Chain: ref{Repo: "o/r", Number: n}, Attempt: attempt,
	}}
}

func endRec(run string, after time.Duration, e endRecord) record {
	e.Run = run
	return record{At: noon.Add(after), End: &e}
}

func fold(records ...record) *history {
	h := newHistory()
	for _, r := range records {
		h.apply(r)
	}
	return h
}

// everything is a journal in which each kind of memory has something in it.
func everything() []record {
	schedule := startRec("s", 0, 1)
	schedule.Start.Item, schedule.Start.Chain = key{Kind: agents.KindSchedule, Ref: ref{Repo: "o/r"}, Role: "planner"}, ref{Repo: "o/r"}
	schedule.Start.Agent = "planner-opus"
	rework := startRec("r", 12, 1)
	rework.Start.Item.Kind, rework.Start.Cause, rework.Start.Chain = agents.KindRework, threads.CauseCI, ref{Repo: "o/r", Number: 11}
	review := startRec("v", 61, 1)
	review.Start.Item.Kind, review.Start.Chain, review.Start.Sticky, review.Start.Agent = agents.KindReview, ref{Repo: "o/r", Number: 60}, false, "review-opus"
	over := startRec("p", 3, 1)
	over.Start.PassedOver = issueKey(4)
	return []record{
		startRec("a", 1, 1), endRec("a", time.Minute, endRecord{Result: agents.Failed, Reason: "boom", Tail: "line\n"}),
		startRec("b", 2, 1), endRec("b", time.Minute, endRecord{Result: agents.Done}),
		schedule, endRec("s", time.Minute, endRecord{Result: agents.Done}),
		rework, over,
		startRec("u", 60, 1), endRec("u", time.Minute, endRecord{Result: agents.Done}),
		review, endRec("v", 2*time.Minute, endRecord{Result: agents.Done, Verdict: verdictChanges}),
		startRec("c", 5, 1), endRec("c", time.Minute, endRecord{Result: agents.Refused, Reason: "too large"}),
		startRec("d", 6, 1), endRec("d", time.Minute, endRecord{Result: agents.Limited, RetryAt: noon.Add(time.Hour), Reason: "limit"}),
		startRec("f", 8, 1), endRec("f", time.Minute, endRecord{Result: agents.Done, Remarked: true, Usage: &agents.Usage{InputTokens: 7, CostUSD: 0.5}}),
		startRec("g", 9, 1), endRec("g", time.Minute, endRecord{Result: agents.ClaimFailed, Claim: claimForbidden, Reason: "403", NeverRan: true}),
		startRec("h", 10, 5), endRec("h", time.Minute, endRecord{Result: agents.Stalled, Reason: "silent"}),
		startRec("e", 7, 1), endRec("e", time.Minute, endRecord{Result: agents.BackendDown, Breaker: time.Minute, Reason: "refused"}),
		{At: noon, Blocked: &blockedRecord{ref{Repo: "o/r", Number: 10}, agents.KindIssue}},
		{At: noon, Released: &releasedRecord{ref{Repo: "o/r", Number: 1}}},
		{At: noon, Handed: &handedRecord{Ref: ref{Repo: "o/r", Number: 20}, Rounds: 6}},
		{At: noon, Steal: &stealRecord{Ref: ref{"o/r", 50}, Run: "s", From: "dev-qwen", To: "dev-opus", FromLogin: "qwen", ToLogin: "opus"}},
		{At: noon, Steal: &stealRecord{Ref: ref{"o/r", 51}, Run: "t", From: "dev-qwen", To: "dev-opus"}},
		{At: noon, Steal: &stealRecord{Ref: ref{"o/r", 51}, Run: "t", From: "dev-qwen", To: "dev-opus", Done: true}},
		{At: noon, Cancel: &cancelRecord{Refs: []ref{{"o/r", 40}, {"o/r", 41}}}},
		{At: noon, Cancel: &cancelRecord{Refs: []ref{{"o/r", 41}}, Done: true}},
		{At: noon, Cancel: &cancelRecord{Refs: []ref{{"o/r", 42}}, Close: true}},
		{At: noon, Told: &toldRecord{ref{Repo: "o/r", Number: 43}, "blocked by"}},
		{At: noon, Retry: &retryRecord{Refs: []ref{{"o/r", 2}}}},
		{At: noon, Pause: &pauseRecord{}},
		{At: noon, Pause: &pauseRecord{Off: true}},
		{At: noon, Pause: &pauseRecord{Thread: "llama"}},
		{At: noon, Pause: &pauseRecord{Agent: "dev-qwen"}},
		{At: noon, Chain: &chainRecord{Ref: ref{Repo: "o/r", Number: 30}, Retried: noon}},
	}
}

var sameHistory = cmp.AllowUnexported(history{}, openSession{}, failure{}, tally{}, writing{})

// What the journal says is what the records made true while they were written, before and after it is compacted.
func TestJournalReplays(t *testing.T) {
	dir := t.TempDir()
	j, _, _, err := openJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	live := newHistory()
	for _, r := range everything() {
		if err := j.append(r, func() { live.apply(r) }); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(live, reopen(t, dir), sameHistory); diff != "" {
		t.Errorf("after a restart:\n%s", diff)
	}
	if err := j.rewrite(func() []record { return live.dump(noon) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(live, reopen(t, dir), sameHistory); diff != "" {
		t.Errorf("after compaction:\n%s", diff)
	}
	// The compacted journal goes on, and sessions that were open then can end.
	r := endRec("r", 2*time.Hour, endRecord{Result: agents.Done})
	if err := j.append(r, func() { live.apply(r) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(live, reopen(t, dir), sameHistory); diff != "" {
		t.Errorf("after a line more:\n%s", diff)
	}
}

func reopen(t *testing.T, dir string) *history {
	t.Helper()
	j, records, corrupt, err := openJournal(dir)
	if err != nil || len(corrupt) > 0 {
		t.Fatalf("%q, %v", corrupt, err)
	}
	defer j.close()
	return fold(records...)
}

// What compaction keeps of a journal that has everything in it. When a field is added to the memory, this says whether
// anybody thought of writing it down.
func TestCompactionForgetsNothing(t *testing.T) {
	h := fold(everything()...)
	for name, n := range map[string]int{
		"attempts": len(h.Attempts), "cool-downs": len(h.CoolDown), "warm slots": len(h.Warm), "writers": len(h.Writers),
		"CI fixes": len(h.CIFixes), "last runs": len(h.LastRun), "passed over": len(h.PassedOver), "claims": len(h.Claimed),
		"idle since": len(h.IdleSince), "parked": len(h.Parked), "agent holds": len(h.AgentHolds), "refused": len(h.Refused),
		"retried": len(h.Retried), "asked": len(h.Asked), "open": len(h.open), "logins": len(h.logins), "failures": len(h.failures),
		"refused at": len(h.refusedAt), "remarks": len(h.remarks), "downs": len(h.downs), "tallies": len(h.tallies), "recent": len(h.recent), "spent": len(h.Spent),
		"returns": len(h.Returns), "written": len(h.written), "past": len(h.past),
	} {
		if n == 0 {
			t.Errorf("the test has no %s", name)
		}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for _, r := range h.dump(noon) {
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	records, corrupt := parseJournal(text.Bytes())
	if len(corrupt) > 0 {
		t.Errorf("compaction wrote lines that cannot be read: %q", corrupt)
	}
	if diff := cmp.Diff(h, fold(records...), sameHistory); diff != "" {
		t.Error(diff)
	}
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
			records, corrupt := parseJournal([]byte(tt.text))
			if len(records) != tt.records || len(corrupt) != tt.corrupt {
				t.Errorf("%d records and %d corrupt lines, want %d and %d", len(records), len(corrupt), tt.records, tt.corrupt)
			}
		})
	}
}

// A disk that is full, for as long as the file cannot be written.
func TestJournalCannotWrite(t *testing.T) {
	dir := t.TempDir()
	j, _, _, err := openJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := newHistory()
	write := func(r record, how func(record, func()) error) error { return how(r, func() { h.apply(r) }) }
	if err := write(startRec("a", 1, 1), j.append); err != nil {
		t.Fatal(err)
	}
	disk := j.file
	full, err := os.Open(j.path) // read only
	if err != nil {
		t.Fatal(err)
	}
	j.file = full
	if err := write(startRec("b", 2, 1), j.append); err == nil || h.open["b"].Run != "" {
		t.Errorf("a start that was not written counts: %v", err)
	}
	if err := write(endRec("a", time.Minute, endRecord{Result: agents.Done}), j.note); err == nil || h.tallies["dev-qwen"].done != 1 {
		t.Errorf("an end that was not written does not count: %v", err)
	}
	j.file = disk
	if err := write(startRec("c", 3, 1), j.append); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, reopen(t, dir), sameHistory); diff != "" {
		t.Errorf("what could not be written is missing after a restart:\n%s", diff)
	}
}

// On a disk that is really full what ends is still written down, into the room that was kept for it; nothing begins, and one
// short line that fits does not pass for a disk with room.
func TestJournalOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=700"); err != nil {
		t.Skipf("needs root, to mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	j, _, _, err := openJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.close() })
	h := newHistory()
	write := func(r record, how func(record, func()) error) error { return how(r, func() { h.apply(r) }) }
	if err := write(startRec("a", 1, 1), j.append); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	_ = os.WriteFile(ballast, make([]byte, 2<<20), 0o600) // as much as there is room for
	if err := write(endRec("a", time.Minute, endRecord{Result: agents.Done}), j.note); err != nil {
		t.Errorf("the end is not written down: %v", err)
	}
	if err := write(startRec("b", 2, 1), j.append); !errors.Is(err, unix.ENOSPC) || h.open["b"].Run != "" {
		t.Errorf("a start on a full disk: %v", err)
	}
	if err := j.hasRoom(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("room on a full disk: %v", err)
	}
	if diff := cmp.Diff(h, reopen(t, dir), sameHistory); diff != "" {
		t.Errorf("a restart would remember otherwise:\n%s", diff)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := write(startRec("c", 3, 1), j.append); err != nil || j.hasRoom() != nil {
		t.Errorf("a start with room again: %v", err)
	}
}

// A part of a line that could not be taken back spoils neither the line before nor the one after it.
func TestJournalFencesTornLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.jsonl")
	text, err := json.Marshal(startRec("a", 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(append(text, '\n'), text[:30]...), 0o600); err != nil {
		t.Fatal(err)
	}
	j, records, corrupt, err := openJournal(dir)
	if err != nil || len(records) != 1 || len(corrupt) != 0 {
		t.Fatalf("%d records, %d corrupt, %v", len(records), len(corrupt), err)
	}
	for _, run := range []string{"b", "c"} {
		if err := j.append(startRec(run, 2, 1), func() {}); err != nil {
			t.Fatal(err)
		}
	}
	_, records, corrupt, err = openJournal(dir)
	if err != nil || len(records) != 3 || len(corrupt) != 1 {
		t.Errorf("%d records, %d corrupt, %v; want 3 and the torn line", len(records), len(corrupt), err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != j.size {
		t.Errorf("the file has %d bytes, the journal believes %d", info.Size(), j.size)
	}
}

// Whatever stands in the file, reading it does not panic, and compacting what was understood keeps its meaning.
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
		records, _ := parseJournal(text)
		h := fold(records...)
		h.remembered()
		var compacted bytes.Buffer
		enc := json.NewEncoder(&compacted)
		for _, r := range h.dump(noon) {
			if err := enc.Encode(r); err != nil {
				t.Skip("a year beyond what JSON can say")
			}
		}
		again, corrupt := parseJournal(compacted.Bytes())
		if len(corrupt) > 0 {
			t.Fatalf("compaction wrote what cannot be read: %q", corrupt)
		}
		first, second := h.dump(noon), fold(again...).dump(noon)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("compacting twice is not compacting once:\n%s", diff)
		}
	})
}

func TestRefText(t *testing.T) {
	for _, r := range []forge.Ref{{Repo: "o/r", Number: 12}, {Repo: "o/r"}, {}} {
		text, err := ref(r).MarshalText()
		var back ref
		if err == nil {
			err = back.UnmarshalText(text)
		}
		if err != nil || forge.Ref(back) != r {
			t.Errorf("%v became %q and then %v, %v", r, text, back, err)
		}
	}
}
