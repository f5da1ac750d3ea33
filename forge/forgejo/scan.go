package forgejo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codeberg.org/johba/disinto/forge"
)

const (
	// fullEvery is how often all open items are listed: no list of changes shows a deletion or a transfer.
	fullEvery = time.Hour
	// fullAgain is how long after a failed complete listing the next one is tried; lists of changes are read meanwhile.
	fullAgain = 5 * time.Minute
	// overlap is how far a list of changes reaches back before the last one. Forgejo stamps a change when its
	// transaction begins, but shows it only after the commit, and behind a proxy Date is by the proxy's clock. Entries
	// that come twice cost no further request.
	overlap = 10 * time.Second
)

// Scan updates the cache and returns all of it. After an error the facts are as recent as they could be read, each with
// its own time; a repository whose AsOf did not change was not read completely. After forge.ErrUnavailable, scans
// return at once until a retry is due.
func (c *Client) Scan(ctx context.Context) (forge.Facts, error) {
	c.scanning.Lock()
	defer c.scanning.Unlock()
	ctx = withSlots(ctx)
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
	err = errors.Join(err, c.misread.drain(), c.tellTwin(ctx))
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

// scanRepo reads one repository, unless it still waits for a retry after a failure. Single items that could not be read
// are shown as unread; the scan of the repository is complete without them.
func (c *Client) scanRepo(ctx context.Context, r *repo) error {
	if err := r.pause.check(time.Now()); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	off, err := c.isOff(ctx, r)
	if err == nil && off {
		return nil
	}
	var done completion
	if err == nil {
		done, err = c.readLists(ctx, r)
	}
	if err != nil {
		if !isOutage(err) {
			r.pause.fail(time.Now(), err)
			c.mu.Lock()
			r.moved, r.fullAt = true, time.Time{} // it may be deleted, and made anew under its name
			c.mu.Unlock()
		}
		return fmt.Errorf("%s: %w", r.name, err)
	}
	err = c.readPulls(ctx, r)
	if isOutage(err) {
		return err
	}
	unread := errors.Join(c.readHolders(ctx, r), c.readWriters(ctx, r), c.readSaid(ctx, r), c.readTalks(ctx, r))
	if isOutage(unread) {
		return unread
	}
	r.pause.succeed()
	c.mu.Lock()
	defer c.mu.Unlock()
	done(r)
	return errors.Join(err, unread)
}

// completion records that the scan of a repository is complete.
type completion func(*repo)

// readLists reads all open items or only the changes. If a complete listing fails in a repository that was read before,
// it is postponed, and the changes are read instead.
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
	changed, x, err := c.changes(r.name, since).all(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.moved = x.redirected
	for _, in := range changed {
		c.applyListed(r, in, x.began)
	}
	return func(r *repo) {
		if x.forgeBegan().Before(since) {
			r.fullAt = time.Time{} // the forge's clock went back: its next changes would be before since
		}
		r.asOf, r.since = x.began, x.forgeBegan().Add(-overlap)
	}, nil
}
