package forgejo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// AdminOptions names the forge to administer, and the credentials: a token, or a name and password.
type AdminOptions struct {
	URL            string
	Token          string // scopes write:admin, write:repository, write:issue and read:user, or all
	User, Password string
}

// Admin does what only an administrator of the forge can do: it manages accounts, their tokens and their access to
// repositories. The methods that create accounts or manage tokens are not safe for concurrent use; all others are.
type Admin struct {
	*connection
	// passwords are the passwords that this Admin gave to accounts, by login. They are neither logged nor stored.
	passwords map[string]string
	unlocked  map[string]bool // accounts that can sign in
}

// NewAdmin returns an Admin that has made no request yet.
func NewAdmin(o AdminOptions) (*Admin, error) {
	if err := checkURL(o.URL); err != nil {
		return nil, err
	}
	c := connectWhole(strings.TrimRight(o.URL, "/"), o.Token)
	if o.Token == "" {
		c.user, c.password = o.User, o.Password
	}
	return &Admin{connection: c, passwords: map[string]string{}, unlocked: map[string]bool{}}, nil
}

// noLogin is a login that no account can have. The forge checks our rights before it refuses a request that names
// noLogin, so that the request changes nothing.
const noLogin = "no.such.user."

// Check reports whether the forge answers, whether we are its administrator with all needed rights, and whether the
// repositories exist. It returns all problems, each on one line that says what to do. It changes nothing.
func (a *Admin) Check(ctx context.Context, repos []string) error {
	if err := a.Answers(ctx); err != nil {
		return err
	}
	me, err := a.me(ctx)
	if err != nil {
		return err
	}
	if !me.Admin {
		return fmt.Errorf("cannot make accounts: %s is not an administrator of the forge and lacks admin scope; "+
			"use the token or password of one", me.Login)
	}
	var problems []error
	if err := a.probeAccounts(ctx); statusOf(err) == http.StatusForbidden {
		problems = append(problems,
			errors.New("cannot make accounts: the administrator's token lacks admin scope, write:admin"))
	}
	for _, repo := range repos {
		problems = append(problems, a.checkRepo(ctx, repo, me.Login))
	}
	return errors.Join(problems...)
}

// Answers reports whether a forge answers at the address, and is new enough. It sends no token, so that a wrong token
// is not mistaken for a wrong address.
func (a *Admin) Answers(ctx context.Context) error {
	g, x := a.as("").sdk(ctx)
	version, _, err := g.ServerVersion()
	err = x.end(err)
	switch {
	case errors.Is(err, forge.ErrForbidden): // the forge requires a token for every request
		g, x := a.sdk(ctx)
		version, _, err = g.ServerVersion()
		err = x.end(err)
		if errors.Is(err, forge.ErrForbidden) {
			return nil // me explains this refusal
		}
	case errors.Is(err, forge.ErrNotFound):
		return fmt.Errorf("cannot find a forge at %s: %w; check [forge] url", a.url, err)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot reach the forge at %s: Connection refused: is it running? check [forge] url", a.url)
	}
	if err != nil {
		return fmt.Errorf("cannot reach the forge at %s: %w; check [forge] url", a.url, err)
	}
	_, err = softwareOf(a.url, version)
	return err
}

func (a *Admin) checkRepo(ctx context.Context, repo, me string) error {
	err := a.allow(ctx, repo, noLogin)
	switch {
	case statusOf(err) == http.StatusForbidden:
		return fmt.Errorf("cannot give access to %s: the administrator's token lacks the scope write:repository", repo)
	case errors.Is(err, forge.ErrNotFound):
		return fmt.Errorf("cannot give access to %s: %s sees no such repository; check [forge] repos", repo, me)
	case err != nil && statusOf(err) != http.StatusUnprocessableEntity:
		return fmt.Errorf("cannot give access to %s: %w", repo, err)
	}
	return nil
}

