package ledger

import (
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

func hash(digit string) string { return strings.Repeat(digit, 64) }

// TestReceipts checks that the newest receipt is the one with the highest number, whatever the order of the ends, and
// that a pull request that shows the newest receipt shows all.
func TestReceipts(t *testing.T) {
	pull := Ref{Repo: "o/r", Number: 80}
	s := fold(
		startRec("a", 1, 1), startRec("b", 2, 1),
		endRec("b", time.Minute, End{Result: agents.Done, Receipt: &Receipt{N: 3, Hash: hash("3"), Pull: pull}}),
		endRec("a", time.Minute, End{Result: agents.Failed, Receipt: &Receipt{N: 2, Hash: hash("2"), Pull: pull}}),
		endRec("unknown", time.Minute, End{Result: agents.Done, Receipt: &Receipt{N: 4, Hash: hash("4")}}),
		Record{At: noon, Receipt: &Receipt{N: 2, Pull: pull, Shown: true}},
	)
	if s.Receipt.N != 4 || s.Receipt.Hash != hash("4") {
		t.Errorf("the newest receipt is %+v, want number 4", s.Receipt)
	}
	if j := s.Receipts(); j.Newest != s.Receipt || len(j.Hashes) != 2 || j.Hashes["a"] != hash("2") {
		t.Errorf("got %+v, want the receipts of a and b", j)
	}
	without := fold(startRec("a", 1, 1), endRec("a", time.Minute, End{Result: agents.Done})).Receipts()
	if j := s.Receipts(); j.Without != 0 || j.Ended["a"].IsZero() || without.Without != 1 {
		t.Errorf("got %d and %d sessions without a receipt, want 0 and 1", j.Without, without.Without)
	}
	if len(s.Owed) != 1 || s.Owed[forge.Ref(pull)].N != 3 {
		t.Errorf("got owed %+v, want receipt 3", s.Owed)
	}
	s.Apply(Record{At: noon, Receipt: &Receipt{N: 3, Pull: pull, Shown: true}})
	if len(s.Owed) != 0 {
		t.Errorf("got owed %+v, want none", s.Owed)
	}
	for n := range int64(2 * maxOwed) {
		s.Apply(Record{At: noon, Receipt: &Receipt{N: n + 5, Pull: Ref{Repo: "o/r", Number: n + 1}}})
	}
	if len(s.Owed) != maxOwed || s.Owed[forge.Ref{Repo: "o/r", Number: 2 * maxOwed}].N == 0 {
		t.Errorf("got %d owed, want the newest %d", len(s.Owed), maxOwed)
	}
	for _, bad := range []Receipt{{}, {N: -1, Hash: hash("1")}, {N: 1, Hash: "short"}} {
		if bad.valid() {
			t.Errorf("%+v is valid, want invalid", bad)
		}
	}
}
