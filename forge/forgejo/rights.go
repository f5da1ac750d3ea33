package forgejo

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// denial is what an account lacks, with what to do about it.
type denial string

func (d denial) Error() string { return string(d) }

// Unwrap makes it a forge.ErrForbidden.
func (d denial) Unwrap() error { return forge.ErrForbidden }

// MayWork finds out, without changing anything, whether the account of an agent's token may do an agent's work in a
// repository: push, open pull requests, and write to issues. What it lacks is a forge.ErrForbidden, of one line.
func (c *Client) MayWork(ctx context.Context, token, repo string) error {
	in, _, err := doAs[*gitea.Repository](ctx, c, token, requestTime, ask{http.MethodGet, at(repo, ""), nil})
	const scopes = "; make a token with the scopes write:repository, write:issue and read:user"
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return denial("its account cannot see " + repo + "; make it a collaborator with write access")
	case errors.Is(err, forge.ErrForbidden):
		return denial("its token may not read " + repo + scopes)
	case err != nil:
		return fmt.Errorf("cannot tell what its token may do in %s: %w", repo, err)
	case in.Permissions == nil || !in.Permissions.Push:
		return denial("its account may only read " + repo + "; make it a collaborator with write access")
	}
	for _, probe := range []struct {
		what string
		ask  func(context.Context, string, string, *gitea.Repository) error
	}{{"push to", c.probeBranch}, {"write to the issues of", c.probeLabel}} {
		switch err := probe.ask(ctx, token, repo, in); {
		case errors.Is(err, forge.ErrForbidden):
			return denial("its token may not " + probe.what + " " + repo + scopes)
		case isOutage(err):
			return fmt.Errorf("cannot tell what its token may do in %s: %w", repo, err)
		}
	}
	return nil
}

// probeLabel asks to change a label that cannot exist: 404 where one may.
func (c *Client) probeLabel(ctx context.Context, token, repo string, _ *gitea.Repository) error {
	_, _, err := doAs[nothing](ctx, c, token, requestTime, ask{http.MethodPatch, at(repo, "/labels/0"), gitea.EditLabelOption{}})
	return err
}

// probeBranch asks for a branch that exists already: 409 where one may push. An empty repository has none.
func (c *Client) probeBranch(ctx context.Context, token, repo string, in *gitea.Repository) error {
	if in.Empty {
		return nil
	}
	form := gitea.CreateBranchOption{BranchName: in.DefaultBranch, OldBranchName: in.DefaultBranch}
	_, _, err := doAs[nothing](ctx, c, token, requestTime, ask{http.MethodPost, at(repo, "/branches"), form})
	return err
}
