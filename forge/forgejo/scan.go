package forgejo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

const (
	// fullEvery is how often everything open is listed anew: a deletion or a transfer shows in no list of changes.
	fullEvery = time.Hour
	// fullAgain is when a complete listing that failed is tried again; lists of changes go on meanwhile.
	fullAgain = 5 * time.Minute
	// overlap is how far a list of changes reaches back behind the last one. Forgejo stamps a change when its
	// transaction begins and shows it when that commits, and behind a proxy Date is the proxy's clock. What comes twice
	// costs no further request.
	overlap = 10 * time.Second
)

// Scan brings the cache up to date and returns all of it. With an error the facts are those that could be had, each
// with the time at which it was true; a repository whose AsOf did not move was not fully read. After
// forge.ErrUnavailable the next scans return at once until the forge may be asked again.
func (c *Client) Scan(ctx context.Context) (forge.Facts, error) {
	c.scanning.Lock()
	defer c.scanning.Unlock()
	if err := c.paused.check(time.Now()); err != nil {
		return c.facts(false), fmt.Errorf("cannot scan: %w", err)
	}
	err := inParallel(ctx, len(c.repos), func(ctx context.Context, n int) error {
		return c.scanRepo(ctx, c.repos[n])
	})
	more := false
	if !isOutage(err) {
		var unread error
		if more, unread = c.readBlockers(ctx); isOutage(unread) {
			err = unread
		} else {
			err = errors.Join(err, unread)
		}
	}
	switch {
	case err == nil:
		c.paused.succeed()
		return c.facts(more), nil
	case isOutage(err) && ctx.Err() == nil:
		c.paused.fail(time.Now(), err)
	case !isOutage(err):
		c.paused.succeed()
	}
	return c.facts(more), fmt.Errorf("cannot scan: %w", err)
}

// scanRepo reads one repository, unless it failed just now. Items of it that could not be read do not keep it from
// being complete: they are shown as unread.
func (c *Client) scanRepo(ctx context.Context, r *repo) error {
	if err := r.pause.check(time.Now()); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	done, err := c.readLists(ctx, r)
	if err != nil {
		if !isOutage(err) {
			r.pause.fail(time.Now(), err)
		}
		return fmt.Errorf("%s: %w", r.name, err)
	}
	err = c.readPulls(ctx, r)
	if isOutage(err) {
		return err
	}
	r.pause.succeed()
	c.mu.Lock()
	defer c.mu.Unlock()
	done(r)
	return err
}

// completion is what is written down once a scan of a repository is through.
type completion func(*repo)

// readLists reads what is open, or what changed. A complete listing that fails in a repository that we know already is
// put off, and changes are read instead.
func (c *Client) readLists(ctx context.Context, r *repo) (completion, error) {
	c.mu.Lock()
	cold, due := r.asOf.IsZero(), time.Since(r.fullAt) >= fullEvery
	since := r.since
	c.mu.Unlock()
	if due {
		done, err := c.readAll(ctx, r)
		if err == nil || cold || isOutage(err) {
			return done, err
		}
		c.mu.Lock()
		r.fullAt = time.Now().Add(fullAgain - fullEvery)
		c.mu.Unlock()
	}
	changed, x, err := list(ctx, c, changesOf(r.name, since))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, in := range changed {
		c.applyListed(r, in, x.began)
	}
	return func(r *repo) {
		if x.forgeBegan().Before(since) {
			r.fullAt = time.Time{} // the forge's clock went back, and changes since then hide from us
		}
		r.asOf, r.since = x.began, x.forgeBegan().Add(-overlap)
	}, nil
}

// changesOf asks for everything that changed since a time, open or not, issues and pull requests.
func changesOf(name string, since time.Time) pageRequest[*gitea.Issue] {
	return issuesOf(name, gitea.ListIssueOption{State: gitea.StateAll, Since: since})
}

func issuesOf(name string, option gitea.ListIssueOption) pageRequest[*gitea.Issue] {
	return func(sdk *gitea.Client, page gitea.ListOptions) ([]*gitea.Issue, *gitea.Response, error) {
		option := option
		option.ListOptions = page
		owner, name := owner(name)
		return sdk.ListRepoIssues(owner, name, option)
	}
}

// readAll lists everything open. Its pages are read side by side, and what is closed or opened meanwhile moves items
// across their borders; so afterwards it looks for changes, and after a change of what is open it reads all pages a
// second time. An item would have to be at a border both times to be missed, and then only until the next hour.
func (c *Client) readAll(ctx context.Context, r *repo) (completion, error) {
	settings, err := c.readSettings(ctx, r)
	if err != nil {
		return nil, err
	}
	everything := issuesOf(r.name, gitea.ListIssueOption{State: gitea.StateOpen})
	open, first, err := listAtOnce(ctx, c, everything)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	cold, since := r.asOf.IsZero(), r.since
	c.mu.Unlock()
	if cold {
		since = first.forgeBegan()
	} // else from the last scan on: what was closed since then is to be seen to end
	changed, x, err := list(ctx, c, changesOf(r.name, since))
	if err != nil {
		return nil, err
	}
	if moved(open, changed) {
		again, _, err := listAtOnce(ctx, c, everything)
		if err != nil {
			return nil, err
		}
		open = append(open, again...)
		if changed, x, err = list(ctx, c, changesOf(r.name, since)); err != nil {
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

// moved reports whether something was opened or closed while the pages of open were read.
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

// readSettings asks for the repository itself.
func (c *Client) readSettings(ctx context.Context, r *repo) (settings, error) {
	in, x, err := read(ctx, c, func(sdk *gitea.Client) (*gitea.Repository, *gitea.Response, error) {
		owner, name := owner(r.name)
		return sdk.GetRepo(owner, name)
	})
	if err != nil {
		return settings{}, err
	}
	return settingsOf(in, x.began), nil
}

func settingsOf(in *gitea.Repository, began time.Time) settings {
	return settings{
		branch:       in.DefaultBranch,
		style:        mergeStyle(in),
		deleteBranch: in.DefaultDeleteBranchAfterMerge,
		dependencies: in.InternalTracker == nil || in.InternalTracker.EnableIssueDependencies,
		readAt:       began,
	}
}

// mergeStyle is the repository's default, or the first that it allows.
func mergeStyle(in *gitea.Repository) gitea.MergeStyle {
	if in.DefaultMergeStyle != "" {
		return in.DefaultMergeStyle
	}
	switch {
	case in.AllowMerge:
		return gitea.MergeStyleMerge
	case in.AllowSquash:
		return gitea.MergeStyleSquash
	case in.AllowRebase:
		return gitea.MergeStyleRebase
	case in.AllowRebaseMerge:
		return gitea.MergeStyleRebaseMerge
	case in.AllowFastForwardOnlyMerge:
		return gitea.MergeStyleFastForwardOnly
	}
	return gitea.MergeStyleMerge
}
