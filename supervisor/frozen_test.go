package supervisor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// A copy of a decision shares unchanged chains and items with the previous copy. Each way in which the books change
// one of them shows in the next copy.
func TestCopiesFollowTheBooks(t *testing.T) {
	ref, now := forge.Ref{Repo: "o/r", Number: 1}, time.Now()
	b := newBooks(&threads.Config{}, nil, nil, nil)
	b.facts.Repos = []forge.Repo{{Name: "o/r", AsOf: now}}
	var copied *threads.FrozenDecision
	b.record = func(_ time.Time, frozen func() *threads.FrozenDecision) { copied = frozen() }
	past := ledger.New()
	ledger.Entry(past.Chains, ref).Rung = 7
	for _, tt := range []struct {
		name   string
		change func()
	}{
		{"nothing", func() {}},
		{"a claim", func() {
			ledger.Entry(b.ledger.Chains, ref).Claimed = "dev"
			b.frozen = nil
		}},
		{"the forge does not show it", func() { b.dropClaimsLocked() }},
		{"a merge is refused", func() {
			c := &chore{choreKey: choreKey{action: ActMerge}, hold: (&threads.Merge{Ref: ref}).Key()}
			b.choreDone(c, action{}, forge.ErrConflict)
		}},
		{"a record", func() {
			b.applyLocked(ledger.Record{At: now, Cancel: &ledger.Cancel{Refs: []ledger.Ref{ledger.Ref(ref)}}})
		}},
		{"another journal", func() { b.replay(past, now, nil, nil) }},
	} {
		tt.change()
		snap := b.snapshotLocked(now, nil)
		b.tellLocked(&snap, new(threads.Plan))
		if diff := cmp.Diff(snap.History, copied.Whole().History); diff != "" {
			t.Errorf("%s: the copy differs from the books: %s", tt.name, diff)
		}
	}
}

// If the recorder does not take a decision, no copy is made.
func TestCopiedOnlyForTheRecord(t *testing.T) {
	b := newBooks(&threads.Config{}, nil, nil, nil)
	snap := b.snapshotLocked(time.Now(), nil)
	if b.tellLocked(&snap, new(threads.Plan)); b.frozen != nil {
		t.Error("the decision was copied although the recorder did not take it")
	}
}