// me returns the account of our token or password.
func (a *Admin) me(ctx context.Context) (forge.Account, error) {
	g, x := a.sdk(ctx)
	u, _, err := g.GetMyUserInfo()
	err = x.end(err)
	switch {
	case statusOf(err) == http.StatusUnauthorized && !a.WithPassword():
		return forge.Account{}, errors.New("cannot sign in as administrator: the forge does not know this token")
	case statusOf(err) == http.StatusUnauthorized:
		return forge.Account{}, fmt.Errorf(
			"cannot sign in as %s: the password is wrong, or the account has a second factor; use a token then", a.user)
	case statusOf(err) == http.StatusForbidden:
		return forge.Account{}, fmt.Errorf(
			"cannot tell whose the administrator's token is: %w; make one with all scopes", err)
	case err != nil:
		return forge.Account{}, fmt.Errorf("cannot sign in as administrator: %w", err)
	}
	return accountOf(u), nil
}

func accountOf(u *gitea.User) forge.Account {
	return forge.Account{Login: u.UserName, Admin: u.IsAdmin, External: u.SourceID != 0}
}

// Account looks up an account by its login; forge.ErrNotFound when it does not exist.
func (a *Admin) Account(ctx context.Context, login string) (forge.Account, error) {
	u, err := a.lookUp(ctx, login)
	if err != nil {
		return forge.Account{}, err
	}
	return accountOf(u), nil
}

func (a *Admin) lookUp(ctx context.Context, login string) (*gitea.User, error) {
	g, x := a.sdk(ctx)
	u, _, err := g.GetUserInfo(login)
	if err = x.end(err); err != nil {
		return nil, fmt.Errorf("cannot look up the account %s: %w", login, err)
	}
	return u, nil
}

// CreateAccount creates an account that works with tokens only: its password is shown to no one.
func (a *Admin) CreateAccount(ctx context.Context, login, email string) error {
	password := newPassword()
	g, x := a.sdk(ctx)
	_, _, err := g.AdminCreateUser(gitea.CreateUserOption{
		Username: login, FullName: login, Email: email, Password: password, MustChangePassword: new(false),
	})
	if err = x.wrote(err); err != nil {
		return fmt.Errorf("cannot create the account %s: %w", login, err)
	}
	a.passwords[login], a.unlocked[login] = password, true
	return nil
}

// newPassword returns 26 random letters and digits, plus a character of each kind that a forge can require.
func newPassword() string { return rand.Text() + "-a1A" }

// WithPassword reports whether we sign in with a password and can therefore manage the tokens of all accounts. If we
// sign in with a token, the forge lets only the account itself manage its tokens, and the Admin gives the account a
// new password to sign in with.
func (a *Admin) WithPassword() bool { return a.token == "" }

// owner returns a connection signed in as the account that can manage the tokens of login: ours, or login itself. It
// first makes sure that login can sign in.
func (a *Admin) owner(ctx context.Context, login string) (*connection, error) {
	if !a.unlocked[login] {
		if err := a.unlock(ctx, login); err != nil {
			return nil, fmt.Errorf("cannot let %s sign in: %w", login, err)
		}
		a.unlocked[login] = true
	}
	if a.WithPassword() {
		return a.connection, nil
	}
	as := a.as("")
	as.user, as.password = login, a.passwords[login]
	return as, nil
}

// unlock removes what keeps an account from signing in, such as a password that must be changed first.
func (a *Admin) unlock(ctx context.Context, login string) error {
	u, err := a.lookUp(ctx, login)
	if err != nil {
		return err
	}
	change := gitea.EditUserOption{
		SourceID: u.SourceID, LoginName: cmp.Or(u.LoginName, u.UserName), // old forges require both
		Active: new(true), ProhibitLogin: new(false), MustChangePassword: new(false),
	}
	password := newPassword()
	if !a.WithPassword() {
		change.Password = password
	}
	g, x := a.sdk(ctx)
	_, err = g.AdminEditUser(login, change)
	if err = x.wrote(err); err != nil {
		return err
	}
	a.passwords[login] = password
	return nil
}
