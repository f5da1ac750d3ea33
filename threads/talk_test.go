package threads

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/forge"
)

func TestSaid(t *testing.T) {
	chain := func(n int64) forge.Ref { return forge.Ref{Repo: "o/r", Number: n} }
	var h ThreadHistory
	h.Said("a", chain(1), 100, 90)
	h.Said("b", chain(1), 200, 0)
	before := h.Talks
	h.Said("a", chain(1), 0, 0) // it keeps the known sizes
	want := []Talk{{"a", "o/r", 1, 100, 90}, {"b", "o/r", 1, 200, 0}}
	if diff := cmp.Diff(want, h.Talks); diff != "" {
		t.Error(diff)
	}
	h.Said("b", chain(1), 0, 210)
	if got := h.Talk("b", chain(1)); got != (Talk{"b", "o/r", 1, 200, 210}) || h.Talk("b", chain(2)) != (Talk{}) {
		t.Errorf("got conversation %+v, want sizes 200 and 210", got)
	}
	if before[0].Agent != "b" {
		t.Error("Said changed the list of a snapshot")
	}
	for n := range int64(2 * maxTalks) {
		h.Said("c", chain(n), n, 0)
	}
	if len(h.Talks) != maxTalks || h.Talks[0].Number != 2*maxTalks-1 {
		t.Errorf("got %d conversations, the first %v, want the newest 64", len(h.Talks), h.Talks[0])
	}
}

func TestForget(t *testing.T) {
	tests := []struct {
		name            string
		restored, found int64
		want            bool
	}{
		{"nothing was restored", 0, 0, false},
		{"all found", 8187, 8100, false},
		{"half", 8000, 4000, false},
		{"less", 8001, 4000, true},
		{"a server that reports an impossible size", 1 << 40, 0, true},
	}
	for _, tt := range tests {
		var h ThreadHistory
		h.Forget("qwen", tt.restored, tt.found)
		h.Forget("qwen", tt.restored, tt.found)
		if got := h.Forgets("qwen"); (got != nil) != tt.want || len(h.Forgotten) > 1 || h.Forgets("other") != nil {
			t.Errorf("%s: got %+v, want forgotten: %v", tt.name, h.Forgotten, tt.want)
		}
	}
}
