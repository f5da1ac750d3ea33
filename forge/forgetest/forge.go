package forgetest

import (
	"context"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Forge has the methods of supervisor.Forge, which documents what each of them promises. This package must not import
// the supervisor, and package forge is pure and has no context.Context, so the methods are repeated here; a test checks
// that the two interfaces are identical.
type Forge interface {
	Prepare(ctx context.Context) error
	Scan(ctx context.Context) (forge.Facts, error)
	FetchItem(ctx context.Context, ref forge.Ref, since time.Time) (forge.ItemFacts, error)
	Claim(ctx context.Context, ref forge.Ref, login, runID string) error
	ClaimCommit(ref forge.Ref) (commit string)
	Release(ctx context.Context, ref forge.Ref, login string) error
	Free(ctx context.Context, ref forge.Ref) (was string, err error)
	Label(ctx context.Context, ref forge.Ref, add, remove []string) error
	Comment(ctx context.Context, ref forge.Ref, key, body string) error
	SetComment(ctx context.Context, ref forge.Ref, key, body string) error
	Close(ctx context.Context, ref forge.Ref) error
	File(ctx context.Context, d forge.Draft) (forge.Ref, error)
	Depend(ctx context.Context, ref, on forge.Ref) error
	Blockers(ctx context.Context, ref forge.Ref) ([]forge.Blocker, error)
	Reassign(ctx context.Context, ref forge.Ref, from, to string, labels []string, runID string) error
	Merge(ctx context.Context, ref forge.Ref, headSHA, base string) error
	Update(ctx context.Context, ref forge.Ref, headSHA string) (forge.Updated, error)
	WhoAmI(ctx context.Context, token string) (login string, err error)
	MayWork(ctx context.Context, token, repo string) error
	Requests() int64
	ClaimCommand(ctx context.Context, said forge.CommandComment) error
	Confirmed(ctx context.Context, said forge.CommandComment) (bool, error)
	MayWrite(ctx context.Context, repo, login string) (bool, error)
}
