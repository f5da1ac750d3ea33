package forgejo

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge"
	"codeberg.org/johba/disinto/forge/rest"
)

// adminWorld is a world behind a real server, because Admin has its own transport. byPassword signs in with the
// administrator's password.
type adminWorld struct {
	*world
	admin, byPassword *Admin
}

// onEachServer is onEach with a real server instead of a bubble.
func onEachServer(t *testing.T, test func(*adminWorld)) {
	t.Helper()
	onEachEmptyServer(t, func(w *world, admin, password string) { test(w.settle().administer(admin, password)) })
}

// onEachEmptyServer is onEachEmpty with a real server instead of a bubble. It passes the administrator's name and
// password to test.
func onEachEmptyServer(t *testing.T, test func(w *world, admin, password string)) {
	t.Helper()
	t.Run("localforge", func(t *testing.T) {
		w := &world{T: t, transport: http.DefaultTransport}
		f, err := localforge.New(localforge.Options{Dir: t.TempDir(), Run: runGit})
		w.must(err)
		server := httptest.NewServer(f)
		t.Cleanup(func() { f.Close(); server.Close() })
		w.local, w.url = f, server.URL
		w.must(f.AddUser("root", "root-password", true))
		token, err := f.AddToken("root")
		w.must(err)
		test(w.begin(token), "root", "root-password")
	})
	t.Run("forgejo", func(t *testing.T) {
		url, token := os.Getenv("FORGE_TEST_URL"), os.Getenv("FORGE_TEST_ADMIN_TOKEN")
		user, password := os.Getenv("FORGE_TEST_ADMIN_USER"), os.Getenv("FORGE_TEST_ADMIN_PASSWORD")
		if url == "" || token == "" || user == "" || password == "" {
			t.Skip("needs a forge for tests: set FORGE_TEST_URL, FORGE_TEST_ADMIN_TOKEN, FORGE_TEST_ADMIN_USER " +
				"and FORGE_TEST_ADMIN_PASSWORD")
		}
		w := &world{T: t, url: url, transport: http.DefaultTransport}
		test(w.begin(token), user, password)
	})
}

func (w *world) administer(user, password string) *adminWorld {
	w.Helper()
	admin, err := NewAdmin(AdminOptions{URL: w.url + "/", Token: w.tokens["admin"]})
	w.must(err)
	byPassword, err := NewAdmin(AdminOptions{URL: w.url, User: user, Password: password})
	w.must(err)
	return &adminWorld{w, admin, byPassword}
}

// TestAgentScopes does an agent's requests with AgentScopes, and again with each scope left out: then a request must
// fail, or that scope is not needed.
func TestAgentScopes(t *testing.T) {
	onEachServer(t, func(w *adminWorld) {
		n := w.file("an issue", "", "backlog")
		branches := 0
		works := func(scopes []string) error {
			branches++
			var made struct{ SHA1 string }
			owner := &rest.API{URL: w.url, User: w.dev, Password: w.tokens[w.dev+" password"]}
			w.must(owner.Post(w.Context(), tokensOf(w.dev),
				map[string]any{"name": "t" + strings.Join(scopes, "-"), "scopes": scopes}, &made))
			return w.work(&rest.API{URL: w.url, Token: made.SHA1}, n, fmt.Sprintf("fix/issue-%d-%d", n, branches))
		}
		w.must(works(AgentScopes()))
		for i, scope := range AgentScopes() {
			if err := works(slices.Delete(AgentScopes(), i, i+1)); !errors.Is(err, forge.ErrForbidden) {
				w.Errorf("without the scope %s: got %v, want a forbidden request", scope, err)
			}
		}
	})
}

// work makes the requests of an agent: read the login, comment, label, commit on a branch, open a pull request, review
// it.
func (w *adminWorld) work(api *rest.API, n int64, branch string) error {
	at := "/repos/" + w.repo
	var labels []struct {
		ID   int64
		Name string
	}
	var pull struct{ Number int64 }
	var errs []error
	try := func(err error) { errs = append(errs, err) }
	try(api.Get(w.Context(), "/user", nil))
	try(api.Post(w.Context(), fmt.Sprintf("%s/issues/%d/comments", at, n), map[string]string{"body": "x"}, nil))
	try(api.Get(w.Context(), at+"/labels", &labels))
	for _, l := range labels {
		if l.Name == "priority" {
			try(api.Post(w.Context(), fmt.Sprintf("%s/issues/%d/labels", at, n), map[string][]int64{"labels": {l.ID}}, nil))
		}
	}
	try(api.Post(w.Context(), at+"/contents", map[string]any{
		"branch": "main", "new_branch": branch, "message": "x",
		"files": []map[string]string{
			{
				"operation": "create", "path": strings.ReplaceAll(branch, "/", "-"),
				"content": base64.StdEncoding.EncodeToString([]byte("x")),
			},
		},
	}, nil))
	try(api.Post(w.Context(), at+"/pulls", map[string]string{"title": "x", "head": branch, "base": "main"}, &pull))
	try(api.Post(w.Context(), fmt.Sprintf("%s/pulls/%d/reviews", at, pull.Number),
		map[string]string{"event": "COMMENT", "body": "x"}, nil))
	return errors.Join(errs...)
}

