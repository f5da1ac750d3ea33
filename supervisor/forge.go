package supervisor

import (
	"context"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Forge is one supervisor's client of a forge. forge/forgetest holds a client to what is said here.
//
// All methods may be called from several goroutines at once, except that there is one Scan at a time. Errors are
// "cannot X: why" and wrap those of package forge: ErrNotFound for what does not exist or is hidden from the account,
// ErrForbidden for what the account may not do, ErrConflict for what the state of the item does not allow, ErrTaken
// for an item that another supervisor, agent or person holds, and ErrUnavailable when the forge did not answer. When
// ctx is done a method returns soon, with an error that wraps ctx.Err(); a write may then have happened or not. No
// error contains a token.
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
	// Prepare checks that the account may work in every repository and creates the labels of forge.RequiredLabels that
	// are missing. It reports all problems in one error. It may be repeated.
	Prepare(ctx context.Context) error
	// Scan returns everything known of the repositories, brought up to date. Slices are sorted by Ref, and the caller only
	// reads them. Every AsOf is the time of our clock at which a request began that showed the state, so that it is never
	// newer than the state. After an error the facts are those that could be read, with the older ones of the rest; a
	// Repo whose AsOf did not move was not read completely. Facts.More asks for another Scan at once.
	Scan(ctx context.Context) (forge.Facts, error)
	// Look reads one item, its comments since a time of our clock, and the pull requests for it afresh, also in a
	// repository that is not scanned. The zero time counts from the creation of the item. Of a pull request it also reads
	// who pushed and when the base changed, which a scan may leave out, and later scans show that as well.
	Look(ctx context.Context, ref forge.Ref, since time.Time) (forge.Look, error)
}

// Claims takes items for agents and gives them back.
type Claims interface {
	// Claim takes an item: the label in-progress, then the assignee. Of all supervisors that try, one gets nil and the
	// others ErrTaken. ErrTaken is also the answer for a closed item, an issue with a label of forge.SkipLabel, an issue
	// assigned to another account, and one that has changed since this client's last scan. It may be repeated with the
	// same runID and goes on where it failed. After ErrTaken nothing is left of the claim; after another error Release
	// clears up.
	Claim(ctx context.Context, ref forge.Ref, login, runID string) error
	// ClaimCommit returns the commit of our claim's ref on an item, without a request; "" where we hold none, or claims
	// are no refs.
	ClaimCommit(ref forge.Ref) (commit string)
	// Release gives an item back: the assignee login, then in-progress. All other labels and assignees stay. It may be
	// repeated; an item that is not claimed or does not exist any more is a success. ErrTaken when another supervisor
	// holds the item, which then stays as it is.
	Release(ctx context.Context, ref forge.Ref, login string) error
	// Free ends the claim of any supervisor, for an operator who knows that it is gone, and names the holder; "" when
	// the item was not held. Label and assignee stay. It may be repeated.
	Free(ctx context.Context, ref forge.Ref) (was string, err error)
}

// Writer changes issues and pull requests. All its methods may be repeated.
type Writer interface {
	// Label adds and removes labels by name. A label that the repository lacks is created; removing one that the item
	// lacks is a success. The label backlog is never removed.
	Label(ctx context.Context, ref forge.Ref, add, remove []string) error
	// Comment writes a comment once for each key (letters, digits, ._:/-), whichever client of the account wrote it.
	// Comments of other accounts do not count: they could suppress ours.
	Comment(ctx context.Context, ref forge.Ref, key, body string) error
	// Keep writes a comment for a key, or changes the one that the account has to this text. The change moves no time of
	// the item.
	Keep(ctx context.Context, ref forge.Ref, key, body string) error
	// Close closes an issue. ErrConflict when the forge keeps it open because of open dependencies.
	Close(ctx context.Context, ref forge.Ref) error
}

// Filer creates issues and dependencies.
type Filer interface {
	// File creates an issue that has all its labels from the first moment on. Repeated, it creates another one.
	File(ctx context.Context, d forge.Draft) (forge.Ref, error)
	// Depend makes ref wait for on, which may be in another repository. It may be repeated.
	Depend(ctx context.Context, ref, on forge.Ref) error
	// Blockers reads afresh the dependencies of an issue, each with its state, and the references in its text, with the
	// state that the last scan found. Sorted by Ref.
	Blockers(ctx context.Context, ref forge.Ref) ([]forge.Blocker, error)
}

// Mover moves issues that wait for an agent.
type Mover interface {
	// Reassign gives an open issue without in-progress that is assigned to from alone, or with from "" to no account, to
	// the account to. labels are written first, in one step. ErrTaken when the issue does not wait there any more. It may
	// be repeated with the same runID.
	Reassign(ctx context.Context, ref forge.Ref, from, to string, labels []string, runID string) error
}

// Merger merges.
type Merger interface {
	// Merge merges a pull request whose head is headSHA into base. ErrConflict for another head or base, a draft, a
	// conflict, missing checks or approvals, a closed pull request, and one whose mergeability the forge has not computed
	// yet. It may be repeated: merged already is a success.
	Merge(ctx context.Context, ref forge.Ref, headSHA, base string) error
}

// Accounts tells what tokens are good for.
type Accounts interface {
	// WhoAmI returns the login of a token's account; the empty token is the client's own. ErrForbidden for a token that
	// the forge does not know.
	WhoAmI(ctx context.Context, token string) (login string, err error)
	// MayWork returns nil when a token's account may push to a repository and write to its issues. What it lacks is an
	// ErrForbidden of one line. Where no account may, it is an ErrOff. It changes nothing.
	MayWork(ctx context.Context, token, repo string) error
	// Requests is the number of requests that this client has made.
	Requests() int64
}

// Listener hears what people command in comments, which scans show in Facts.Said.
type Listener interface {
	// Take takes a command for this supervisor. Of all supervisors that try, one gets nil and the others ErrTaken; that
	// one may repeat it, also after a restart. The comment is read afresh: ErrNotFound when it is gone or was edited,
	// ErrForbidden when its author may not write any more. After another error it may have been taken or not.
	Take(ctx context.Context, said forge.Said) error
	// MayWrite reports whether an account may write to a scanned repository, as the forge says it now or said it within
	// the last minute.
	MayWrite(ctx context.Context, repo, login string) (bool, error)
}

// line is the forge as the configuration in force names it.
type line struct {
	mu     sync.Mutex // guards what follows
	client Forge      // nil without a valid configuration
}

func (l *line) get() Forge {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client
}

// set replaces the client, and reports whether it was another one. Nil keeps it.
func (l *line) set(client Forge) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed = client != nil && client != l.client
	if changed {
		l.client = client
	}
	return changed
}

// requests counts the requests of the client; 0 without one.
func (l *line) requests() int64 {
	if client := l.get(); client != nil {
		return client.Requests()
	}
	return 0
}
