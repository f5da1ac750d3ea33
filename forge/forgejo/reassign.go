package forgejo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// Reassign moves an issue from one account to another, or with from "" from none, if it still waits there: open,
// assigned to from alone, and not in-progress. Otherwise the answer is forge.ErrTaken. labels are written before
// the assignee, so that every moved issue has them.
//
// The forge has no compare-and-set for assignees, so Reassign holds the ref of the issue's claim meanwhile: a session
// needs it to begin the issue. It may be repeated with the same run id; a completed move is a success.
func (c *Client) Reassign(
	ctx context.Context, ref forge.Ref, from, to string, labels []string, runID string,
) (err error) {
	ref = c.canonical(ref)
	defer wrap(&err, "give %s to %s", ref, to)
	in, err := c.getIssue(ctx, ref)
	if err != nil {
		return err
	}
	if handedOver(in, to, labels) { // by an earlier try whose answer was lost; the issue may have been begun since
		return c.letGo(ctx, ref, runID)
	}
	if why := c.begun(in, from, to); why != "" {
		return errors.Join(fmt.Errorf("%w: %s", forge.ErrTaken, why), c.letGo(ctx, ref, runID))
	}
	if err := c.takeRef(ctx, ref, in, to, runID); err != nil {
		return err
	}
	err = c.handOver(ctx, ref, from, to, labels)
	if errors.Is(err, forge.ErrUnavailable) {
		return err // the next try finds the ref
	}
	return errors.Join(err, c.letGo(ctx, ref, runID))
}

// handedOver reports whether the move is complete. The labels are written first, and by moves alone.
func handedOver(in *gitea.Issue, to string, labels []string) bool {
	lacks := func(label string) bool { return !hasLabel(in, label) }
	return len(in.Assignees) == 1 && isAssigned(in, to) && !slices.ContainsFunc(labels, lacks)
}

// begun returns why an issue no longer waits for from; "" when it does, or has been moved to to.
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
		return "it is assigned to nobody"
	}
	return "it is assigned to " + assigned[0]
}

// handOver writes labels and assignee while the ref is held. It reads the issue first: a session that began before we
// had the ref shows now.
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

// letGo deletes the ref that a move held, if it still does.
func (c *Client) letGo(ctx context.Context, ref forge.Ref, runID string) error {
	if c.isRun(ref, runID) {
		return c.dropRef(ctx, ref, c.forgetClaim(ref))
	}
	if c.refs == nil {
		return nil
	}
	held, err := c.holder(ctx, ref) // of this supervisor before a restart
	if err != nil || held == nil || held.run != runID {
		return err
	}
	return c.dropRef(ctx, ref, held.claim())
}
