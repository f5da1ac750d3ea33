package forgejo

import (
	"errors"
	"strings"
	"testing"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

func TestPrepare(t *testing.T) {
	onEach(t, func(w *world) {
		c := w.client()
		for range 2 {
			w.must(c.Prepare(w.Context()))
		}
		owner, name := owner(w.repo)
		all, _, err := w.as(w.owner).ListRepoLabels(owner, name, gitea.ListLabelsOptions{})
		w.must(err)
		count := map[string]int{}
		for _, l := range all {
			count[l.Name]++
		}
		for _, l := range forge.RequiredLabels() {
			if count[l.Name] != 1 {
				w.Errorf("the repository has %d labels named %s, want 1", count[l.Name], l.Name)
			}
		}
		login, err := c.WhoAmI(w.Context(), w.tokens[w.dev])
		if err != nil || login != w.dev {
			w.Errorf("WhoAmI returned %s, %v; want %s", login, err, w.dev)
		}
	})
}

func TestPrepareProblems(t *testing.T) {
	onEach(t, func(w *world) {
		boss := func(scopes ...gitea.AccessTokenScope) string {
			return w.token(w.boss, w.tokens[w.boss+" password"], scopes...)
		}
		readOnly := w.newRepo("readonly", w.boss, w.dev, w.review)
		w.collaborator(readOnly, w.boss, gitea.AccessModeRead)
		missing := w.owner + "/missing"
		for _, tc := range []struct {
			name   string
			change func(*Options)
			want   []string // the prefix of each line
		}{
			{"bad token", func(o *Options) { o.Token = secret }, []string{
				"cannot use the forge token: forbidden: the forge does not know this token (401 to GET /version); make a new one " +
					"and put it into [forge] token",
			}},
			{"no read:user", func(o *Options) { o.Token = boss("write:issue", "write:repository") }, []string{
				"cannot use the forge token: cannot tell whose token this is: forbidden: token does not have at least one of " +
					"required scope(s)",
			}},
			{"token reads only", func(o *Options) { o.Token = boss("read:issue", "read:repository", "read:user") }, []string{
				"cannot create the label blocked in " + w.repo +
					": forbidden: token does not have at least one of required scope(s)",
				"cannot merge in " + w.repo + ": forbidden: token does not have at least one of required scope(s)",
			}},
			{"no write:repository", func(o *Options) { o.Token = boss("write:issue", "read:repository", "read:user") }, []string{
				"cannot merge in " + w.repo + ": forbidden: token does not have at least one of required scope(s)",
			}},
			// Prepare has no label left to create, so it tries a write that changes nothing.
			{"no write:issue", func(o *Options) { o.Token = boss("read:issue", "write:repository", "read:user") }, []string{
				"cannot write to the issues of " + w.repo + ": forbidden: token does not have at least one of required scope(s)",
			}},
			{"enough", func(o *Options) { o.Token = boss("write:issue", "write:repository", "read:user") }, nil},
			{"several", func(o *Options) { o.Repos = []string{missing, readOnly} }, []string{
				"cannot see the repository " + missing + ": not found", // Gitea adds no words
				"cannot write to " + readOnly + ": " + w.boss + " may only read it; make it a collaborator with write access",
			}},
		} {
			err := w.client(tc.change).Prepare(w.Context())
			var lines []string
			if err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			if len(lines) != len(tc.want) {
				w.Errorf("%s: got %v, want %d lines", tc.name, err, len(tc.want))
				continue
			}
			for n, line := range lines {
				if !strings.HasPrefix(line, tc.want[n]) {
					w.Errorf("%s:\n got %s\nwant %s", tc.name, line, tc.want[n])
				}
			}
		}
	})
}

func TestUnusable(t *testing.T) {
	good := gitea.Repository{
		FullName: "O/r", HasIssues: true, HasPullRequests: true,
		Permissions: &gitea.Permission{Push: true},
	}
	if err := unusable(&good, "o/r", "boss"); err != nil {
		t.Errorf("usable repository: got %v, want nil", err)
	}
	for _, tc := range []struct {
		change func(*gitea.Repository)
		want   string
	}{
		{
			func(r *gitea.Repository) { r.FullName = "o/new" },
			"cannot work in o/r: it was renamed to o/new; put that into [forge] repos",
		},
		{func(r *gitea.Repository) { r.Archived = true }, "cannot work in o/r: it is archived; take it out of [forge] repos"},
		{func(r *gitea.Repository) { r.Mirror = true }, "cannot work in o/r: it is a mirror; use the original"},
		{
			func(r *gitea.Repository) { r.HasIssues = false },
			"cannot work in o/r: its issues are switched off; switch them on in the repository's settings",
		},
		{
			func(r *gitea.Repository) { r.HasPullRequests = false },
			"cannot work in o/r: its pull requests are switched off; switch them on in the repository's settings",
		},
		{
			func(r *gitea.Repository) { r.Permissions = nil },
			"cannot write to o/r: boss may only read it; make it a collaborator with write access",
		},
	} {
		r := good
		tc.change(&r)
		if err := unusable(&r, "o/r", "boss"); err == nil || err.Error() != tc.want {
			t.Errorf("got %v\nwant %s", err, tc.want)
		}
	}
}

// TestUnreachable: the address has no forge, or one that we cannot work with.
func TestUnreachable(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer answers
		want   string
	}{
		{
			"old", say(200, `{"version":"1.21.11+1"}`),
			`cannot work with the forge at http://forge.test: it is version "1.21.11+1"; update it to Forgejo 7 or Gitea ` +
				`1.23, or later`,
		},
		{
			"no forge", say(404, "nginx"),
			"cannot find a forge at http://forge.test: not found (404 to GET /version); check [forge] url",
		},
		{
			"down", say(502, ""),
			"cannot reach the forge at http://forge.test: forge unavailable: bad gateway (502 to GET /version)",
		},
	} {
		if err := clientOf(t, tc.answer).Prepare(t.Context()); err == nil || err.Error() != tc.want {
			t.Errorf("%s:\n got %v\nwant %s", tc.name, err, tc.want)
		}
	}
	err := clientOf(t, say(502, "")).Prepare(t.Context())
	if !errors.Is(err, forge.ErrUnavailable) {
		t.Errorf("down: got %v, want ErrUnavailable", err)
	}
}
