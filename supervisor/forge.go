package supervisor

import (
	"context"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Forge is one supervisor's client of a forge. forge/forgetest tests a client against this contract.
//
// All methods may be called from several goroutines at once, except that there is one Scan at a time. Errors are
// "cannot X: why" and wrap those of package forge: ErrNotFound for an item that does not exist or is hidden from the
// account, ErrForbidden for a missing right, ErrConflict if the item's state forbids the change, ErrTaken for an item
// that another supervisor, agent or person holds, and ErrUnavailable if the forge did not answer. When ctx is done, a
// method returns soon with an error that wraps ctx.Err(); a write may then have happened or not. No error contains a
// token.
type Forge interface {
	Reader
	Claims
	Writer
	Filer
	Mover
	Merger
	Accounts
	Listener
}

// Reader reads the forge.
type Reader interface {
	// Prepare checks that the account may work in every repository, and creates the missing labels of
	// forge.RequiredLabels. It reports all problems in one error. It is idempotent.
	Prepare(ctx context.Context) error
	// Scan returns everything known of the repositories, brought up to date. Slices are sorted by Ref, and the caller
	// only reads them. Every AsOf is when, by our clock, the request that read the state began, so AsOf is never newer
	// than the state. After an error the facts are those that could be read, and older facts for the rest; a Repo whose
	// AsOf did not move was not read completely. Facts.More asks for another Scan at once.
	Scan(ctx context.Context) (forge.Facts, error)
	// FetchItem reads one item, its comments since a time of our clock, and the pull requests for it afresh, also in a
	// repository that is not scanned. The zero time means the creation of the item. For a pull request FetchItem also
	// reads who pushed and when the base changed, which a scan may leave out; later scans then have both.
	FetchItem(ctx context.Context, ref forge.Ref, since time.Time) (forge.ItemFacts, error)
}

// Claims claims items for agents and releases them.
type Claims interface {
	// Claim claims an item: the label in-progress, then the assignee. Of all supervisors that try, one gets nil and the
	// others ErrTaken. Claim also returns ErrTaken for a closed item, an issue with a label of forge.SkipLabel, an issue
	// assigned to another account, and an item that has changed since this client's last scan. It is idempotent
	// with the same runID, and then continues where it failed. After ErrTaken nothing is left of the claim; after another
	// error Release removes the leftovers.
	Claim(ctx context.Context, ref forge.Ref, login, runID string) error
	// ClaimCommit returns the commit of our claim's ref on an item, without a request; "" if we hold none, or the forge's
	// claims are not refs.
	ClaimCommit(ref forge.Ref) (commit string)
	// Release removes the assignee login, then the label in-progress. All other labels and assignees stay. It is
	// idempotent: an item that is not claimed or does not exist any more is a success. It returns ErrTaken if another
	// supervisor holds the item, which then stays unchanged.
	Release(ctx context.Context, ref forge.Ref, login string) error
	// Free ends any supervisor's claim, for an operator who knows that the supervisor is gone, and returns the holder; ""
	// if the item was not held. Label and assignee stay. It is idempotent.
	Free(ctx context.Context, ref forge.Ref) (was string, err error)
}

// Writer changes issues and pull requests. All its methods are idempotent.
type Writer interface {
	// Label adds and removes labels by name. It creates a label that the repository lacks. Removing a label that the item
	// lacks is a success. It never removes the label backlog.
	Label(ctx context.Context, ref forge.Ref, add, remove []string) error
	// Comment writes one comment for each key (letters, digits, ._:/-), whichever client of the account wrote it.
	// Comments of other accounts do not count, because they could suppress ours.
	Comment(ctx context.Context, ref forge.Ref, key, body string) error
	// SetComment writes a comment for a key, or changes the text of the account's existing one. The change does not touch
	// the item's update time.
	SetComment(ctx context.Context, ref forge.Ref, key, body string) error
	// Close closes an issue. It returns ErrConflict if the forge keeps the issue open because of open dependencies.
	Close(ctx context.Context, ref forge.Ref) error
}

// Filer creates issues and dependencies.
type Filer interface {
	// File creates an issue with all its labels from the start. A repeated call creates another one, unless the draft has
	// a key.
	File(ctx context.Context, d forge.Draft) (forge.Ref, error)
	// Depend makes ref depend on the issue on, which may be in another repository. It is idempotent.
	Depend(ctx context.Context, ref, on forge.Ref) error
	// Blockers reads the dependencies of an issue afresh, each with its state, and the references in its text, with the
	// state that the last scan found. The result is sorted by Ref.
	Blockers(ctx context.Context, ref forge.Ref) ([]forge.Blocker, error)
}

// Mover moves waiting issues between agents.
type Mover interface {
	// Reassign assigns an open issue without in-progress to the account to. The issue must be assigned to from alone, or
	// with from "" to no account. labels are written first, in one step. It returns ErrTaken if the issue does not wait
	// there any more. It is idempotent with the same runID.
	Reassign(ctx context.Context, ref forge.Ref, from, to string, labels []string, runID string) error
}

// Merger merges pull requests.
type Merger interface {
	// Merge merges a pull request whose head is headSHA into base. It returns ErrConflict for another head or base and
	// for a closed pull request, and a *forge.Refusal, which is an ErrConflict too, where the forge refuses. It is
	// idempotent: a merged pull request is a success.
	Merge(ctx context.Context, ref forge.Ref, headSHA, base string) error
	// Update merges the base into the branch of a pull request whose head is headSHA. It returns ErrConflict for another
	// head, and if the two conflict.
	Update(ctx context.Context, ref forge.Ref, headSHA string) (forge.Updated, error)
}

// Accounts checks the rights of tokens.
type Accounts interface {
	// WhoAmI returns the login of a token's account; the empty token is the client's own. It returns ErrForbidden for an
	// unknown token.
	WhoAmI(ctx context.Context, token string) (login string, err error)
	// MayWork returns nil if a token's account may push to a repository and write to its issues. A missing right is an
	// ErrForbidden of one line. If no account may, the error is an ErrOff. MayWork changes nothing.
	MayWork(ctx context.Context, token, repo string) error
	// Requests returns the number of requests that this client has made.
	Requests() int64
}

// Listener takes people's commands in comments, which scans list in Facts.Commands.
type Listener interface {
	// ClaimCommand takes a command for this supervisor. Of all supervisors that try, one gets nil and the others ErrTaken;
	// that one may call it again, even after a restart. ClaimCommand reads the comment afresh: ErrNotFound if it is gone
	// or was edited, ErrForbidden if its author may not write any more. After another error the command may be taken or
	// not.
	ClaimCommand(ctx context.Context, said forge.CommandComment) error
	// Confirmed reports whether a command's author gave its comment a thumbs-up since the supervisor's comment with the
	// command's ConfirmKey.
	Confirmed(ctx context.Context, said forge.CommandComment) (bool, error)
	// MayWrite reports whether an account may write to a scanned repository, according to an answer of the forge that is
	// at most a minute old.
	MayWrite(ctx context.Context, repo, login string) (bool, error)
}

// line has the client of the configuration in force.
type line struct {
	mu     sync.Mutex // guards the fields below
	client Forge      // nil without a valid configuration
}

func (l *line) get() Forge {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client
}

// set replaces the client, and reports whether it changed. Nil keeps the present one.
func (l *line) set(client Forge) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed = client != nil && client != l.client
	if changed {
		l.client = client
	}
	return changed
}

// requests returns the client's count of requests; 0 without a client.
func (l *line) requests() int64 {
	if client := l.get(); client != nil {
		return client.Requests()
	}
	return 0
}
