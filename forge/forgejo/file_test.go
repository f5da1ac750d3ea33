package forgejo

import (
	"errors"
	"fmt"
	"testing"

	"codeberg.org/johba/disinto/forge"
)

// A filed issue has its labels from the start, even a label that the repository did not have.
func TestFile(t *testing.T) {
	onEach(t, func(w *world) {
		c := w.client()
		ref, err := c.File(w.Context(), forge.Draft{
			Repo: w.repo, Title: "Brew", Body: "Hot.",
			Labels: []string{"convoy", "backlog", "skill/tea"},
		})
		w.must(err)
		in := w.issue(ref.Number)
		if got := fmt.Sprintln(ref.Repo == w.repo, in.Title, in.Body,
			labelNames(in.Labels)); got != "true Brew Hot. [backlog convoy skill/tea]\n" {
			w.Errorf("filed %s", got)
		}
		if _, err := c.File(w.Context(), forge.Draft{Repo: w.owner + "/nothing", Title: "x"}); !errors.Is(err,
			forge.ErrNotFound) {
			w.Errorf("in a missing repository: got %v, want not found", err)
		}
	})
}

// Dependencies can cross repositories and can be set again. Blockers returns them together with the references in the
// text.
func TestDepend(t *testing.T) {
	onEach(t, func(w *world) {
		other := forge.Ref{Repo: w.newRepo("other", w.boss, w.dev, w.review)}
		c := w.client()
		first, second := w.file("first", ""), w.file("second", fmt.Sprintf("Depends on #%d", 1))
		var err error
		other, err = c.File(w.Context(), forge.Draft{Repo: other.Repo, Title: "elsewhere"})
		w.must(err)
		for range 2 {
			w.must(c.Depend(w.Context(), w.ref(second), other))
		}
		third := w.file("third", "")
		w.must(c.Depend(w.Context(), w.ref(second), w.ref(third)))
		w.setState(third, "closed")
		w.label(third, "cancelled")
		w.scan(c)
		got, err := c.Blockers(w.Context(), w.ref(second))
		w.must(err)
		want := []forge.Blocker{
			{Ref: w.ref(first), State: forge.BlockerOpen, InBody: true},
			{Ref: w.ref(third), State: forge.BlockerCancelled},
			{Ref: other, State: forge.BlockerOpen},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			w.Errorf("blockers %v, want %v", got, want)
		}
		if err := c.Depend(w.Context(), w.ref(second), w.ref(99)); !errors.Is(err, forge.ErrNotFound) {
			w.Errorf("on a missing issue: got %v, want not found", err)
		}
	})
}
