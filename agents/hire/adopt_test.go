package hire

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge/forgejo"
	"codeberg.org/johba/disinto/forge/rest"
)

// person creates an account with a token of its own, and returns a function that fails if its password or its token no
// longer work.
func (w *world) person() (untouched func(when string)) {
	w.Helper()
	password := w.account(w.name)
	root := &rest.API{URL: w.url, User: w.withPassword.User, Password: w.withPassword.Password}
	w.must(root.Call(w.Context(), "PATCH", "/admin/users/"+w.name,
		map[string]any{"source_id": 0, "login_name": w.name, "must_change_password": false}, nil))
	var theirs struct{ SHA1 string }
	w.must(root.Post(w.Context(), "/users/"+w.name+"/tokens",
		map[string]any{"name": "disinto-theirs", "scopes": []string{"all"}}, &theirs))
	return func(when string) {
		w.Helper()
		own := &rest.API{URL: w.url, User: w.name, Password: password}
		if err := own.Get(w.Context(), "/user", nil); err != nil {
			w.Errorf("%s: the person's password no longer works: %v", when, err)
		}
		if !w.lives(theirs.SHA1) {
			w.Errorf("%s: the person's token was revoked", when)
		}
	}
}

// An account of which the factory holds no token is a person's or another factory's. Nothing is taken over: hiring
// stops before its first write, and with --adopt it only adds a token.
func TestOthersAccount(t *testing.T) {
	onEach(t, func(w *world) {
		untouched := w.person()
		for _, as := range []forgejo.AdminOptions{w.withToken, w.withPassword} {
			h := w.hire(as)
			err := h.Check(w.Context())
			if err == nil || !strings.Contains(err.Error(), "it may be a person's, "+w.name+"@") ||
				!strings.Contains(err.Error(), "--adopt") {
				w.Errorf("Check: %v, want whose it may be", err)
			}
			if err := h.Run(w.Context()); err == nil || !strings.Contains(err.Error(), "--adopt") {
				w.Errorf("Run without Check: %v", err)
			}
			untouched("refused")
		}
		expect(w.T, w.config, before, 0o644)
		mustWrite(w.T, w.where, "FORGE_TOKEN_"+strings.ToUpper(strings.ReplaceAll(w.name, "-", "_"))+"=stale\n", 0o600)
		if err := w.hire(w.withToken).Check(w.Context()); err == nil || !strings.Contains(err.Error(), "does not sign in") {
			w.Errorf("with a token that is not valid: %v", err)
		}

		h := w.hire(w.withToken)
		h.Adopt = true
		if err := h.Check(w.Context()); err == nil || !strings.Contains(err.Error(), "--admin-password") ||
			!strings.Contains(err.Error(), "generate-access-token --username "+w.name) {
			w.Errorf("adopting without a password: %v, want what to do", err)
		}
		h = w.hire(w.withPassword)
		h.Adopt = true
		w.do(h)
		untouched("adopted")
		first := w.secret()
		w.do(w.hire(w.withToken)) // without a password its token stays
		if w.secret() != first {
			w.Error("a second run without a password changed the token")
		}
		w.do(w.hire(w.withPassword))
		if w.secret() == first || w.lives(first) || !w.lives(w.secret()) {
			w.Error("a second run did not replace its own token")
		}
		untouched("hired again")
		token := w.secret()
		r := w.retire(w.withPassword)
		w.must(r.Check(w.Context()))
		w.must(r.Run(w.Context()))
		if w.lives(token) || w.secret() != "" {
			w.Error("retiring left its token")
		}
		untouched("retired")
		if err := w.admin.Get(w.Context(), "/repos/"+w.repo+"/collaborators/"+w.name, nil); err != nil {
			w.Errorf("retiring ended the access of a person's account: %v", err)
		}
	})
}

// Two factories on one forge: the second one leaves the first one's account alone, also when it works as it.
func TestSecondFactory(t *testing.T) {
	onEach(t, func(w *world) {
		w.do(w.hire(w.withToken))
		first, where, config := w.secret(), w.where, w.config
		second := func() {
			w.where, w.config = filepath.Join(w.dir, "second.env"), filepath.Join(w.dir, "second.toml")
		}
		second()
		mustWrite(w.T, w.config, before, 0o644)
		if err := w.hire(w.withToken).Check(w.Context()); err == nil || !strings.Contains(err.Error(), "another factory") {
			w.Errorf("Check: %v, want whose it may be", err)
		}
		h := w.hire(w.withPassword)
		h.Adopt = true
		w.do(h)
		w.do(w.hire(w.withToken)) // replaces the random password, and its own token
		if !w.lives(first) {
			w.Fatal("the second factory revoked the first one's token")
		}
		ours := w.secret()
		w.where, w.config = where, config
		w.do(w.hire(w.withToken))
		if w.lives(first) {
			w.Error("the first factory could not replace its token")
		}
		second()
		if !w.lives(ours) {
			w.Error("the first factory revoked the second one's token")
		}
		r := w.retire(w.withToken)
		w.must(r.Check(w.Context()))
		w.must(r.Run(w.Context()))
		w.where, w.config = where, config
		if w.lives(ours) || !w.lives(w.secret()) {
			w.Error("retiring in the second factory: its token is valid, or the first one's is not")
		}
	})
}

