package threads

import (
	"slices"
	"testing"

	"codeberg.org/johba/disinto/forge"
)

func TestCircle(t *testing.T) {
	ref := func(n int64) forge.Ref { return forge.Ref{Repo: "o/r", Number: n} }
	for _, tt := range []struct {
		name  string
		waits map[forge.Ref][]forge.Ref
		want  []forge.Ref
	}{
		{"none", map[forge.Ref][]forge.Ref{ref(1): {ref(2)}, ref(2): {ref(3)}}, nil},
		{"itself", map[forge.Ref][]forge.Ref{ref(1): {ref(2)}, ref(2): {ref(2)}}, []forge.Ref{ref(2), ref(2)}},
		{
			"the shortest", map[forge.Ref][]forge.Ref{
				ref(1): {ref(2), ref(3)}, ref(2): {ref(3)}, ref(3): {ref(1)}, ref(4): {ref(1)},
			}, []forge.Ref{ref(1), ref(3), ref(1)},
		},
	} {
		if got := Circle(tt.waits); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSuggest(t *testing.T) {
	words := []string{"backend", "base_url", "agents"}
	for word, want := range map[string]string{
		"Backend": "backend", "backedn": "backend", "bakend": "backend", "bakckend": "backend", "abckend": "backend",
		"base-url": "base_url", "agnets": "agents", "agensts": "agents", "window": "", "": "", "ag": "",
	} {
		if want != "" {
			want = ", did you mean " + want + "?"
		}
		if got := Suggest(word, words); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "ab", 2}, {"ab", "", 2}, {"ab", "ba", 1}, {"abc", "cab", 2}, {"ab", "cd", 2}, {"abc", "ab", 1}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("from %q to %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
