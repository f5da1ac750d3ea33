package localforge

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// minPassword is Forgejo's default minimum length of a password.
const minPassword = 8

// userName matches valid names: letters and digits, with a single - _ or . between them.
var userName = regexp.MustCompile(`^[\da-zA-Z]+(?:[-._][\da-zA-Z]+)*$`)

type user struct {
	id                 int64
	name               string
	fullName           string
	email              string
	password           string // plain text: it exists only in memory and protects only test data
	admin              bool
	active             bool
	prohibitLogin      bool
	mustChangePassword bool
	deleted            bool // its issues and comments are shown as the account Ghost's
}

// signature returns a user's name and mail address for git, without characters that would end them in a commit object.
func (u *user) signature() (name, mail string) {
	clean := func(r rune) rune {
		if r < ' ' || r == '<' || r == '>' {
			return -1
		}
		return r
	}
	name = u.fullName
	if name == "" {
		name = u.name
	}
	return strings.Map(clean, name), strings.Map(clean, u.email)
}

var userRoutes = []route{
	{"GET /version", anyToken, anyone, 200, getVersion, underLock},
	{"GET /settings/api", anyToken, anyone, 200, getSettings, underLock},
	{"GET /user", scopeUser, signedIn, 200, getOwnUser, underLock},
	{"GET /users/{user}", scopeUser, anyone, 200, getUser, underLock},
	{"GET /admin/users", scopeAdmin, siteAdmin, 200, listUsers, underLock},
	{"POST /admin/users", scopeAdmin, siteAdmin, 201, createUser, underLock},
	{"PATCH /admin/users/{user}", scopeAdmin, siteAdmin, 200, editUser, underLock},
	{"DELETE /admin/users/{user}", scopeAdmin, siteAdmin, 204, deleteUser, underLock},
}

// view makes answers for one caller: doer is nil for an anonymous one, base is the forge's address.
type view struct {
	f    *Forge
	base string
	doer *user
}

type wireUser struct {
	ID            int64  `json:"id"`
	Login         string `json:"login"`
	Email         string `json:"email"`
	IsAdmin       bool   `json:"is_admin"`
	Active        bool   `json:"active"`
	ProhibitLogin bool   `json:"prohibit_login"`
}

// user returns u for an answer to the caller, without the fields that only u and admins can see.
func (v view) user(u *user) *wireUser {
	if u == nil {
		return nil
	}
	if u.deleted {
		return &wireUser{ID: -1, Login: "Ghost"}
	}
	w := &wireUser{ID: u.id, Login: u.name, Email: u.email}
	if v.doer != nil && (v.doer == u || v.doer.admin) {
		w.IsAdmin, w.Active, w.ProhibitLogin = u.admin, u.active, u.prohibitLogin
	}
	return w
}

func (v view) userList(users []*user) []*wireUser {
	if len(users) == 0 {
		return nil
	}
	list := make([]*wireUser, 0, len(users))
	for _, u := range users {
		list = append(list, v.user(u))
	}
	return list
}

// userLocked finds a user by name, ignoring case; nil if there is none.
func (f *Forge) userLocked(name string) *user {
	for _, u := range f.users {
		if strings.EqualFold(u.name, name) {
			return u
		}
	}
	return nil
}

// pathUser returns the user in the path.
func (c *call) pathUser() (*user, error) {
	if u := c.f.userLocked(c.r.PathValue("user")); u != nil {
		return u, nil
	}
	return nil, fail(http.StatusNotFound, "user redirect does not exist [name: %s]", c.r.PathValue("user"))
}

func getVersion(*call) (any, error) {
	return map[string]string{"version": version}, nil
}

func getSettings(*call) (any, error) {
	return map[string]int{"max_response_items": maxPage, "default_paging_num": defaultPage}, nil
}

func getOwnUser(c *call) (any, error) { return c.user(c.doer), nil }

func getUser(c *call) (any, error) {
	u, err := c.pathUser()
	if err != nil {
		return nil, err
	}
	return c.user(u), nil
}

