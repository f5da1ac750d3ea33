package forgejo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

const (
	// fullEvery is how often everything open is listed anew: a deletion or a transfer shows in no list of changes.
	fullEvery = time.Hour
	// fullAgain is when a complete listing that failed is tried again; lists of changes go on meanwhile.
	fullAgain = 5 * time.Minute
	// overlap is how far a list of changes reaches back behind the last one. Forgejo stamps a change when its transaction
	// begins and shows it when that commits, and behind a proxy Date is the proxy's clock. What comes twice costs no
	// further request.
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
	unread := c.readHolders(ctx, r)
	if isOutage(unread) {
		return unread
	}
	r.pause.succeed()
	c.mu.Lock()
	defer c.mu.Unlock()
	done(r)
	return errors.Join(err, unread)
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
	changed, x, err := list[*gitea.Issue](ctx, c, changesOf(r.name, since))
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

// changesOf lists everything that changed since a time, open or not, issues and pull requests.
func changesOf(repo string, since time.Time) string {
	return at(repo, "/issues?state=all&since=%s", stamp(since))
}

// stamp is a time in a query. Forgejo takes an empty one for no bound.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return url.QueryEscape(t.Format(time.RFC3339))
}
