package supervisor

import (
	"testing"

	"codeberg.org/johba/disinto/forge"
)

// The first hook of a comment counts, and the newest thousand comments are remembered.
func TestWritten(t *testing.T) {
	var w written
	said := func(id int64, verb string) forge.CommandComment {
		return forge.CommandComment{ID: id, Author: "johba", Command: forge.Command{Verb: verb}}
	}
	for id := range int64(maxWritten + 500) {
		w.add(said(id+1, "retry"))
	}
	w.add(said(1000, "cancel"))
	for _, tt := range []struct {
		id   int64
		verb string
		want proof
	}{{500, "retry", unknown}, {501, "retry", proven}, {1000, "retry", proven}, {1000, "cancel", unproven}} {
		one := said(tt.id, tt.verb)
		if got := w.proofOf(&one); got != tt.want {
			t.Errorf("%s of comment %d: got proof %d, want %d", tt.verb, tt.id, got, tt.want)
		}
	}
}
