package forgejo

import (
	"context"
	"errors"
	"fmt"

	"codeberg.org/johba/disinto/forge"
)

// AgentScopes are the minimal scopes of an agent's token, found by leaving out each in turn: an agent pushes, opens
// pull requests and reviews (write:repository), comments and labels (write:issue), and reads its own login (read:user).
func AgentScopes() []string { return []string{"write:repository", "write:issue", "read:user"} }

// Tokens lists the tokens of an account, without their texts.
func (a *Admin) Tokens(ctx context.Context, login string) ([]forge.Token, error) {
	as, err := a.owner(login)
	if err != nil {
		return nil, err
	}
	all, _, err := as.tokens(login).all(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list the tokens of %s: %w", login, err)
	}
	var tokens []forge.Token
	for _, t := range all {
		if t != nil {
			tokens = append(tokens, *t)
		}
	}
	return tokens, nil
}

// CreateToken creates a token with AgentScopes for an account and returns its text.
func (a *Admin) CreateToken(ctx context.Context, login, name string) (text string, err error) {
	as, err := a.owner(login)
	if err == nil && a.passwords[login] == "" {
		err = a.unlock(ctx, login, "")
	}
	if err != nil {
		return "", fmt.Errorf("cannot make a token for %s: %w", login, err)
	}
	if text, err = as.createToken(ctx, login, name, AgentScopes()); err != nil {
		return "", fmt.Errorf("cannot make a token for %s: %w", login, err)
	}
	if text == "" {
		return "", fmt.Errorf("cannot make a token for %s: the forge's answer contains no token", login)
	}
	return text, nil
}

// RevokeToken deletes a token. It can be repeated.
func (a *Admin) RevokeToken(ctx context.Context, login string, t forge.Token) error {
	as, err := a.owner(login)
	if err != nil {
		return err
	}
	if err = as.deleteToken(ctx, login, t.ID); err != nil && !errors.Is(err, forge.ErrNotFound) {
		return fmt.Errorf("cannot revoke the token %s of %s: %w", t.Name, login, err)
	}
	return nil
}

// WhoAmI returns the login of the account that a token belongs to.
func (a *Admin) WhoAmI(ctx context.Context, token string) (string, error) {
	g, x := a.as(token).sdk(ctx)
	u, _, err := g.GetMyUserInfo()
	if err = x.end(err); err != nil {
		return "", fmt.Errorf("cannot sign in with the token: %w", err)
	}
	return u.UserName, nil
}