// A token in the environment is never replaced: another factory's shell has one, too.
func TestTokenInEnvironment(t *testing.T) {
	w := onLocal(t)
	w.do(w.hire(w.withToken))
	env := w.secret()
	w.must(os.Remove(w.where))
	h := w.hire(w.withToken)
	h.Env = env
	w.do(h)
	if !w.lives(env) || !strings.Contains(w.said.String(), "keep its token: it comes from the environment") {
		t.Errorf("the token in the environment is valid: %v\n%s", w.lives(env), w.said.String())
	}
}

// With Keep, hiring repairs the access of an account that it hired before, and does nothing else.
func TestKeepRepairsAccess(t *testing.T) {
	w := onLocal(t)
	w.do(w.hire(w.withToken))
	token := w.secret()
	owner, _, _ := strings.Cut(w.repo, "/")
	second := owner + "/second"
	form := map[string]any{"name": "second", "auto_init": true}
	w.must(w.admin.Post(t.Context(), "/admin/users/"+owner+"/repos", form, nil))
	w.said.Reset()
	h := w.hire(w.withToken)
	h.Keep, h.Repos = true, []string{w.repo, second}
	w.do(h)
	agent := &rest.API{URL: w.url, Token: token}
	var harb struct{ Permissions struct{ Push bool } }
	err := agent.Get(t.Context(), "/repos/"+second, &harb)
	if err != nil || !harb.Permissions.Push || w.secret() != token {
		t.Errorf("access to %s: %+v, %v; the token is the same: %v", second, harb, err, w.secret() == token)
	}
	if said := w.said.String(); said != "access: let it write to "+second+" ...\naccess: it may write to "+second+"\n" {
		t.Errorf("reported\n%s", said)
	}
}

// A person's repository .profile, which the forge shows on the person's page, is not an agent's memory.
func TestPersonsProfile(t *testing.T) {
	w := onLocal(t)
	w.person()
	form := map[string]any{"name": ".profile", "auto_init": true}
	w.must(w.admin.Post(t.Context(), "/admin/users/"+w.name+"/repos", form, nil))
	h := w.hire(w.withPassword)
	h.Adopt = true
	w.do(h)
	if n := w.commits(w.name + "/.profile"); n != 1 {
		t.Errorf("the person's .profile has %d commits, want one", n)
	}
	w.profiled(&rest.API{URL: w.url, Token: w.secret()}, w.name+"/"+w.name+"-profile")
}

// An account that may not sign in was locked by a person: hiring does not unlock it.
func TestLockedAccount(t *testing.T) {
	w := onLocal(t)
	w.do(w.hire(w.withToken))
	w.must(w.admin.Call(t.Context(), "PATCH", "/admin/users/"+w.name,
		map[string]any{"source_id": 0, "login_name": w.name, "prohibit_login": true}, nil))
	h := w.hire(w.withPassword)
	h.Adopt = true
	err := h.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "may not sign in; allow it on the forge") {
		t.Errorf("Check: %v, want a refusal", err)
	}
}

func TestMarks(t *testing.T) {
	text := setMark("A=1", beginMark, "dev-x", "word")
	text = setMark(text, retiredMark, "dev-y", "")
	if got := marked(text, beginMark); !maps.Equal(got, map[string]string{"dev-x": "word"}) {
		t.Errorf("begun: %v in\n%s", got, text)
	}
	if got := slices.Sorted(maps.Keys(marked(text, retiredMark))); !slices.Equal(got, []string{"dev-y"}) {
		t.Errorf("retired: %v in\n%s", got, text)
	}
	if again := setMark(text, beginMark, "dev-x", "other"); strings.Count(again, "dev-x") != 1 {
		t.Errorf("a second record:\n%s", again)
	}
	if got := dropMarks(dropMarks(text, "dev-x"), "dev-y"); got != "A=1\n" || len(Secrets(text)) != 1 {
		t.Errorf("without the records: %q", got)
	}
}
