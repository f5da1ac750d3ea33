package forgejo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// An engine that runs sessions on other machines cannot promise to start a session only once: when a machine does not
// answer, the engine considers it dead and starts the session on another one, while the first still works. So the
// session itself moves a ref before it begins. With a claim it moves the claim's ref, from the commit that the claim
// wrote to a commit that also names the place. Without a claim it creates a ref of its own. The forge lets only one
// place do either.

const beginPrefix = "refs/disinto/begun/"

// Beginning describes a session that an engine has started, and that is about to begin.
type Beginning struct {
	Repo   string
	Number int64  // number of the item; not used without a claim
	Claim  string // the commit that the claim wrote; empty for a session without a claim
	Run    string
	Place  string // identifies where the session begins, unlike any other place
}

// Begin asks the forge for permission to start a session, as the account of the client's token. Of all places that
// call it with the same claim or run, one gets nil and all others get forge.ErrTaken. Begin also returns
// forge.ErrTaken when the claim is gone. The place that got nil can repeat Begin, even after another error.
func (c *Client) Begin(ctx context.Context, b Beginning) (err error) {
	defer wrap(&err, "begin %s", b.Run)
	m, message := move{beginPrefix + b.Run, noObject, ""}, fmt.Sprintf("begin\n\nrun: %s\n", oneLine(b.Run))
	if b.Claim != "" {
		m.ref, m.before = claimRef(b.Number), b.Claim
		if message, err = c.claimMessage(ctx, b); err != nil {
			return err
		}
	}
	// The fixed time gives every try of this place the same commit, and the place makes it unlike any other place's.
	begun := newCommit(time.Unix(0, 0), message+beginKey+": "+oneLine(b.Place)+"\n")
	m.after = begun.id()
	err = c.push(ctx, b.Repo, m, begun, emptyTree)
	refused, ok := errors.AsType[*refusedMove](err)
	if !ok || refused.declined() {
		return err
	}
	at, err := c.refAt(ctx, b.Repo, m.ref)
	if err == nil && at != m.after {
		err = fmt.Errorf("%w: the session has begun elsewhere, or its claim has ended", forge.ErrTaken)
	}
	return err
}

// beginKey is the key of the line in a claim's commit that names the place where its session has begun.
const beginKey = "begun"

// claimMessage returns the message of the claim's commit. The claim must belong to this run and have no begun session.
func (c *Client) claimMessage(ctx context.Context, b Beginning) (string, error) {
	in, err := c.readCommit(ctx, b.Repo, b.Claim)
	if err != nil {
		return "", err
	}
	if in == nil || in.RepoCommit == nil {
		return "", fmt.Errorf("%w: its claim is gone", forge.ErrTaken)
	}
	if h := holderOf(in); h.run != b.Run || h.begun != "" {
		return "", fmt.Errorf("%w: the claim belongs to the run %s, begun at %q", forge.ErrTaken, h.run, h.begun)
	}
	return strings.TrimRight(in.RepoCommit.Message, "\n") + "\n", nil
}

// refAt returns the commit of a ref; empty when the ref does not exist.
func (c *Client) refAt(ctx context.Context, repo, name string) (string, error) {
	refs, err := c.listRefs(ctx, repo, name)
	for _, one := range refs {
		if one != nil && one.Ref == name && one.Object != nil {
			return one.Object.SHA, nil
		}
	}
	return "", err
}

// Forget removes the ref that Begin created for a session without a claim, so that the session can begin again: call it
// only when no place can still try. It can be repeated, and succeeds for a session that has never begun.
func (c *Client) Forget(ctx context.Context, repo, run string) (err error) {
	defer wrap(&err, "forget that %s began", run)
	at, err := c.refAt(ctx, repo, beginPrefix+run)
	if err != nil || at == "" {
		return err
	}
	return c.push(ctx, repo, move{beginPrefix + run, at, noObject})
}
