package hire

import (
	"context"

	"codeberg.org/johba/disinto/forge"
)

// Forge is what hiring and retiring need of a forge: an administrator's client, such as forgejo.Admin.
type Forge interface {
	Accounts
	Tokens
	Prover
	Access
	Repositories
	Files
	Queue
}

// Accounts are looked up and made.
type Accounts interface {
	// Check returns everything that keeps us from working, and changes nothing.
	Check(ctx context.Context, repos []string) error
	Account(ctx context.Context, login string) (forge.Account, error)
	CreateAccount(ctx context.Context, login, email string) error
}

// Tokens are made and taken away.
type Tokens interface {
	Tokens(ctx context.Context, login string) ([]forge.Token, error)
	CreateToken(ctx context.Context, login, name string) (text string, err error)
	RevokeToken(ctx context.Context, login string, t forge.Token) error
}

// Prover says whose a token is, and whether making tokens costs an account its password.
type Prover interface {
	WhoAmI(ctx context.Context, token string) (login string, err error)
	WithPassword() bool
}

// Access is who may push where.
type Access interface {
	CanWrite(ctx context.Context, repo, login string) (bool, error)
	Allow(ctx context.Context, repo, login string) error
	Disallow(ctx context.Context, repo, login string) error
}

// Repositories are looked up and made.
type Repositories interface {
	Repository(ctx context.Context, name string) (forge.Repository, error)
	CreateRepository(ctx context.Context, name, description string) error
	Collaborates(ctx context.Context, repo, login string) (bool, error)
}

// Files of a repository are read, and written in one commit.
type Files interface {
	File(ctx context.Context, repo, path string) (forge.File, error)
	Commit(ctx context.Context, repo, branch, message, login, email string, files []forge.File) error
}

// Queue is the work that an account is assigned to.
type Queue interface {
	Assigned(ctx context.Context, repo, login string) ([]forge.Ref, error)
	Unassign(ctx context.Context, ref forge.Ref, login string, isAgent func(login string) bool) error
}
