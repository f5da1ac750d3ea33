package forgejo

import (
	"context"
	"slices"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// unlinkedLimit bounds how many ended pull requests a cold scan reads for their branch name alone. Their text names
// no issue, but their branch can be fix/issue-N. The newest are read; each costs the forge 30 ms.
const unlinkedLimit = 50

// readAll lists all open items. It reads the pages in parallel, and items that are opened or closed meanwhile move
// other items between pages. So readAll lists the changes afterwards, and if an item was opened or closed, it reads all
// pages again. An item that changes its page both times is missed for an hour.
func (c *Client) readAll(ctx context.Context, r *repo) (completion, error) {
	settings, in, err := c.readRepo(ctx, r)
	if err != nil {
		return nil, err
	}
	c.readObstacles(ctx, in, &settings)
	everything := c.issues(r.name, gitea.ListIssueOption{State: gitea.StateOpen})
	open, first, err := everything.atOnce(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	cold, since := r.asOf.IsZero(), r.since
	c.mu.Unlock()
	if cold { // otherwise the cache must learn which items were closed since the last scan
		since = first.forgeBegan()
	}
	changed, x, err := c.changes(r.name, since).all(ctx)
	if err != nil {
		return nil, err
	}
	if moved(open, changed) {
		again, _, err := everything.atOnce(ctx)
		if err != nil {
			return nil, err
		}
		open = append(open, again...)
		if changed, x, err = c.changes(r.name, since).all(ctx); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	r.settings = settings
	c.applyFull(r, listing{open, first.began}, listing{changed, x.began})
	c.prune(r, first.began)
	c.mu.Unlock()
	if cold {
		if err := c.readColdPulls(ctx, r); err != nil {
			return nil, err
		}
	}
	return func(r *repo) {
		r.asOf, r.fullAt, r.since = first.began, first.began, first.forgeBegan().Add(-overlap)
	}, nil
}

// moved reports whether an item was opened or closed while the pages of open were read.
func moved(open, changed []*gitea.Issue) bool {
	was := make(map[int64]bool, len(open))
	for _, in := range open {
		if in != nil {
			was[in.Index] = true
		}
	}
	for _, in := range changed {
		if in != nil && was[in.Index] == (in.State == gitea.StateClosed) {
			return true
		}
	}
	return false
}

// readColdPulls reads the details of all open pull requests, a page at a time, and the ended pull requests of issues
// that are still open. Only a first scan needs it.
func (c *Client) readColdPulls(ctx context.Context, r *repo) error {
	c.mu.Lock()
	open, oldest := len(r.pulls) > 0, r.oldestBacklog()
	c.mu.Unlock()
	if open {
		pulls := c.pulls(r.name, gitea.StateOpen, "")
		pulls.slim = slimPull
		all, x, err := pulls.atOnce(ctx)
		if err != nil {
			return err
		}
		c.mu.Lock()
		for _, in := range all {
			if in != nil {
				c.applyDetails(r, in, x)
			}
		}
		c.mu.Unlock()
	}
	if oldest.IsZero() {
		return nil
	}
	// The pages are read one by one: an item that ends meanwhile moves others to later pages.
	ended, x, err := c.issues(r.name, gitea.ListIssueOption{
		State: gitea.StateClosed, Type: gitea.IssueTypePull, Since: oldest,
	}).all(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applyEnded(r, ended, oldest, x.began)
	return nil
}

// oldestBacklog returns when the oldest open issue of the backlog was filed. No pull request for the backlog can have
// ended earlier.
func (r *repo) oldestBacklog() time.Time {
	var oldest time.Time
	for _, i := range r.issues {
		if !i.Closed && i.Has(forge.LabelBacklog) && (oldest.IsZero() || i.Created.Before(oldest)) {
			oldest = i.Created
		}
	}
	return oldest
}

// applyEnded stores the ended pull requests of a cold scan that can be for an open issue. A branch named after an issue
// is younger than the issue.
func (c *Client) applyEnded(r *repo, ended []*gitea.Issue, oldest, began time.Time) {
	ended = slices.DeleteFunc(ended, func(in *gitea.Issue) bool { return in == nil || in.PullRequest == nil })
	slices.SortFunc(ended, func(a, b *gitea.Issue) int { return int(b.Index - a.Index) })
	unlinked := 0
	for _, in := range ended {
		named := forge.Closes("", in.Title, in.Body, r.name)
		maybe := len(named) == 0 && !in.Created.Before(oldest)
		if maybe {
			unlinked++
		}
		if maybe && unlinked <= unlinkedLimit || slices.ContainsFunc(named, c.isOpen) {
			if r.pulls[in.Index] == nil {
				r.pulls[in.Index] = &pull{Pull: forge.Pull{Ref: forge.Ref{Repo: r.name, Number: in.Index}}}
			}
			c.applyListedPull(r, in, began)
		}
	}
}