// TestAdminTokens manages the tokens of an account. An administrator who signs in with a token needs the account's
// password, or sets a new one; one who signs in with a password does not.
func TestAdminTokens(t *testing.T) {
	onEachServer(t, func(w *adminWorld) {
		ctx := w.Context()
		own := func() error {
			return (&rest.API{URL: w.url, User: w.dev, Password: w.tokens[w.dev+" password"]}).Get(ctx, "/user", nil)
		}
		for range 60 { // more than a page
			_, err := w.byPassword.CreateToken(ctx, w.dev, "disinto-"+strings.ToLower(rand.Text()[:12]))
			w.must(err)
		}
		if err := own(); err != nil {
			w.Errorf("the account's password was changed: %v", err)
		}
		all, err := w.byPassword.Tokens(ctx, w.dev)
		if err != nil || len(all) < 60 {
			w.Errorf("Tokens returned %d tokens, %v; want at least 60", len(all), err)
		}
		if _, err := w.admin.CreateToken(ctx, w.dev, "none"); err == nil || own() != nil {
			w.Errorf("without the account's password: got %v, and the password %v", err, own())
		}
		if err := w.admin.SignIn(ctx, w.dev, "not-its-password"); !errors.Is(err, forge.ErrForbidden) {
			w.Errorf("signing in with a wrong password: got %v", err)
		}
		w.must(w.admin.SignIn(ctx, w.dev, w.tokens[w.dev+" password"]))
		text, err := w.admin.CreateToken(ctx, w.dev, "one")
		w.must(err)
		if err := own(); err != nil {
			w.Errorf("the account's password was changed: %v", err)
		}
		w.must(w.admin.SetPassword(ctx, w.dev, rand.Text()+"-a1A"))
		if err := own(); !errors.Is(err, forge.ErrForbidden) {
			w.Errorf("the account's old password still works: %v", err)
		}
		if login, err := w.admin.WhoAmI(ctx, text); err != nil || login != w.dev {
			w.Errorf("WhoAmI returned %s, %v; want the account's login", login, err)
		}
		all, err = w.admin.Tokens(ctx, w.dev)
		w.must(err)
		i := slices.IndexFunc(all, func(t forge.Token) bool { return t.Name == "one" })
		if i < 0 {
			w.Fatalf("the new token is not in %v", all)
		}
		for range 2 { // the second time the token is already gone
			w.must(w.admin.RevokeToken(ctx, w.dev, all[i]))
		}
		if _, err := w.admin.WhoAmI(ctx, text); !errors.Is(err, forge.ErrForbidden) {
			w.Errorf("a revoked token: got %v, want a forbidden request", err)
		}
		if _, err := w.byPassword.CreateToken(ctx, "nobody-"+w.suffix, "x"); !errors.Is(err, forge.ErrNotFound) {
			w.Errorf("a token for a missing account: got %v, want not found", err)
		}
	})
}

// TestUnassign unassigns one agent and leaves the assignments of other accounts unchanged.
func TestUnassign(t *testing.T) {
	onEachServer(t, func(w *adminWorld) {
		isAgent := func(login string) bool { return login == w.review }
		ours, shared, theirs := w.file("a", "", "in-progress", "backlog"), w.file("b", "", "in-progress"), w.file("c", "")
		w.assign(ours, w.dev, w.owner)
		w.assign(shared, w.dev, w.review)
		w.assign(theirs, w.owner)
		refs, err := w.admin.Assigned(w.Context(), w.repo, w.dev)
		w.must(err)
		if !slices.Equal(refs, []forge.Ref{w.ref(ours), w.ref(shared)}) {
			w.Fatalf("Assigned returned %v", refs)
		}
		for _, ref := range append(refs, refs...) { // the second time changes nothing
			w.must(w.admin.Unassign(w.Context(), ref, w.dev, isAgent))
		}
		for n, want := range map[int64]string{
			ours: w.owner + " backlog", shared: w.review + " in-progress",
			theirs: w.owner + " ",
		} {
			in := w.issue(n)
			if got := strings.Join(logins(in.Assignees), ",") + " " + strings.Join(labelNames(in.Labels), ","); got != want {
				w.Errorf("#%d is %q, want %q", n, got, want)
			}
		}
		none, err := w.admin.Assigned(w.Context(), w.repo, w.dev)
		if err != nil || len(none) > 0 {
			w.Errorf("still assigned: %v, %v", none, err)
		}
	})
}

// TestAllow checks which accounts have write access: the owner, a collaborator, one that was allowed and one that was
// disallowed.
func TestAllow(t *testing.T) {
	onEachServer(t, func(w *adminWorld) {
		ctx := w.Context()
		for _, tt := range []struct {
			login       string
			writes, has bool
		}{{w.owner, true, false}, {w.dev, true, true}, {w.human, false, false}} {
			writes, err := w.admin.CanWrite(ctx, w.repo, tt.login)
			has, err2 := w.admin.Collaborates(ctx, w.repo, tt.login)
			if err != nil || err2 != nil || writes != tt.writes || has != tt.has {
				w.Errorf("%s: writes %v, collaborates %v, %v, %v", tt.login, writes, has, err, err2)
			}
		}
		if may, err := w.admin.CanWrite(ctx, w.repo, "nobody-"+w.suffix); may || err != nil {
			w.Errorf("a missing account can write: %v, %v", may, err)
		}
		w.must(w.admin.Allow(ctx, w.repo, w.human))
		for range 2 {
			w.must(w.admin.Disallow(ctx, w.repo, w.dev))
		}
		if may, err := w.admin.CanWrite(ctx, w.repo, w.human); !may || err != nil {
			w.Errorf("the allowed account can write: %v, %v; want true", may, err)
		}
		if may, err := w.admin.CanWrite(ctx, w.repo, w.dev); may || err != nil {
			w.Errorf("the disallowed account can write: %v, %v; want false", may, err)
		}
	})
}

func TestNewAdmin(t *testing.T) {
	if _, err := NewAdmin(AdminOptions{URL: "forgejo:3000", Token: "t"}); err == nil {
		t.Error("NewAdmin accepted an address without a scheme")
	}
}
