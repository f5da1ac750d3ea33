package supervisor

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// A claim that the journal remembers is dropped if the forge does not show it as ours in a newer scan, and only then.
func TestDroppedClaims(t *testing.T) {
	ref, now := forge.Ref{Repo: "o/r", Number: 1}, time.Now()
	claimed := forge.Issue{Ref: ref, Labels: []string{forge.LabelInProgress}, Assignees: []string{"dev"}}
	for name, tt := range map[string]struct {
		change func(b *state, is *forge.Issue)
		drops  bool
	}{
		"the forge shows it": {func(*state, *forge.Issue) {}, false},
		"no label":           {func(_ *state, is *forge.Issue) { is.Labels = nil }, true},
		"closed":             {func(_ *state, is *forge.Issue) { is.Closed = true }, true},
		"another host's agent is assigned": {
			func(_ *state, is *forge.Issue) { is.Assignees = []string{"dev-elsewhere"} }, true,
		},
		"an item that is gone": {func(b *state, _ *forge.Issue) { b.facts.Issues = nil }, true},
		"not scanned since our last write": {func(b *state, is *forge.Issue) {
			is.Labels = nil
			b.ledger.Touched[ref] = now.Add(time.Second)
		}, false},
		"a write is under way": {func(b *state, is *forge.Issue) {
			is.Labels = nil
			b.busy[ref]++
		}, false},
		"a repository that no scan has read": {func(b *state, is *forge.Issue) {
			is.Labels, b.facts.Repos = nil, nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newState(&threads.Config{Forge: threads.Forge{Bots: []string{"dev-elsewhere"}}}, nil, nil, nil)
			b.facts.Repos = []forge.Repo{{Name: "o/r", AsOf: now}}
			b.facts.Issues = []forge.Issue{claimed}
			ledger.Entry(b.ledger.Chains, ref).Claimed = "dev"
			tt.change(b, &b.facts.Issues[0])
			dropped := len(b.dropClaimsLocked()) > 0
			history := b.ledger.Chains[ref]
			if gone := history == nil || history.Claimed == ""; dropped != tt.drops || gone != tt.drops {
				t.Errorf("the claim was dropped: %t, gone: %t, want %t", dropped, gone, tt.drops)
			}
		})
	}
}
