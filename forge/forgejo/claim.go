package forgejo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// Claim claims an item for an agent: it writes the label in-progress, then the assignee, each after re-reading the
// item. It returns forge.ErrTaken for an item that is closed, has a label that keeps it from being worked on, or is
// assigned to another account. A person assigned to a pull request is not an obstacle and stays assigned.
//
// With [Options.Claims] the ref is written before both and decides between supervisors. Labels and assignees cannot,
// because the forge has no compare-and-set for them.
//
// Claim can be repeated: with the same runID it continues where it failed, and a complete claim stays unchanged. After
// forge.ErrTaken nothing of the claim is left; after any other error, call Release to remove it.
func (c *Client) Claim(ctx context.Context, ref forge.Ref, login, runID string) (err error) {
	ref = c.canonical(ref)
	defer wrap(&err, "claim %s for %s", ref, login)
	defer func() { err = c.explain(ctx, ref.Repo, err) }()
	if err := c.usable(ctx, ref.Repo); err != nil {
		return err
	}
	in, err := c.getIssue(ctx, ref)
	if err != nil {
		return err
	}
	ours := c.isRun(ref, runID)
	if why := c.taken(in, login, ours); why != "" {
		return fmt.Errorf("%w: %s", forge.ErrTaken, why)
	}
	if c.refs != nil && !ours && c.outdated(ref, in) {
		return fmt.Errorf("%w: it changed since the last scan", forge.ErrTaken)
	}
	if err := c.takeRef(ctx, ref, in, login, runID); err != nil {
		return err
	}
	return c.showClaim(ctx, ref, in, login)
}

// outdated reports whether an issue has changed since the last scan. Since then another supervisor may have done the
// work and released the issue; a claim would succeed, and the work would be done twice.
func (c *Client) outdated(ref forge.Ref, in *gitea.Issue) bool {
	r := c.repo(ref.Repo)
	if r == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := r.issues[ref.Number]
	return known != nil && in.Updated.After(known.Updated)
}

// isRun reports whether our claim of an item, complete or not, belongs to the run.
func (c *Client) isRun(ref forge.Ref, runID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return runID != "" && c.claims[ref].run == runID
}

// showClaim writes the part of a claim that people see: label and assignee.
func (c *Client) showClaim(ctx context.Context, ref forge.Ref, in *gitea.Issue, login string) (err error) {
	if !hasLabel(in, forge.LabelInProgress) {
		if err := c.addLabels(ctx, ref, in, []string{forge.LabelInProgress}); err != nil {
			return err
		}
		if in, err = c.getIssue(ctx, ref); err != nil {
			return err
		}
		if why := c.taken(in, login, true); why != "" {
			return errors.Join(fmt.Errorf("%w: %s", forge.ErrTaken, why), c.withdraw(ctx, ref, in))
		}
	}
	if isAssigned(in, login) {
		return nil
	}
	in, err = c.assign(ctx, ref, append(logins(in.Assignees), login))
	if err == nil && !isAssigned(in, login) {
		err = fmt.Errorf("%w: the forge did not assign %s; give it access to the repository", forge.ErrForbidden, login)
	}
	return err
}

// taken returns why login cannot claim the item, or "" when it can. ours means that the label in-progress belongs to
// this claim.
func (c *Client) taken(in *gitea.Issue, login string, ours bool) string {
	claimed := hasLabel(in, forge.LabelInProgress)
	pull := in.PullRequest != nil
	if in.State == gitea.StateClosed {
		return "it is closed"
	}
	if label := forge.SkipLabel(labelNames(in.Labels)); label != "" && !pull {
		return "it carries the label " + label
	}
	for _, other := range logins(in.Assignees) {
		if strings.EqualFold(other, login) {
			continue
		}
		if !pull || claimed && !ours && c.isAgent(other) {
			return "it is assigned to " + other
		}
	}
	if claimed && !ours && !isAssigned(in, login) {
		return "it is already in-progress"
	}
	return ""
}

func (c *Client) isAgent(login string) bool { return c.ours(login) || c.bots(login) }

// withdraw removes our claim from an item that was assigned to another account while we wrote the claim. If claims are
// refs, we hold the only claim, and the other account only waits for the issue. Without refs, an agent's assignment can
// be a claim, which needs the label.
func (c *Client) withdraw(ctx context.Context, ref forge.Ref, in *gitea.Issue) error {
	of := c.forgetClaim(ref)
	if c.refs != nil || !slices.ContainsFunc(logins(in.Assignees), c.isAgent) {
		if err := c.removeLabels(ctx, ref, in, []string{forge.LabelInProgress}); err != nil {
			return err
		}
	}
	return c.dropRef(ctx, ref, of)
}

// Release releases an agent's claim of an item: it removes the assignee, then the label in-progress, which stays while
// another agent is assigned, then the ref. Other assignees and labels stay. It can be repeated, and succeeds for an
// item that is closed or gone. If another supervisor holds the item, it changes nothing and returns forge.ErrTaken.
func (c *Client) Release(ctx context.Context, ref forge.Ref, login string) (err error) {
	ref = c.canonical(ref)
	defer wrap(&err, "release %s from %s", ref, login)
	defer func() { err = c.explain(ctx, ref.Repo, err) }()
	of, err := c.mayRelease(ctx, ref)
	if err != nil {
		return err
	}
	if err := c.hideClaim(ctx, ref, login); err != nil {
		return err
	}
	return c.dropRef(ctx, ref, of)
}

// hideClaim removes the part of a claim that people see.
func (c *Client) hideClaim(ctx context.Context, ref forge.Ref, login string) error {
	in, err := c.getIssue(ctx, ref)
	if errors.Is(err, forge.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	err = c.release(ctx, ref, in, login)
	if in.State == gitea.StateClosed && !errors.Is(err, forge.ErrUnavailable) {
		return nil // the label of a closed issue holds nothing up
	}
	return err
}

func (c *Client) release(ctx context.Context, ref forge.Ref, in *gitea.Issue, login string) error {
	others := slices.DeleteFunc(logins(in.Assignees), func(other string) bool { return strings.EqualFold(other, login) })
	if isAssigned(in, login) {
		if _, err := c.assign(ctx, ref, others); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(others, c.isAgent) {
		return nil
	}
	return c.removeLabels(ctx, ref, in, []string{forge.LabelInProgress})
}

// assign replaces the assignees. The forge has no request that adds or removes a single one.
func (c *Client) assign(ctx context.Context, ref forge.Ref, all []string) (*gitea.Issue, error) {
	if all == nil {
		all = []string{} // null would not change them
	}
	return c.editIssue(ctx, ref, gitea.EditIssueOption{Assignees: all})
}

// getIssue reads an issue or pull request from the forge.
func (c *Client) getIssue(ctx context.Context, ref forge.Ref) (*gitea.Issue, error) {
	in, _, err := c.askIssue(ctx, ref)
	return in, err
}

// askIssue is getIssue with the exchange. An answer about another item is an error.
func (c *Client) askIssue(ctx context.Context, ref forge.Ref) (*gitea.Issue, *exchange, error) {
	in, x, err := c.connection.issue(ctx, ref)
	if err == nil && in.Index != ref.Number {
		err = fmt.Errorf("%w: it shows #%d for %s", forge.ErrUnavailable, in.Index, ref.Short())
	}
	return in, x, err
}

func hasLabel(in *gitea.Issue, name string) bool { return slices.Contains(labelNames(in.Labels), name) }

func isAssigned(in *gitea.Issue, login string) bool {
	return slices.ContainsFunc(logins(in.Assignees), func(l string) bool { return strings.EqualFold(l, login) })
}
