package forgejo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"code.gitea.io/sdk/gitea"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/rest"
)

// AgentScopes are the minimal scopes of an agent's token, found by leaving out each in turn: an agent pushes, opens
// pull requests and reviews (write:repository), comments and labels (write:issue), and reads its own login (read:user).
func AgentScopes() []string { return []string{"write:repository", "write:issue", "read:user"} }

// Tokens lists the tokens of an account, without their texts.
func (a *Admin) Tokens(ctx context.Context, login string) ([]forge.Token, error) {
	as, err := a.owner(ctx, login)
	if err != nil {
		return nil, err
	}
	all, err := listAll[forge.Token](ctx, as, tokensOf(login))
	if err != nil {
		return nil, fmt.Errorf("cannot list the tokens of %s: %w", login, err)
	}
	return all, nil
}

func tokensOf(login string) string { return "/users/" + url.PathEscape(login) + "/tokens" }

// CreateToken creates a token with AgentScopes for an account and returns its text.
func (a *Admin) CreateToken(ctx context.Context, login, name string) (text string, err error) {
	as, err := a.owner(ctx, login)
	if err != nil {
		return "", err
	}
	var made struct {
		Text string `json:"sha1"`
	}
	if err := as.Post(ctx, tokensOf(login), map[string]any{"name": name, "scopes": AgentScopes()}, &made); err != nil {
		return "", fmt.Errorf("cannot make a token for %s: %w", login, err)
	}
	if made.Text == "" {
		return "", fmt.Errorf("cannot make a token for %s: the forge's answer contains no token", login)
	}
	return made.Text, nil
}

// RevokeToken deletes a token. It can be repeated.
func (a *Admin) RevokeToken(ctx context.Context, login string, t forge.Token) error {
	as, err := a.owner(ctx, login)
	if err != nil {
		return err
	}
	err = as.Call(ctx, http.MethodDelete, tokensOf(login)+"/"+strconv.FormatInt(t.ID, 10), nil, nil)
	if err != nil && !errors.Is(err, forge.ErrNotFound) {
		return fmt.Errorf("cannot revoke the token %s of %s: %w", t.Name, login, err)
	}
	return nil
}

// WhoAmI returns the login of the account that a token belongs to.
func (a *Admin) WhoAmI(ctx context.Context, token string) (string, error) {
	var u gitea.User
	if err := (&rest.API{URL: a.api.URL, Token: token}).Get(ctx, "/user", &u); err != nil {
		return "", fmt.Errorf("cannot sign in with the token: %w", err)
	}
	return u.UserName, nil
}
