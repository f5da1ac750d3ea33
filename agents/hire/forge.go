package hire

import (
	"context"

	"codeberg.org/johba/disinto/forge"
)

// Forge is an administrator's client, such as forgejo.Admin. Its methods are called one at a time, with one exception:
// a method of Access, one of Repositories or Files, and one of Tokens or Prover can be called at the same time.
// Account, Repository and File return forge.ErrNotFound if the object does not exist. RevokeToken, Allow, Disallow and
// Unassign can be repeated; a repeated creation fails.
type Forge interface {
	Accounts
	Tokens
	Prover
	Access
	Repositories
	Files
	Queue
}

// Accounts finds and creates accounts.
type Accounts interface {
	// Check returns an error with everything that would keep the other methods from working. It changes nothing.
	Check(ctx context.Context, repos []string) error
	// Account returns an account.
	Account(ctx context.Context, login string) (forge.Account, error)
	// CreateAccount creates an account. Tokens can then sign in as it.
	CreateAccount(ctx context.Context, login, email, password string) error
	// SignIn tries a password of an account, with which Tokens can then sign in. forge.ErrForbidden if it is wrong.
	SignIn(ctx context.Context, login, password string) error
	// SetPassword replaces the password of an account, with which Tokens can then sign in.
	SetPassword(ctx context.Context, login, password string) error
}

// Tokens creates and revokes access tokens of accounts.
type Tokens interface {
	// Tokens lists the tokens of an account, without their texts.
	Tokens(ctx context.Context, login string) ([]forge.Token, error)
	// CreateToken creates a token and returns its text, which the forge never shows again. See Prover.WithPassword.
	CreateToken(ctx context.Context, login, name string) (text string, err error)
	// RevokeToken revokes a token. A token that is gone is not an error.
	RevokeToken(ctx context.Context, login string, t forge.Token) error
}

// Prover tests tokens.
type Prover interface {
	// WhoAmI signs in with a token and returns the account it belongs to.
	WhoAmI(ctx context.Context, token string) (login string, err error)
	// WithPassword reports whether the administrator signs in with a password. Without one Tokens needs the account's
	// own: see Accounts.
	WithPassword() bool
}

// Access grants and revokes write access to repositories.
type Access interface {
	// CanWrite reports whether an account can push, for whatever reason.
	CanWrite(ctx context.Context, repo, login string) (bool, error)
	// Allow makes an account a collaborator with write access.
	Allow(ctx context.Context, repo, login string) error
	// Disallow removes an account from the collaborators.
	Disallow(ctx context.Context, repo, login string) error
}

// Repositories finds and creates repositories.
type Repositories interface {
	// Repository returns a repository, named owner/name.
	Repository(ctx context.Context, name string) (forge.Repository, error)
	// CreateRepository creates a private, empty repository.
	CreateRepository(ctx context.Context, name, description string) error
	// Collaborates reports whether an account is a collaborator of a repository.
	Collaborates(ctx context.Context, repo, login string) (bool, error)
}

// Files reads and writes files of a repository.
type Files interface {
	// File returns a file on the default branch.
	File(ctx context.Context, repo, path string) (forge.File, error)
	// Commit writes files in one commit by the account. A file with an empty SHA is new.
	Commit(ctx context.Context, repo, branch, message, login, email string, files []forge.File) error
}

// Queue finds and releases the work that is assigned to an account.
type Queue interface {
	// Assigned lists the open issues and pull requests of a repository that are assigned to an account.
	Assigned(ctx context.Context, repo, login string) ([]forge.Ref, error)
	// Unassign ends the assignment, and removes the label in-progress unless another agent is assigned too.
	Unassign(ctx context.Context, ref forge.Ref, login string, isAgent func(login string) bool) error
}
