package localforge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// access is a user's access level in one repository. Each level includes those above it in this list.
type access int

const (
	accessNone access = iota
	accessRead
	accessWrite
	accessAdmin
	accessOwner
)

func (a access) String() string {
	return [...]string{"none", "read", "write", "admin", "owner"}[a]
}

// parseAccess reads a collaborator's permission. As in Forgejo, an unknown word means no access.
func parseAccess(word string) access {
	switch word {
	case "read":
		return accessRead
	case "write":
		return accessWrite
	case "admin", "owner":
		return accessAdmin
	}
	return accessNone
}

// scope is a category of token scopes, or two categories separated by a comma if a route needs both. The request's
// method decides between read and write.
type scope string

const (
	anyToken        scope = ""
	scopeAdmin      scope = "admin"
	scopeIssue      scope = "issue"
	scopeRepository scope = "repository"
	scopeUser       scope = "user"
	scopeUserRepos  scope = "user,repository"
)

// scopeCategories are the categories that a token can name, including those without a route here.
var scopeCategories = []string{
	"activitypub", "admin", "issue", "misc", "notification", "organization", "package", "repository", "user",
}

// missingScope returns the first scope that a request needs and the token lacks; "" if it lacks none.
func missingScope(have []string, s scope, method string) string {
	if s == "" || slices.Contains(have, "all") {
		return ""
	}
	for category := range strings.SplitSeq(string(s), ",") {
		level := "write:"
		if method == http.MethodGet {
			level = "read:"
		}
		if !slices.Contains(have, "write:"+category) && !slices.Contains(have, level+category) {
			return level + category
		}
	}
	return ""
}

// checkScopes rejects unknown scopes.
func checkScopes(scopes []string) error {
	for _, s := range scopes {
		if s == "all" || s == "public-only" {
			continue
		}
		level, category, ok := strings.Cut(s, ":")
		if !ok || (level != "read" && level != "write") || !slices.Contains(scopeCategories, category) {
			return fail(http.StatusBadRequest, "invalid access token scope provided: %s", s)
		}
	}
	if len(scopes) == 0 {
		return fail(http.StatusBadRequest, "access token must have a scope")
	}
	return nil
}

// authenticateLocked sets the account of a request. Without credentials doer stays nil; wrong credentials are an error.
func (f *Forge) authenticateLocked(c *call) error {
	who, err := f.identifyLocked(c.r)
	if err != nil {
		return err
	}
	c.doer, c.byBasic, c.scopes = who.user, who.byBasic, who.scopes
	if c.doer == nil {
		return nil
	}
	if !c.doer.active || c.doer.prohibitLogin {
		return fail(http.StatusForbidden,
			"This account is prohibited from signing in, please contact your site administrator.")
	}
	if c.doer.mustChangePassword {
		return fail(http.StatusForbidden, "You must change your password. Change it at: %s/user/change_password", c.base)
	}
	return nil
}

// identity is the account of a request, after its secret was checked.
type identity struct {
	user    *user
	byBasic bool
	scopes  []string // nil: signed in with a password, or anonymous
}

// identifyLocked reads the Authorization header. Basic authentication accepts a token instead of the password, with any
// user name, or instead of the user name, without a password.
func (f *Forge) identifyLocked(r *http.Request) (identity, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return identity{}, nil
	}
	if name, password, ok := r.BasicAuth(); ok {
		secret := password
		if secret == "" || secret == "x-oauth-basic" {
			secret = name
		}
		if t := f.tokens[secret]; t != nil {
			return identity{t.user, true, t.scopes}, nil
		}
		if u := f.userLocked(name); u != nil && u.password != "" && u.password == password {
			return identity{u, true, nil}, nil
		}
		return identity{}, badCredentials(name)
	}
	kind, secret, _ := strings.Cut(header, " ")
	if kind != "token" && !strings.EqualFold(kind, "bearer") {
		return identity{}, nil
	}
	t := f.tokens[strings.TrimSpace(secret)]
	if t == nil {
		return identity{}, badCredentials("")
	}
	return identity{t.user, false, t.scopes}, nil
}

func badCredentials(name string) error {
	return &refusal{
		status:  http.StatusUnauthorized,
		message: fmt.Sprintf("user does not exist [uid: 0, name: %s]", name),
	}
}
