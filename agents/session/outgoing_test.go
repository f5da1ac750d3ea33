package session

import (
	"context"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// postedDesk collects what is posted.
type postedDesk struct {
	Desk
	review forge.FullReview
	edits  []forge.Edit
}

func (d *postedDesk) PostReview(_ context.Context, _ forge.Ref, r *forge.FullReview) error {
	d.review = *r
	return nil
}

func (d *postedDesk) Edit(_ context.Context, _, _ string, edits []forge.Edit) error {
	d.edits = edits
	return nil
}

// Comments on lines and the profile are posts too. What the session itself holds stays as it is.
func TestOutgoing(t *testing.T) {
	d := &postedDesk{}
	o := &outgoing{Desk: d, repo: "a/b", secrets: []string{"hunter2hunter2"}, own: []forge.Ref{{Repo: "a/b", Number: 1}}}
	given := forge.FullReview{Lines: []forge.LineComment{{Body: "hunter2hunter2 fixes #2, fixes #1"}}}
	if err := o.PostReview(t.Context(), forge.Ref{}, &given); err != nil {
		t.Fatal(err)
	}
	if got, want := d.review.Lines[0].Body, "[secret] fixes `#2`, fixes #1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	edits := []forge.Edit{{Text: "hunter2hunter2 fixes #2"}}
	if err := o.Edit(t.Context(), "a/p", "m", edits); err != nil {
		t.Fatal(err)
	}
	if got, want := d.edits[0].Text, "[secret] fixes #2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if given.Lines[0].Body == d.review.Lines[0].Body || edits[0].Text == d.edits[0].Text {
		t.Error("the session's own copy was changed")
	}
}

// A secret is found in an added line, even where the stream cuts it; in a line that a diff only shows or removes it is
// not news. Of a secret of several lines one is enough.
func TestFinder(t *testing.T) {
	secrets := []agents.SecretVar{
		{Name: "K", Value: "hunter2hunter2"},
		{Name: "P", Value: "-----BEGIN\nabcdefghijklmnop\n-----END"},
		{Name: "S", Value: "short"},
	}
	for text, want := range map[string]string{
		"+x hunter2hunter2": "K", "-hunter2hunter2\n hunter2hunter2\n+": "", "++hunter2hunter2\n": "K",
		"+  abcdefghijklmnop\n": "P", "+short\n": "", "+++ b/hunter2hunter2\n": "K",
	} {
		f := &finder{secrets: secrets, added: true}
		for i := range len(text) {
			_, _ = f.Write([]byte{text[i]})
		}
		if f.line(); f.name != want {
			t.Errorf("%q: found %q, want %q", text, f.name, want)
		}
	}
}
