package forgejo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// An engine that runs sessions elsewhere cannot promise to start one once: it takes a machine that it does not hear of
// for dead, starts the session on another, and the first one still works. So the session itself moves a ref before it
// begins: that of its claim, from the commit that the claim wrote to one that also names the place. A session without a
// claim creates a ref of its own. The forge grants either to one of them.

const beginPrefix = "refs/disinto/begun/"

// Beginning is the beginning of a session that an engine has started.
type Beginning struct {
	Repo   string
	Number int64  // of the item; not used without a claim
	Claim  string // the commit that the claim wrote; empty for a session without a claim
	Run    string
	Place  string // where it begins, unlike any other
}

// Begin lets a session begin, as the account of the client's token. Of all that try it with the same claim or run, in
// whatever places, one gets nil and the others forge.ErrTaken. It is forge.ErrTaken too when the claim is gone. Begin
// may be repeated by the one that got nil, also after another error.
func (c *Client) Begin(ctx context.Context, b Beginning) (err error) {
	defer wrap(&err, "begin %s", b.Run)
	m, message := move{beginPrefix + b.Run, noObject, ""}, fmt.Sprintf("begin\n\nrun: %s\n", oneLine(b.Run))
	if b.Claim != "" {
		m.ref, m.before = claimRef(b.Number), b.Claim
		if message, err = c.claimMessage(ctx, b); err != nil {
			return err
		}
	}
	// Without a time of its own the commit is the same whenever this place tries, and unlike that of any other.
	begun := newCommit(time.Unix(0, 0), message+beginKey+": "+oneLine(b.Place)+"\n")
	m.after = begun.id()
	err = c.push(ctx, b.Repo, m, begun, emptyTree)
	refused, ok := errors.AsType[*refusedMove](err)
	if !ok || refused.declined() {
		return err
	}
	at, err := c.refAt(ctx, b.Repo, m.ref)
	if err == nil && at != m.after {
		err = fmt.Errorf("%w: it has begun elsewhere, or its claim has ended", forge.ErrTaken)
	}
	return err
}

// beginKey is the line of a claim's commit that names the place where its session has begun.
const beginKey = "begun"

// claimMessage is the message of a claim that is this run's and that no session has begun with.
func (c *Client) claimMessage(ctx context.Context, b Beginning) (string, error) {
	in, err := c.readCommit(ctx, b.Repo, b.Claim)
	if err != nil {
		return "", err
	}
	if in == nil || in.RepoCommit == nil {
		return "", fmt.Errorf("%w: its claim is gone", forge.ErrTaken)
	}
	if h := holderOf(in); h.run != b.Run || h.begun != "" {
		return "", fmt.Errorf("%w: the claim is that of %s, %s", forge.ErrTaken, h.run, h.begun)
	}
	return strings.TrimRight(in.RepoCommit.Message, "\n") + "\n", nil
}

// refAt is the commit of a ref; empty when there is no such ref.
func (c *Client) refAt(ctx context.Context, repo, name string) (string, error) {
	refs, err := c.listRefs(ctx, repo, name)
	for _, one := range refs {
		if one != nil && one.Ref == name && one.Object != nil {
			return one.Object.SHA, nil
		}
	}
	return "", err
}

// Forget removes what Begin left of a session without a claim. After that it may begin again: call it when no place can
// try any more. It may be repeated, and succeeds for a session that has never begun.
func (c *Client) Forget(ctx context.Context, repo, run string) (err error) {
	defer wrap(&err, "forget that %s began", run)
	at, err := c.refAt(ctx, repo, beginPrefix+run)
	if err != nil || at == "" {
		return err
	}
	return c.push(ctx, repo, move{beginPrefix + run, at, noObject})
}
