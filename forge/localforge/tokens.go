package localforge

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
)

type token struct {
	id     int64
	user   *user
	name   string
	secret string
	scopes []string
}

// Tokens can be managed only with a password, so that a stolen token cannot create others. As in Forgejo, basic
// authentication with a token instead of the password works too.
var tokenRoutes = []route{
	{"GET /users/{user}/tokens", scopeUser, anyone, 200, listTokens, underLock},
	{"POST /users/{user}/tokens", scopeUser, signedIn, 201, createToken, underLock},
	{"DELETE /users/{user}/tokens/{id}", scopeUser, signedIn, 204, deleteToken, underLock},
}

type wireToken struct {
	ID             int64    `json:"id"`
	Name           string   `json:"name"`
	Secret         string   `json:"sha1"` // only in the answer to the token's creation
	TokenLastEight string   `json:"token_last_eight"`
	Scopes         []string `json:"scopes"`
}

func (t *token) wire() wireToken {
	return wireToken{ID: t.id, Name: t.name, TokenLastEight: t.secret[len(t.secret)-8:], Scopes: t.scopes}
}

// tokenOwner returns the user in the path, if the caller can manage that user's tokens.
func (c *call) tokenOwner() (*user, error) {
	u, err := c.pathUser()
	if err != nil {
		return nil, err
	}
	if c.doer != u && (c.doer == nil || !c.doer.admin) {
		return nil, fail(http.StatusForbidden, "doer should be the site admin or be same as the contextUser")
	}
	if !c.byBasic {
		return nil, fail(http.StatusUnauthorized, "auth required")
	}
	return u, nil
}

func (f *Forge) tokensLocked(u *user) []*token {
	var list []*token
	for _, t := range f.tokens {
		if t.user == u {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *token) int { return int(a.id - b.id) })
	return list
}

func listTokens(c *call) (any, error) {
	u, err := c.tokenOwner()
	if err != nil {
		return nil, err
	}
	return paged(c, c.f.tokensLocked(u), (*token).wire), nil
}

func createToken(c *call) (any, error) {
	u, err := c.tokenOwner()
	if err != nil {
		return nil, err
	}
	var form struct {
		Name   string   `json:"name"`
		Scopes []string `json:"scopes"`
	}
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if form.Name == "" {
		return nil, missing("Name")
	}
	for _, t := range c.f.tokensLocked(u) {
		if t.name == form.Name {
			return nil, fail(http.StatusBadRequest, "access token name has been used already")
		}
	}
	if err := checkScopes(form.Scopes); err != nil {
		return nil, err
	}
	t := c.f.addTokenLocked(u, form.Name, form.Scopes)
	answer := t.wire()
	answer.Secret = t.secret
	return answer, nil
}

func (f *Forge) addTokenLocked(u *user, name string, scopes []string) *token {
	secret := make([]byte, 20)
	_, _ = rand.Read(secret) // crypto/rand never fails
	t := &token{id: f.nextIDLocked(), user: u, name: name, secret: hex.EncodeToString(secret), scopes: scopes}
	f.tokens[t.secret] = t
	return t
}

// deleteToken accepts a token's id or its name.
func deleteToken(c *call) (any, error) {
	u, err := c.tokenOwner()
	if err != nil {
		return nil, err
	}
	id, _ := strconv.ParseInt(c.r.PathValue("id"), 0, 64)
	for _, t := range c.f.tokensLocked(u) {
		if t.id == id || (id == 0 && t.name == c.r.PathValue("id")) {
			delete(c.f.tokens, t.secret)
			return nil, nil
		}
	}
	return nil, notFound()
}
