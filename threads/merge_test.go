package threads

import (
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// TestStillMerges checks that a planned merge is decided again on the present pull request.
func TestStillMerges(t *testing.T) {
	w := newScriptWorld(t)
	w.lines(`config
[threads.api]
backend = "anthropic"
agents = ["review-sonnet", "dev-opus"]

[roles.dev]
on = "issue"
command = ["dev"]

[roles.review]
on = "review"
command = ["review"]
----
pull 7 author=dev-opus head=aa
review 7 review-sonnet approved
history touched 7 now
history touched o/r now`)
	merge := Merge{Ref: w.ref("7"), HeadSHA: "aa", Base: "main"}
	object := forge.Review{Author: "johba", Verdict: forge.ChangesRequested, CommitSHA: "old", Official: true}
	for _, tt := range []struct {
		change func(*forge.Pull)
		want   string
	}{
		{func(*forge.Pull) {}, ""},
		{func(p *forge.Pull) { p.Merged, p.Closed = true, true }, ""},
		{func(p *forge.Pull) { p.Closed = true }, "closed"},
		{func(p *forge.Pull) { p.Draft = true }, "draft"},
		{func(p *forge.Pull) { p.HeadSHA = "bb" }, "head or base moved"},
		{func(p *forge.Pull) { p.Base = "evil" }, "head or base moved"},
		{func(p *forge.Pull) { p.MergeBase = "m1" }, "waits for review, base changed"},
		{func(p *forge.Pull) { p.Reviews[0].Dismissed = true }, "waits for review"},
		{func(p *forge.Pull) { p.Reviews = append(p.Reviews, object) }, "changes requested by johba"},
		{func(p *forge.Pull) { p.Coders = []string{"review-sonnet"} }, "waits for review"},
		{func(p *forge.Pull) { p.CI = forge.CIFailure }, "waits for rework, failed CI"},
		{func(p *forge.Pull) { p.CI = forge.CIPending }, "waits for CI"},
		{func(p *forge.Pull) { p.Labels = []string{"needs-human"} }, "labelled needs-human"},
		{func(p *forge.Pull) { p.Mergeable = forge.MergeUnknown }, "waits for the forge to check mergeability"},
	} {
		p := *w.s.Facts.Pull(merge.Ref)
		p.Reviews = slices.Clone(p.Reviews)
		tt.change(&p)
		if got := StillMerges(w.s, merge, p); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	if w.s.History.Touched[merge.Ref] == (time.Time{}) || w.s.Facts.Pulls[0].Closed {
		t.Error("StillMerges changed the snapshot")
	}
	w.s.Facts.Pulls = nil // the scan since then lost it
	p := forge.Pull{Ref: merge.Ref, HeadSHA: "aa", Base: "main"}
	if got := StillMerges(w.s, merge, p); got == "" {
		t.Error("StillMerges merges an unknown pull request")
	}
}

// TestChainOf checks that of several issues a pull request continues the one whose branch is its head.
func TestChainOf(t *testing.T) {
	ref := func(n int64) forge.Ref { return forge.Ref{Repo: "o/r", Number: n} }
	for _, tt := range []struct {
		head   string
		closes []forge.Ref
		want   int64
	}{
		{"fix/issue-2", []forge.Ref{ref(1), ref(2)}, 2},
		{"fix/issue-3", []forge.Ref{ref(1), ref(2)}, 1},
		{"topic", []forge.Ref{ref(1), ref(2)}, 1},
		{"topic", nil, 7},
	} {
		p := forge.Pull{Ref: ref(7), Head: tt.head, Closes: tt.closes}
		if got := ChainOf(&p); got != ref(tt.want) {
			t.Errorf("%s of %v: got %s, want #%d", tt.head, tt.closes, got, tt.want)
		}
	}
}
