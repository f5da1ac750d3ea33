package hire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// holding is what this factory holds of an account. Only an account of which it holds a token, or the password of a
// creation that was interrupted, is this factory's. Any other one can be a person's or another factory's: a second
// factory on a forge once replaced the password of the first one's supervisor and revoked its tokens.
type holding struct {
	account *forge.Account // nil if the forge has none
	token   agents.Secret  // signs in as the account; empty without one
	inFile  bool           // token is in the secrets file, not in the environment
	stale   bool           // the secrets file has a token for the account that does not sign in as it
	begun   bool           // the secrets file has the account's password: its creation was interrupted
	retired bool           // the secrets file says that the factory created the account and retired it
}

// ours reports whether the account is this factory's.
func (h *holding) ours() bool { return h.token != "" || h.begun || h.retired }

// owner is an account with what this factory would call it.
type owner struct {
	login, email string // email is the address that hiring gives to a new account
	variable     string // of its token
	env          string // the variable's value in the environment; may be empty
}

// created reports whether hiring created the account, here or in another factory: nobody knows its password.
func (o owner) created(h *holding) bool {
	return strings.EqualFold(h.account.Email, o.email) && !h.account.External
}

// hold finds out what the factory holds of an account. It changes nothing.
func (f *Factory) hold(ctx context.Context, o owner) (h holding, err error) {
	if h.account, err = f.accountOf(ctx, o.login); err != nil || h.account == nil {
		return h, err
	}
	text, err := f.Secrets.Read()
	if err != nil {
		return h, err
	}
	inFile := Secrets(text)[o.variable]
	for _, token := range []string{inFile, o.env} {
		if token == "" || h.token != "" {
			continue
		}
		who, err := f.Forge.WhoAmI(ctx, token)
		switch {
		case errors.Is(err, forge.ErrUnavailable):
			return h, err
		case err == nil && strings.EqualFold(who, o.login):
			h.token, h.inFile = agents.Secret(token), token == inFile
		}
	}
	h.stale = inFile != "" && !h.inFile
	if h.token == "" && o.created(&h) {
		_, h.retired = marked(text, retiredMark)[o.login]
	}
	if password := marked(text, beginMark)[o.login]; password != "" && h.token == "" {
		err := f.Forge.SignIn(ctx, o.login, password)
		if errors.Is(err, forge.ErrUnavailable) {
			return h, err
		}
		h.begun = err == nil
	}
	return h, nil
}

// Foreign is the refusal to use an account that is not this factory's.
type Foreign struct {
	Login string
	Whose string // whose it may be
	lacks string // what the secrets file lacks
}

// Error names the account, whose it may be, and how to go on.
func (e *Foreign) Error() string {
	return fmt.Sprintf("cannot use the account %s: it exists, and %s, so it may be %s; use another name, or --adopt to "+
		"work as this account too, which adds a token and changes neither its password nor its other tokens", e.Login,
		e.lacks, e.Whose)
}

func (f *Factory) foreign(h *holding, o owner) error {
	e := Foreign{o.login, "a person's, " + h.account.Email, f.Secrets.Path + " has no token of it"}
	if o.created(h) {
		e.Whose = "another factory's"
	}
	if h.stale {
		e.lacks = f.Secrets.Path + " has a token of it that does not sign in as it"
	}
	return &e
}

// noPassword says how to get a token for an account if the administrator signs in with a token.
func (f *Factory) noPassword(o owner) string {
	return fmt.Sprintf("the forge makes tokens only in exchange for a password, and disinto does not replace that of an "+
		"existing account: use --admin-user and --admin-password instead of the administrator's token, or make the token "+
		"on the forge's machine with forgejo admin user generate-access-token --username %s --token-name %s --scopes %s "+
		"--raw, and write %s=... with it to %s", o.login, adoptedPrefix+"1", "write:repository,write:issue,read:user",
		o.variable, f.Secrets.Path)
}

// mayEnter returns why we cannot manage the tokens of an account that is ours; "" if we can. The password of an account
// with the address that hiring gives is known to nobody, and can therefore be replaced.
func (f *Factory) mayEnter(h *holding, o owner) (why string) {
	if f.Forge.WithPassword() || h.begun || o.created(h) {
		return ""
	}
	return f.noPassword(o)
}

// enter signs in as an account that is ours, if the administrator cannot manage its tokens otherwise.
func (f *Factory) enter(ctx context.Context, h *holding, o owner) error {
	if f.Forge.WithPassword() || h.begun {
		return nil
	}
	return f.Forge.SetPassword(ctx, o.login, newPassword())
}

// newPassword returns 26 random letters and digits, plus a character of each kind that a forge can require.
func newPassword() string { return rand.Text() + "-a1A" }

// The names of tokens that hiring creates begin with one of these. Tokens with other names belong to people.
const (
	// tokenPrefix is for accounts that this factory created. Upstream's tokens begin with it, too.
	tokenPrefix = "disinto-"
	// adoptedPrefix is for accounts that somebody else uses, too. Each such token is one factory's, so nobody revokes
	// it for another.
	adoptedPrefix = "adopted-by-disinto-"
)

// superseded returns the tokens of an account that the next one replaces, or that go when the agent retires: all that
// this factory created for its own account, or only the one that it has for an adopted one. old is the text of the
// token that the factory holds, keep the name of one that stays.
func superseded(all []forge.Token, old agents.Secret, keep string) (replaced []forge.Token) {
	prefix := prefixLike(all, old)
	for _, t := range all {
		held := old != "" && t.LastEight != "" && strings.HasSuffix(old.Reveal(), t.LastEight)
		if prefix != "" && strings.HasPrefix(t.Name, prefix) && t.Name != keep && (prefix == tokenPrefix || held) {
			replaced = append(replaced, t)
		}
	}
	return replaced
}

// prefixLike returns the prefix of the name of the token that the factory holds; "" if the token is a person's. Without
// a token the account's creation was interrupted.
func prefixLike(all []forge.Token, old agents.Secret) string {
	if old == "" {
		return tokenPrefix
	}
	for _, t := range all {
		if t.LastEight == "" || !strings.HasSuffix(old.Reveal(), t.LastEight) {
			continue
		}
		for _, prefix := range []string{tokenPrefix, adoptedPrefix} {
			if strings.HasPrefix(t.Name, prefix) {
				return prefix
			}
		}
	}
	return ""
}