func listUsers(c *call) (any, error) {
	users := slices.Clone(c.f.users)
	slices.SortFunc(users, func(a, b *user) int {
		return strings.Compare(strings.ToLower(a.name),
			strings.ToLower(b.name))
	})
	return paged(c, users, c.user), nil
}

func createUser(c *call) (any, error) {
	var form struct {
		Username           string `json:"username"`
		FullName           string `json:"full_name"`
		Email              string `json:"email"`
		Password           string `json:"password"`
		MustChangePassword *bool  `json:"must_change_password"`
	}
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	switch {
	case form.Username == "":
		return nil, missing("Username")
	case form.Email == "":
		return nil, missing("Email")
	case len(form.Password) < minPassword:
		return nil, fail(http.StatusBadRequest, "PasswordIsRequired")
	}
	u, err := c.f.addUserLocked(form.Username, form.Email, form.Password)
	if err != nil {
		return nil, err
	}
	u.fullName = form.FullName
	u.mustChangePassword = form.MustChangePassword == nil || *form.MustChangePassword
	return c.user(u), nil
}

func (f *Forge) addUserLocked(name, email, password string) (*user, error) {
	if !userName.MatchString(name) {
		return nil, fail(http.StatusUnprocessableEntity,
			"name is invalid [%s]: must be valid alpha or numeric or dash(-_) or dot characters", name)
	}
	for _, u := range f.users {
		if strings.EqualFold(u.name, name) {
			return nil, fail(http.StatusUnprocessableEntity, "user already exists [name: %s]", name)
		}
		if strings.EqualFold(u.email, email) {
			return nil, fail(http.StatusUnprocessableEntity, "e-mail already in use [email: %s]", email)
		}
	}
	u := &user{id: f.nextIDLocked(), name: name, email: email, password: password, active: true}
	f.users = append(f.users, u)
	return u, nil
}

func editUser(c *call) (any, error) {
	u, err := c.pathUser()
	if err != nil {
		return nil, err
	}
	var form struct {
		LoginName          *string `json:"login_name"`
		SourceID           *int64  `json:"source_id"`
		FullName           *string `json:"full_name"`
		Email              *string `json:"email"`
		Password           string  `json:"password"`
		MustChangePassword *bool   `json:"must_change_password"`
		Active             *bool   `json:"active"`
		Admin              *bool   `json:"admin"`
		ProhibitLogin      *bool   `json:"prohibit_login"`
	}
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if (form.LoginName == nil) != (form.SourceID == nil) {
		return nil, fail(http.StatusUnprocessableEntity, "source_id and login_name must be specified together")
	}
	if form.Password != "" {
		if len(form.Password) < minPassword {
			return nil, fail(http.StatusBadRequest, "password must be at least %d characters", minPassword)
		}
		u.password = form.Password
	}
	assign(&u.fullName, form.FullName)
	assign(&u.email, form.Email)
	assign(&u.mustChangePassword, form.MustChangePassword)
	assign(&u.active, form.Active)
	assign(&u.admin, form.Admin)
	assign(&u.prohibitLogin, form.ProhibitLogin)
	return c.user(u), nil
}

// assign sets a field if the form contains a value for it.
func assign[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

func deleteUser(c *call) (any, error) {
	u, err := c.pathUser()
	if err != nil {
		return nil, err
	}
	if u == c.doer {
		return nil, fail(http.StatusUnprocessableEntity, "you cannot delete yourself")
	}
	for _, r := range c.f.repos {
		if r.owner == u {
			return nil, fail(http.StatusUnprocessableEntity, "user still has ownership of repositories [uid: %d]", u.id)
		}
	}
	for secret, t := range c.f.tokens {
		if t.user == u {
			delete(c.f.tokens, secret)
		}
	}
	for _, r := range c.f.repos {
		delete(r.collaborators, u)
		for _, i := range r.issues {
			i.assignees = remove(i.assignees, u)
		}
	}
	c.f.users = remove(c.f.users, u)
	u.deleted = true
	return nil, nil
}

// remove returns a copy of list without item. It must be a copy, because old lists are read without the lock.
func remove[T comparable](list []T, item T) []T {
	kept := make([]T, 0, len(list))
	for _, other := range list {
		if other != item {
			kept = append(kept, other)
		}
	}
	return kept
}
