package forgejo

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
)

// Each answer with which Forgejo or Gitea refuses a merge, as its source writes it, becomes a Refusal with its words.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		cause  forge.RefusalCause
		words  string // where they are not the message
	}{
		{405, `{"message":"User not allowed to merge PR"}`, forge.RefusedRule, ""},
		{405, `{"message":"Work in progress PRs cannot be merged"}`, forge.RefusedLate, ""},
		{405, `{"message":"Please try again later"}`, forge.RefusedLate, ""},
		{500, `{"message":"cannot merge while conflict checking is in progress"}`, forge.RefusedLate, ""},
		{405, notAllowed("Not all required status checks successful"), forge.RefusedLate, ""},
		{405, notAllowed("Does not have enough approvals"), forge.RefusedRule, ""},
		{405, notAllowed("There are requested changes"), forge.RefusedRule, ""},
		{405, notAllowed("There are official review requests"), forge.RefusedRule, ""},
		{405, notAllowed("The head branch is behind the base branch"), forge.RefusedOutdated, ""},
		{405, notAllowed("Changed protected files"), forge.RefusedRule, ""},
		{405, `{"message":"wont sign: nokey"}`, forge.RefusedRule, ""},
		{405, `{"message":"won't sign: nokey"}`, forge.RefusedRule, ""},
		{405, `{"message":"rebase is not allowed an allowed merge style for this repository"}`, forge.RefusedRule, ""},
		{422, `{"message":"[Do]: In"}`, forge.RefusedRule, ""},
		{500, `{"message":"is blocked by an open dependency"}`, forge.RefusedRule, ""},
		{409, `{"message":"PushRejected with remote message: no"}`, forge.RefusedRule, ""},
		{409, `{"message":"merge push out of date"}`, forge.RefusedLate, ""},
		{409, `{"message":"head out of date"}`, forge.RefusedLate, ""},
		{
			409, `{"Style":"merge","StdOut":"","StdErr":"fatal: refusing to merge unrelated histories\n","Err":{}}`,
			forge.RefusedRule, "merge conflict: fatal: refusing to merge unrelated histories",
		},
		{
			409, `{"Style":"merge","StdOut":"","StdErr":"CONFLICT in a.go","Err":{}}`, forge.RefusedLate,
			"merge conflict: CONFLICT in a.go",
		},
		{
			409, `{"Style":"rebase","CommitSHA":"abc","StdOut":"","StdErr":"CONFLICT in a.go","Err":{}}`, forge.RefusedRule,
			"rebase conflict at commit abc: CONFLICT in a.go",
		},
		{413, `{"message":"quota exceeded"}`, forge.RefusedRule, ""},
		{403, `{"message":"token does not have at least one of required scope(s)"}`, forge.RefusedRule, ""},
		{405, ``, forge.RefusedLate, "method not allowed"},
	} {
		words := tt.words
		if words == "" {
			words = strings.TrimSuffix(strings.TrimPrefix(tt.body, `{"message":"`), `"}`)
		}
		t.Run(words, func(t *testing.T) {
			onLocal(t, func(w *world) {
				n, head := w.pull("topic", "Work", "")
				c := w.client(func(o *Options) {
					o.HTTP = &http.Client{Transport: refusing{w.transport, tt.status, tt.body}}
				})
				err := c.Merge(w.Context(), w.ref(n), head, "main")
				no, ok := errors.AsType[*forge.Refusal](err)
				if !ok || no.Cause != tt.cause || no.Words != words || !errors.Is(err, forge.ErrConflict) {
					w.Errorf("%d %s: got %#v, %v", tt.status, tt.body, no, err)
				}
			})
		})
	}
}

// refusing is a forge that answers every merge in the same way.
type refusing struct {
	http.RoundTripper
	status int
	body   string
}

func (f refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/merge") {
		return f.RoundTripper.RoundTrip(r)
	}
	return &http.Response{StatusCode: f.status, Body: io.NopCloser(strings.NewReader(f.body)), Request: r}, nil
}

// A pull request with an open dependency is refused with a 500 without words, except to admins.
func TestRefusedForDependency(t *testing.T) {
	onLocal(t, func(w *world) {
		blocker := w.file("first", "", "backlog")
		n, head := w.pull("topic", "Work", "")
		w.must(w.client().Depend(w.Context(), w.ref(n), w.ref(blocker)))
		c := w.client(func(o *Options) {
			o.HTTP = &http.Client{Transport: refusing{w.transport, 500, `{"message":""}`}}
		})
		no, ok := errors.AsType[*forge.Refusal](c.Merge(w.Context(), w.ref(n), head, "main"))
		want := fmt.Sprintf("is blocked by an open dependency, #%d", blocker)
		if !ok || no.Cause != forge.RefusedRule || no.Words != want {
			w.Errorf("got %#v, want %s", no, want)
		}
	})
}

func notAllowed(why string) string { return `{"message":"not allowed to merge [reason: ` + why + `]"}` }
