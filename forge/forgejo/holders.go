package forgejo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// heldClaim is the holder of an item with in-progress. It is read again when the item changes.
type heldClaim struct {
	by            *holder // nil: there is no claim
	of            time.Time
	first, readAt time.Time // our clock: when the first and the last request for this state of the item began
}

// unreadHolder is shown for a claim that has not been read. It can be another supervisor's, so we do not release it.
const unreadHolder = "an unknown supervisor: its claim could not be read yet"

// settled reports whether the holder was read after the second of the item's last change. In that second the item may
// have changed again.
func (h heldClaim) settled(of time.Time) bool {
	return h.of.Equal(of) && h.readAt.Sub(h.first) > granularity
}

// readHolders reads the holders of a repository's claims, except ours. Another supervisor can use the same accounts as
// our agents, and without its holder its claim would look like one that we left behind. An unchanged forge costs no
// request. At the first scan and once an hour readHolders also sweeps abandoned claims. It sweeps again five minutes
// after the first sweep, because the forge may still have been executing requests from before our start, and five
// minutes after any sweep that left some.
func (c *Client) readHolders(ctx context.Context, r *repo) error {
	if c.refs == nil {
		return nil
	}
	first, sweep := r.sweepAt.IsZero(), !time.Now().Before(r.sweepAt)
	c.mu.Lock()
	wanted := c.unheld(r)
	c.mu.Unlock()
	if len(wanted) == 0 && !sweep {
		return nil
	}
	began := time.Now()
	all, err := c.listClaims(ctx, r.name, claimPrefix)
	if err != nil {
		return err
	}
	for ref, of := range wanted {
		h := heldClaim{of: of, first: began, readAt: began}
		if commit := all[ref.Number]; commit != "" {
			if h.by, err = c.holderOnce(ctx, ref, commit); err != nil {
				return err
			}
		}
		c.mu.Lock()
		if was := c.holders[ref]; was.of.Equal(of) && !was.first.IsZero() {
			h.first = was.first
		}
		c.holders[ref] = h
		c.mu.Unlock()
	}
	if !sweep {
		return nil
	}
	c.mu.Lock()
	maps.DeleteFunc(c.seen, func(ref forge.Ref, _ sighting) bool { return ref.Repo == r.name && all[ref.Number] == "" })
	c.mu.Unlock()
	left, err := c.sweepClaims(ctx, r, all)
	r.sweepAt = began.Add(fullEvery)
	if left || first {
		r.sweepAt = began.Add(unfinishedFor)
	}
	return err
}

// lookHolder re-reads the holder of one item, unless we hold the item.
func (c *Client) lookHolder(ctx context.Context, ref forge.Ref, in *gitea.Issue) error {
	c.mu.Lock()
	_, ours := c.claims[ref]
	c.mu.Unlock()
	if c.refs == nil || ours || !hasLabel(in, forge.LabelInProgress) {
		return nil
	}
	began := time.Now()
	by, err := c.holder(ctx, ref)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders[ref] = heldClaim{by: by, of: in.Updated, first: began, readAt: began}
	return nil
}

// holderOnce is readHolder, but returns the stored holder if it was read from the same commit.
func (c *Client) holderOnce(ctx context.Context, ref forge.Ref, commit string) (*holder, error) {
	c.mu.Lock()
	known := c.holders[ref].by
	c.mu.Unlock()
	if known != nil && known.commit == commit {
		return known, nil
	}
	return c.readHolder(ctx, ref, commit)
}

// unheld returns the items with in-progress whose holder must be read, each with the time of its last change. It
// forgets the holders of all items without in-progress.
func (c *Client) unheld(r *repo) map[forge.Ref]time.Time {
	wanted, claimed := map[forge.Ref]time.Time{}, map[forge.Ref]bool{}
	note := func(ref forge.Ref, updated time.Time) {
		claimed[ref] = true
		if _, ours := c.claims[ref]; !ours && !c.holders[ref].settled(updated) {
			wanted[ref] = updated
		}
	}
	for _, i := range r.issues {
		if !i.Closed && i.Has(forge.LabelInProgress) {
			note(i.Ref, i.Updated)
		}
	}
	for _, p := range r.pulls {
		if !p.Closed && p.Has(forge.LabelInProgress) {
			note(p.Ref, p.Updated)
		}
	}
	for ref := range c.holders {
		if ref.Repo == r.name && !claimed[ref] {
			delete(c.holders, ref)
		}
	}
	return wanted
}

// sweepClaims deletes abandoned refs, left by supervisors that died between two requests of a claim. left reports
// whether it kept a ref of an item that is not in-progress. A ref of our own instance is abandoned if the item lacks
// in-progress and this process does not know the claim. Only the sweep deletes it, even if the journal says that the
// claim was released. A ref of another instance can be an unfinished claim, so it counts as abandoned only after five
// minutes.
func (c *Client) sweepClaims(ctx context.Context, r *repo, all map[int64]string) (left bool, err error) {
	for _, number := range slices.Sorted(maps.Keys(all)) {
		ref, commit := forge.Ref{Repo: r.name, Number: number}, all[number]
		c.mu.Lock()
		_, ours := c.claims[ref]
		labels, assignees := c.shown(r, number)
		c.mu.Unlock()
		if ours || slices.Contains(labels, forge.LabelInProgress) {
			continue
		}
		drop := !slices.ContainsFunc(assignees, c.isAgent) && c.seenLong(ref, commit)
		if !drop {
			h, unread := c.readHolder(ctx, ref, commit)
			err = errors.Join(err, unread)
			drop = h != nil && h.instance != "" && h.instance == c.refs.Instance() && !c.isTwin(h)
		}
		if drop {
			err = errors.Join(err, c.dropRef(ctx, ref, claim{commit: commit}))
		} else {
			left = true
		}
	}
	return left, err
}

// shown returns the labels and assignees of an open item in the cache.
func (c *Client) shown(r *repo, number int64) (labels, assignees []string) {
	if i := r.issues[number]; i != nil && !i.Closed {
		return i.Labels, i.Assignees
	}
	if p := r.pulls[number]; p != nil && !p.Closed {
		return p.Labels, p.Assignees
	}
	return nil, nil
}

// heldBy describes, for people, another supervisor that holds an item; "" when there is none.
func (c *Client) heldBy(ref forge.Ref, labels []string, of time.Time) string {
	if c.refs == nil || !slices.Contains(labels, forge.LabelInProgress) {
		return ""
	}
	if _, ours := c.claims[ref]; ours {
		return ""
	}
	h, known := c.holders[ref]
	switch {
	case !known || h.of.Before(of):
		return unreadHolder
	case c.foreign(h.by):
		return h.by.String()
	}
	return ""
}
