package forgejo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// denial names the right that an account lacks, and how to give it. kind is forge.ErrForbidden or forge.ErrNoAccess.
type denial struct {
	text string
	kind error
}

func (d denial) Error() string { return d.text }

// Unwrap returns the kind.
func (d denial) Unwrap() error { return d.kind }

// errUnseen is the kind of a repository that does not exist, or that the account cannot see.
var errUnseen = fmt.Errorf("%w: %w", forge.ErrNoAccess, forge.ErrNotFound)

// MayWork reports whether the account of an agent's token can push to a repository, open pull requests and write to
// issues. A missing right is a forge.ErrForbidden of one line, and a forge.ErrNoAccess if the account itself lacks it;
// a repository in which no account can work is a forge.ErrOff. MayWork changes nothing.
func (c *Client) MayWork(ctx context.Context, token, repo string) error {
	as := c.as(token)
	in, _, err := as.repository(ctx, repo)
	const remedy = "; make a token with the scopes " + scopes
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return denial{"its account cannot see " + repo + "; make it a collaborator with write access", errUnseen}
	case errors.Is(err, forge.ErrForbidden):
		return denial{"its token may not read " + repo + remedy, forge.ErrForbidden}
	case err != nil:
		return fmt.Errorf("cannot tell what its token may do in %s: %w", repo, err)
	case offOf(in, repo) != "" && (writes(in) || !in.Empty): // one made anew lacks the accounts, too
		return c.noteOff(repo, offOf(in, repo))
	case !writes(in):
		return denial{"its account may only read " + repo + "; make it a collaborator with write access", forge.ErrNoAccess}
	}
	var lacks []string
	for _, probe := range []struct {
		what string
		ask  func(context.Context, string, *gitea.Repository) error
	}{{"push to", as.probeBranch}, {"write to the issues of", as.probeLabel}} {
		switch err := probe.ask(ctx, repo, in); {
		case errors.Is(err, forge.ErrForbidden):
			lacks = append(lacks, probe.what+" "+repo)
		case isOutage(err):
			return fmt.Errorf("cannot tell what its token may do in %s: %w", repo, err)
		}
	}
	if len(lacks) > 0 {
		return denial{"its token may not " + strings.Join(lacks, ", nor ") + remedy, forge.ErrForbidden}
	}
	return nil
}

func writes(in *gitea.Repository) bool { return in.Permissions != nil && in.Permissions.Push }

// probeLabel tries to change a label that cannot exist. The forge answers 404 if the token has write access to issues.
func (c *connection) probeLabel(ctx context.Context, repo string, _ *gitea.Repository) error {
	owner, name := owner(repo)
	g, x := c.sdk(ctx)
	_, _, err := g.EditLabel(owner, name, 0, gitea.EditLabelOption{})
	return x.wrote(err)
}

// probeBranch tries to create a branch that already exists. The forge answers 409 if the token can push. An empty
// repository has no branch to try.
func (c *connection) probeBranch(ctx context.Context, repo string, in *gitea.Repository) error {
	if in.Empty {
		return nil
	}
	form := gitea.CreateBranchOption{BranchName: in.DefaultBranch, OldBranchName: in.DefaultBranch}
	owner, name := owner(repo)
	g, x := c.sdk(ctx)
	_, _, err := g.CreateBranch(owner, name, form)
	return x.wrote(err)
}
