package rules

import (
	"net/http"
	"strings"
)

var tokenRules = []rule{
	{
		"a token leads to its account",
		"forge/forgejo WhoAmI, which checks that an agent's token belongs to the agent",
		whoseToken,
	},
	{
		"creating a token requires a password",
		"agents/hire, which therefore sets a password for the account that it creates",
		tokenNeedsPassword,
	},
	{
		"a token is accepted instead of the password",
		"agents/hire, which creates an agent's token with the administrator's own; " +
			"agents' tokens must not have write:user, with which they could create tokens with more rights",
		tokenForPassword,
	},
	{
		"an administrator's password can create tokens for other accounts",
		"agents/hire, where only the administrator's password is known",
		adminMakesTokens,
	},
	{
		"token names are unique per account",
		"agents/hire, which puts the time into the name when an agent is hired again",
		tokenNames,
	},
	{
		"a revoked token is refused everywhere",
		"agents/hire, which deletes the old token once the new one works",
		revokedToken,
	},
	{
		"a wrong token is refused even where none is needed",
		"forge/forgejo: after a 401 the token must be replaced",
		wrongToken,
	},
	{
		"scopes limit a token",
		"agents/hire and forge/forgejo Prepare, which need only write:repository, write:issue and read:user",
		scopesKept,
	},
	{
		"a token needs a scope",
		"agents/hire, whose list of scopes is never empty",
		scopesNeeded,
	},
}

func whoseToken(w *world) {
	dev := w.account("dev")
	same(w, "login", read[user](dev, "/user").Login, dev.name)
	same(w, "login with a narrow token", read[user](dev.as(dev.newToken("narrow", "read:user")), "/user").Login, dev.name)
}

func tokenNeedsPassword(w *world) {
	dev := w.account("dev")
	form := fields{"name": "more", "scopes": []string{"all"}}
	path := "/users/" + dev.name + "/tokens"
	dev.post(path, form).want(http.StatusUnauthorized)
	w.admin.post(path, form).want(http.StatusUnauthorized)
	dev.get(path).want(http.StatusUnauthorized)
	w.account("stranger").withPassword(http.MethodPost, path, form).want(http.StatusForbidden)
	dev.withPassword(http.MethodPost, path, form).want(http.StatusCreated)
}

func tokenForPassword(w *world) {
	dev := w.newcomer("dev")
	path := "/users/" + dev.name + "/tokens"
	with := func(token, name string) answer {
		a := &account{w: w, name: "whoever", password: token}
		return a.withPassword(http.MethodPost, path, fields{"name": name, "scopes": []string{"all"}})
	}
	with(w.server.AdminToken, "by the administrator").want(http.StatusCreated)
	with(dev.newToken("users", "write:user"), "by a narrower token").want(http.StatusCreated)
	with(dev.newToken("agent", "write:repository", "write:issue", "read:user"), "by an agent").want(http.StatusForbidden)
}

func adminMakesTokens(w *world) {
	dev, chief := w.newcomer("dev"), w.newcomer("chief")
	w.admin.edit(chief.name, fields{"admin": true}).want(http.StatusOK)
	a := chief.withPassword(http.MethodPost, "/users/"+dev.name+"/tokens", fields{"name": "t", "scopes": []string{"all"}}).
		want(http.StatusCreated)
	token := decode[struct {
		Secret string `json:"sha1"`
	}](a).Secret
	same(w, "login", read[user](dev.as(token), "/user").Login, dev.name)
}

func tokenNames(w *world) {
	dev := w.account("dev")
	path := "/users/" + dev.name + "/tokens"
	dev.withPassword(http.MethodPost, path, fields{"name": "test", "scopes": []string{"all"}}).want(http.StatusBadRequest)
	a := dev.withPassword(http.MethodGet, path, nil).want(http.StatusOK)
	tokens := decode[[]struct {
		Name   string `json:"name"`
		Secret string `json:"sha1"`
	}](a)
	if len(tokens) != 1 || tokens[0].Name != "test" || tokens[0].Secret != "" {
		w.Errorf("got %+v, want the existing token, without its secret", tokens)
	}
}

func revokedToken(w *world) {
	r := w.repo()
	dev := r.writer("dev")
	old := dev.as(dev.newToken("old", "all"))
	c := r.claimant(old)
	same(w, "a push with the token succeeds", c.push(7, c.commit()), true)
	old.get(r.at("/issues")).want(http.StatusOK)
	dev.withPassword(http.MethodDelete, "/users/"+dev.name+"/tokens/old", nil).want(http.StatusNoContent)
	old.get("/user").want(http.StatusUnauthorized)
	old.get(r.at("/issues")).want(http.StatusUnauthorized) // although the issues are public
	same(w, "a push with the revoked token succeeds", c.push(8, c.commit()), false)
	dev.withPassword(http.MethodDelete, "/users/"+dev.name+"/tokens/old", nil).want(http.StatusNotFound)
	dev.get("/user").want(http.StatusOK)
}

func wrongToken(w *world) {
	r := w.repo()
	wrong := r.owner.as(strings.Repeat("0", 40))
	wrong.get(r.at("/issues")).want(http.StatusUnauthorized)
	w.anonymous().get(r.at("/issues")).want(http.StatusOK)
	w.anonymous().get("/user").want(http.StatusUnauthorized)
	bad := &account{w: w, name: r.owner.name, password: "not the password"}
	bad.withPassword(http.MethodGet, "/user", nil).want(http.StatusUnauthorized)
}

func scopesKept(w *world) {
	r := w.repo()
	id := r.label("backlog")
	n := r.open("first")
	enough := r.owner.as(r.owner.newToken("enough", "write:repository", "write:issue", "read:user"))
	enough.get("/user").want(http.StatusOK)
	enough.get(r.at("")).want(http.StatusOK)
	enough.post(r.at("/issues/%d/labels", n), fields{"labels": []int64{id}}).want(http.StatusOK)
	enough.post(r.at("/issues/%d/comments", n), fields{"body": "x"}).want(http.StatusCreated)
	enough.post(r.at("/hooks"), fields{
		"type":   "gitea",
		"config": fields{"url": "http://127.0.0.1:1/", "content_type": "json"},
	}).want(http.StatusCreated)

	reading := r.owner.as(r.owner.newToken("reading", "read:issue", "read:repository"))
	reading.get(r.at("/issues")).want(http.StatusOK)
	reading.get("/user").want(http.StatusForbidden)
	reading.post(r.at("/issues/%d/labels", n), fields{"labels": []int64{id}}).want(http.StatusForbidden)
	reading.post(r.at("/issues/%d/comments", n), fields{"body": "x"}).want(http.StatusForbidden)
	reading.patch(r.at("/labels/%d", id), fields{}).want(http.StatusForbidden)
	reading.post(r.at("/pulls"), fields{"head": "x", "base": "main", "title": "t"}).want(http.StatusForbidden)

	issues := r.owner.as(r.owner.newToken("issues", "write:issue"))
	issues.get(r.at("/pulls")).want(http.StatusForbidden)
	issues.get(r.at("/issues")).want(http.StatusOK)
}

func scopesNeeded(w *world) {
	dev := w.newcomer("dev")
	for _, scopes := range [][]string{nil, {"bogus"}, {"write:bogus"}} {
		dev.withPassword(http.MethodPost, "/users/"+dev.name+"/tokens", fields{"name": "t", "scopes": scopes}).
			want(http.StatusBadRequest)
	}
}
