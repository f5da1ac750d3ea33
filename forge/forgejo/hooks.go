package forgejo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// hookEvents are the events of our web hooks. On the forge, issues and pull_request include labels, assignments and
// reviews, and issue_comment includes comments on pull requests, which can be commands.
var hookEvents = []string{"issues", "issue_comment", "pull_request", "push"}

// HasHook reports whether a repository has an active web hook to url with all hookEvents. It cannot check the secret,
// which the forge does not show. forge.ErrForbidden unless our account administers the repository.
func (c *Client) HasHook(ctx context.Context, repo, url string) (bool, error) {
	all, err := c.hooksTo(ctx, repo, url)
	if err != nil {
		return false, fmt.Errorf("cannot list the web hooks of %s: %w", repo, err)
	}
	return slices.ContainsFunc(all, func(h *gitea.Hook) bool {
		return h.Active && !slices.ContainsFunc(hookEvents, func(e string) bool { return !slices.Contains(h.Events, e) })
	}), nil
}

// SetHook registers a web hook to url, signed with the secret, and then deletes older hooks to the same url: the forge
// never changes the secret of an existing hook.
func (c *Client) SetHook(ctx context.Context, repo, url, secret string) (err error) {
	defer wrap(&err, "register a web hook in %s", repo)
	old, err := c.hooksTo(ctx, repo, url)
	if err != nil {
		return err
	}
	// Forgejo has its own hook type and also accepts Gitea's. It sends the same payload to both.
	owner, name := owner(repo)
	g, x := c.sdk(ctx)
	_, _, err = g.CreateRepoHook(owner, name, gitea.CreateHookOption{
		Type: "gitea", Events: hookEvents, Active: true,
		Config: map[string]string{"url": url, "content_type": "json", "secret": secret},
	})
	if err = x.wrote(err); err != nil {
		return err
	}
	for _, h := range old {
		g, x := c.sdk(ctx)
		_, gone := g.DeleteRepoHook(owner, name, h.ID)
		gone = x.wrote(gone)
		err = errors.Join(err, unless(gone, forge.ErrNotFound))
	}
	return err
}

// hooksTo lists the repository's web hooks to url.
func (c *Client) hooksTo(ctx context.Context, repo, url string) ([]*gitea.Hook, error) {
	owner, name := owner(repo)
	all, _, err := newList(c.connection, nil, func(
		g *gitea.Client, page gitea.ListOptions,
	) ([]*gitea.Hook, *gitea.Response, error) {
		return g.ListRepoHooks(owner, name, gitea.ListHooksOptions{ListOptions: page})
	}).all(ctx)
	return slices.DeleteFunc(all, func(h *gitea.Hook) bool { return h == nil || h.Config["url"] != url }), err
}
