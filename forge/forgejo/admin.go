package forgejo

import (
	"cmp"
	"context"
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
	// passwords are those of accounts that this Admin can sign in as, by login. They are neither logged nor stored.
	passwords map[string]string
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
	return &Admin{connection: c, passwords: map[string]string{}}, nil
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
	return forge.Account{
		Login: u.UserName, Admin: u.IsAdmin, External: u.SourceID != 0, Disabled: !u.IsActive || u.ProhibitLogin,
		Email: u.Email,
	}
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

// CreateAccount creates an account. The Admin can then sign in as it.
func (a *Admin) CreateAccount(ctx context.Context, login, email, password string) error {
	g, x := a.sdk(ctx)
	_, _, err := g.AdminCreateUser(gitea.CreateUserOption{
		Username: login, FullName: login, Email: email, Password: password, MustChangePassword: new(false),
	})
	if err = x.wrote(err); err != nil {
		return fmt.Errorf("cannot create the account %s: %w", login, err)
	}
	a.passwords[login] = password
	return nil
}

// SignIn lets the Admin sign in as an account whose password is known. forge.ErrForbidden if it is not its password.
func (a *Admin) SignIn(ctx context.Context, login, password string) error {
	as := a.as("")
	as.user, as.password = login, password
	g, x := as.sdk(ctx)
	u, _, err := g.GetMyUserInfo()
	if err = x.end(err); err != nil {
		return fmt.Errorf("cannot sign in as %s: %w", login, err)
	}
	if !strings.EqualFold(u.UserName, login) {
		return fmt.Errorf("cannot sign in as %s: the password is %s's", login, u.UserName)
	}
	a.passwords[login] = password
	return nil
}

// SetPassword replaces the password of an account. The Admin can then sign in as it.
func (a *Admin) SetPassword(ctx context.Context, login, password string) error {
	if err := a.unlock(ctx, login, password); err != nil {
		return fmt.Errorf("cannot set a password for %s: %w", login, err)
	}
	a.passwords[login] = password
	return nil
}

// WithPassword reports whether we sign in with a password and can therefore manage the tokens of all accounts. If we
// sign in with a token, the forge lets only the account itself manage its tokens, with its password.
func (a *Admin) WithPassword() bool { return a.token == "" }

// owner returns a connection signed in as an account that can manage the tokens of login: ours, or login itself.
func (a *Admin) owner(login string) (*connection, error) {
	password, known := a.passwords[login]
	switch {
	case a.WithPassword():
		return a.connection, nil
	case !known:
		return nil, fmt.Errorf("cannot sign in as %s: its password is not known", login)
	}
	as := a.as("")
	as.user, as.password = login, password
	return as, nil
}

// unlock ends an account's duty to change its password first, which would keep its tokens from working. It also sets
// the password, unless that is empty.
func (a *Admin) unlock(ctx context.Context, login, password string) error {
	u, err := a.lookUp(ctx, login)
	if err != nil {
		return err
	}
	g, x := a.sdk(ctx)
	_, err = g.AdminEditUser(login, gitea.EditUserOption{
		SourceID: u.SourceID, LoginName: cmp.Or(u.LoginName, u.UserName), // old forges require both
		MustChangePassword: new(false), Password: password,
	})
	return x.wrote(err)
}
