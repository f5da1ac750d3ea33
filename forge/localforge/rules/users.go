package rules

import (
	"crypto/rand"
	"net/http"
	"strings"
)

var userRules = []rule{
	{
		"an administrator can create accounts, and names are unique",
		"agents/hire, which continues with the existing account after a 422",
		makeUser,
	},
	{
		"an account whose password must be changed can do nothing",
		"agents/hire, which sets must_change_password to false, because the default is true",
		mustChange,
	},
	{
		"an administrator can set a password",
		"agents/hire, when an agent is hired again and its password is lost; its tokens stay valid",
		setPassword,
	},
	{
		"only administrators can manage accounts",
		"agents/hire, whose error says that an administrator's token is needed",
		onlyAdmins,
	},
	{
		"an administrator can create repositories for other accounts",
		"agents/hire, for the agent's profile",
		adminMakesRepository,
	},
	{
		"adding a collaborator can be repeated",
		"agents/hire, which can be run again",
		collaborators,
	},
	{
		"the issues of a deleted account show the author Ghost",
		"threads, which treats an author who is not one of our agents as a person",
		ghosts,
	},
}

func makeUser(w *world) {
	dev := w.newcomer("dev")
	form := func(name, mail string) fields {
		return fields{"username": name, "email": mail + "@example.invalid", "password": rand.Text()}
	}
	w.admin.post("/admin/users", form(dev.name, "other-"+w.suffix)).want(http.StatusUnprocessableEntity)
	w.admin.post("/admin/users", form(strings.ToUpper(dev.name), "other-"+w.suffix)).want(http.StatusUnprocessableEntity)
	w.admin.post("/admin/users", form("other-"+w.suffix, dev.name)).want(http.StatusUnprocessableEntity)
	w.admin.post("/admin/users", form("-wrong-"+w.suffix, "wrong-"+w.suffix)).want(http.StatusUnprocessableEntity)
	same(w, "login", read[user](w.admin, "/users/"+dev.name).Login, dev.name)
	w.admin.get("/users/other-" + w.suffix).want(http.StatusNotFound)
}

// edit changes an account. Gitea requires the fields source_id and login_name; Forgejo does not.
func (a *account) edit(name string, change fields) answer {
	a.w.Helper()
	change["source_id"], change["login_name"] = 0, name
	return a.patch("/admin/users/"+name, change)
}

func mustChange(w *world) {
	name := "dev-" + w.suffix
	dev := &account{w: w, name: name, password: rand.Text()}
	w.admin.post("/admin/users", fields{"username": name, "email": name + "@example.invalid", "password": dev.password}).
		want(http.StatusCreated)
	w.made.user(name)
	dev.withPassword(http.MethodGet, "/user", nil).want(http.StatusForbidden)
	dev.withPassword(http.MethodPost, "/users/"+name+"/tokens", fields{"name": "t", "scopes": []string{"all"}}).
		want(http.StatusForbidden)
	w.admin.edit(name, fields{"must_change_password": false}).want(http.StatusOK)
	dev.withPassword(http.MethodGet, "/user", nil).want(http.StatusOK)
}

func setPassword(w *world) {
	dev := w.account("dev")
	old := *dev
	dev.password = rand.Text()
	w.admin.edit(dev.name, fields{"password": dev.password, "must_change_password": false}).
		want(http.StatusOK)
	old.withPassword(http.MethodGet, "/user", nil).want(http.StatusUnauthorized)
	dev.withPassword(http.MethodGet, "/user", nil).want(http.StatusOK)
	dev.get("/user").want(http.StatusOK)
}

func onlyAdmins(w *world) {
	dev := w.account("dev")
	dev.get("/admin/users").want(http.StatusForbidden)
	dev.post("/admin/users", fields{"username": "x-" + w.suffix, "email": "x@example.invalid", "password": rand.Text()}).
		want(http.StatusForbidden)
	dev.edit(dev.name, fields{"admin": true}).want(http.StatusForbidden)
	w.anonymous().get("/admin/users").want(http.StatusUnauthorized)
	w.admin.get("/admin/users?limit=1").want(http.StatusOK)
}

func adminMakesRepository(w *world) {
	dev := w.account("dev")
	form := fields{"name": ".profile", "private": true, "auto_init": true, "default_branch": "main"}
	w.admin.post("/admin/users/"+dev.name+"/repos", form).want(http.StatusCreated)
	r := &repo{w: w, owner: dev, name: ".profile"}
	w.made.repo(r.fullName())
	dev.get(r.at("")).want(http.StatusOK)
	w.admin.post("/admin/users/"+dev.name+"/repos", form).want(http.StatusConflict)
	same(w, "branches", r.branches(), "main")
}

func collaborators(w *world) {
	r := w.repo()
	dev := w.account("dev")
	path := r.at("/collaborators/%s", dev.name)
	r.owner.get(path).want(http.StatusNotFound)
	for range 2 {
		r.owner.put(path, fields{"permission": "write"}).want(http.StatusNoContent)
	}
	r.owner.get(path).want(http.StatusNoContent)
	permission := func() string {
		return read[struct {
			Permission string `json:"permission"`
		}](r.owner, path+"/permission").Permission
	}
	same(w, "permission", permission(), "write")
	r.owner.put(path, fields{"permission": "read"}).want(http.StatusNoContent)
	same(w, "permission", permission(), "read")
	dev.put(path, fields{"permission": "admin"}).want(http.StatusForbidden)
	r.owner.put(r.at("/collaborators/nobody-%s", w.suffix), fields{"permission": "write"}).
		want(http.StatusUnprocessableEntity)
	r.owner.remove(path).want(http.StatusNoContent)
	r.owner.get(path).want(http.StatusNotFound)
}

func ghosts(w *world) {
	r := w.repo()
	gone := r.writer("gone")
	gone.post(r.at("/issues"), fields{"title": "last words"}).want(http.StatusCreated)
	r.assign(r.owner, 1, gone.name)
	w.admin.remove("/admin/users/" + gone.name).want(http.StatusNoContent)
	gone.get("/user").want(http.StatusUnauthorized)
	i := r.issue(1)
	same(w, "author", i.User.Login, "Ghost")
	same(w, "assignees", i.assignees(), "")
	w.admin.remove("/admin/users/" + r.owner.name).refused() // an account that owns a repository cannot be deleted
}
