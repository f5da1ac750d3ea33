package forgejo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// Reassign moves an issue from one account to another; with from "" the issue must have no assignee. The issue must
// still be waiting: open, assigned only to from, and not in-progress. Otherwise Reassign returns forge.ErrTaken. labels
// are written before the assignee, so that every moved issue has them.
//
// The forge has no compare-and-set for assignees. So Reassign holds the ref of the issue's claim while it writes: a
// session needs that ref to begin work on the issue. It can be repeated with the same run id, and succeeds if the move
// is already complete.
func (c *Client) Reassign(
	ctx context.Context, ref forge.Ref, from, to string, labels []string, runID string,
) (err error) {
	ref = c.canonical(ref)
	defer wrap(&err, "move %s to %s", ref, to)
	in, err := c.getIssue(ctx, ref)
	if err != nil {
		return err
	}
	if handedOver(in, to, labels) { // by an earlier try whose answer was lost; work on the issue may have begun since
		return c.releaseRef(ctx, ref, runID)
	}
	if why := c.begun(in, from, to); why != "" {
		return errors.Join(fmt.Errorf("%w: %s", forge.ErrTaken, why), c.releaseRef(ctx, ref, runID))
	}
	if err := c.takeRef(ctx, ref, in, to, runID); err != nil {
		return err
	}
	err = c.handOver(ctx, ref, from, to, labels)
	if errors.Is(err, forge.ErrUnavailable) {
		return err // the next try finds the ref and continues
	}
	return errors.Join(err, c.releaseRef(ctx, ref, runID))
}

// handedOver reports whether the move is complete. Only moves write these labels, and they write them before the
// assignee.
func handedOver(in *gitea.Issue, to string, labels []string) bool {
	lacks := func(label string) bool { return !hasLabel(in, label) }
	return len(in.Assignees) == 1 && isAssigned(in, to) && !slices.ContainsFunc(labels, lacks)
}

// begun returns why an issue no longer waits for from; "" if it still waits, or is already assigned to the new
// account.
func (c *Client) begun(in *gitea.Issue, from, to string) string {
	assigned := logins(in.Assignees)
	switch {
	case in.State == gitea.StateClosed:
		return "it is closed"
	case hasLabel(in, forge.LabelInProgress):
		return "it is in-progress"
	case len(assigned) == 1 && isAssigned(in, to):
		return ""
	case len(assigned) == 0 && from == "", len(assigned) == 1 && isAssigned(in, from):
		return ""
	case len(assigned) == 0:
		return "it has no assignee"
	}
	return "it is assigned to " + assigned[0]
}

// handOver writes labels and assignee while we hold the ref. It re-reads the issue first, to see a session that began
// before we had the ref.
func (c *Client) handOver(ctx context.Context, ref forge.Ref, from, to string, labels []string) error {
	in, err := c.getIssue(ctx, ref)
	if err != nil {
		return err
	}
	if why := c.begun(in, from, to); why != "" {
		return fmt.Errorf("%w: %s", forge.ErrTaken, why)
	}
	if err := c.addLabels(ctx, ref, in, labels); err != nil {
		return err
	}
	if isAssigned(in, to) {
		return nil
	}
	in, err = c.assign(ctx, ref, []string{to})
	if err == nil && !isAssigned(in, to) {
		err = fmt.Errorf("%w: the forge did not assign %s; give it access to the repository", forge.ErrForbidden, to)
	}
	return err
}

// releaseRef deletes the ref that a move holds, if it still exists.
func (c *Client) releaseRef(ctx context.Context, ref forge.Ref, runID string) error {
	if c.isRun(ref, runID) {
		return c.dropRef(ctx, ref, c.forgetClaim(ref))
	}
	if c.refs == nil {
		return nil
	}
	held, err := c.holder(ctx, ref) // the claim may be this supervisor's from before a restart
	if err != nil || held == nil || held.run != runID {
		return err
	}
	return c.dropRef(ctx, ref, held.claim())
}
