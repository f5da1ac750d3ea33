package forgejo

import (
	"errors"
	"strings"
	"testing"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// TestMayWork: MayWork names the right that an agent's account or token lacks.
func TestMayWork(t *testing.T) {
	onEach(t, func(w *world) {
		reader, stranger := w.account("reader"), w.account("stranger")
		w.collaborator(w.repo, reader, gitea.AccessModeRead)
		scoped := func(scopes ...gitea.AccessTokenScope) string {
			return w.token(w.dev, w.tokens[w.dev+" password"], scopes...)
		}
		for _, tc := range []struct{ name, token, want string }{
			{"all", w.tokens[w.dev], ""},
			{"enough", scoped("write:repository", "write:issue", "read:user"), ""},
			{
				"no write:issue", scoped("write:repository", "read:issue", "read:user"),
				"its token may not write to the issues of ",
			},
			{"no write:repository", scoped("read:repository", "write:issue", "read:user"), "its token may not push to "},
			{"no repository", scoped("write:issue", "read:user"), "its token may not read "},
			{"reader", w.tokens[reader], "its account may only read "},
			{"stranger", w.tokens[stranger], "its account may only read "},
			{"unknown", secret, "its token may not read "},
		} {
			err := w.client().MayWork(w.Context(), tc.token, w.repo)
			if tc.want == "" {
				if err != nil {
					w.Errorf("%s: %v", tc.name, err)
				}
				continue
			}
			if !errors.Is(err, forge.ErrForbidden) || !strings.HasPrefix(err.Error(), tc.want+w.repo+"; make ") {
				w.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
			}
		}
		if err := w.client().MayWork(w.Context(), w.tokens[w.dev], w.owner+"/nowhere"); err == nil ||
			!strings.Contains(err.Error(), "cannot see") {
			w.Errorf("in a missing repository: %v", err)
		}
	})
}
