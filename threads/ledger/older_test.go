package ledger

import (
	"os"
	"testing"
)

// The journal of a demo, written by the program of commit eb0195a3, is read whole. That program could still record
// whole decisions, compare them with another build's and comment expected times.
func TestReadsOlderJournal(t *testing.T) {
	f, err := os.Open("testdata/older/eb0195a3.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	state, records := New(), 0
	err = Read(f, func(r Record) { records++; state.Apply(r) }, func(from, to int64) {
		t.Errorf("the line from %d to %d is called corrupt", from, to)
	})
	if err != nil || records != 154 || len(state.Open) != 0 || len(state.Past) != 54 {
		t.Errorf("got %d records, %d open and %d ended sessions, %v; want 154, 0 and 54", records, len(state.Open),
			len(state.Past), err)
	}
}
