package forgejo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// The timeline of an issue is read only if the issue is open while a pull request for it has ended. That is rare: the
// issue was reopened, a dependency kept it open, or a person closed the pull request.

// history records which part of an issue's timeline was read.
type history struct {
	of     time.Time // the issue's Updated when it was read
	since  time.Time // where the part that was read begins
	failed failure
}

// past is a timeline to be read: an issue's for its last reopening, or a pull request's for the account that closed it.
type past struct {
	forge.Ref
	pull  bool
	since time.Time
	of    time.Time // the issue's Updated
}

// settledPast reports whether the issue's history since first is known.
func (i *issue) settledPast(first time.Time) bool {
	return first.IsZero() || i.history.of.Equal(i.Updated) && !i.history.since.After(first)
}

// ends returns, for each issue with ended pull requests, when the first of these ended.
func (c *Client) ends() map[forge.Ref]time.Time {
	first := map[forge.Ref]time.Time{}
	for _, r := range c.repos {
		for _, p := range r.pulls {
			if !p.Closed {
				continue
			}
			for _, ref := range p.Closes {
				if at, ok := first[ref]; !ok || p.Ended.Before(at) {
					first[ref] = p.Ended
				}
			}
		}
	}
	return first
}

// unreadHistories lists the timelines that must be read: those of open issues with ended pull requests, and those of
// such pull requests if they were closed unmerged.
func (c *Client) unreadHistories(now time.Time) []past {
	var wanted []past
	for ref, first := range c.ends() {
		r := c.repo(ref.Repo)
		if r == nil || !c.isOpen(ref) {
			continue
		}
		i := r.issues[ref.Number]
		if c.dispatchable(i) && !i.settledPast(first) && !i.history.failed.recent(now, i.Updated) {
			wanted = append(wanted, past{ref, false, first, i.Updated})
		}
	}
	for _, r := range c.repos {
		for _, p := range r.pulls {
			unread := p.Closed && !p.Merged && !p.closer && !p.closerFailed.recent(now, p.Ended)
			if unread && slices.ContainsFunc(p.Closes, c.isOpen) {
				wanted = append(wanted, past{p.Ref, true, p.Ended, time.Time{}})
			}
		}
	}
	slices.SortFunc(wanted, func(a, b past) int { return a.Ref.Compare(b.Ref) })
	return wanted
}

// readHistory reads one timeline from a time on.
func (c *Client) readHistory(ctx context.Context, w past) error {
	r := c.repo(w.Repo)
	events, err := c.timeline(ctx, w)
	if isOutage(err) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := r.pulls[w.Number]; w.pull && p != nil {
		p.applyPast(events, err)
	} else if i := r.issues[w.Number]; !w.pull && i != nil {
		i.applyPast(events, err, w)
	}
	if err != nil {
		return fmt.Errorf("history of %s: %w", w.Ref, err)
	}
	return nil
}

func (p *pull) applyPast(events []*event, err error) {
	if err != nil {
		p.closerFailed = failure{time.Now(), p.Ended}
		return
	}
	p.closer = true
	if e := lastEvent(events, "close"); e != nil {
		p.ClosedBy = loginOf(e.User)
	}
}

func (i *issue) applyPast(events []*event, err error, w past) {
	if err != nil {
		i.history.failed = failure{time.Now(), w.of}
		return
	}
	i.history = history{of: w.of, since: w.since}
	if e := lastEvent(events, "reopen"); e != nil {
		i.Reopened = e.Created
	}
}

// timeline reads the entries from a time on. Its X-Total-Count is the number of entries on the page, and Forgejo
// filters after paging, so that any page can be short: only an empty page is the last one.
func (c *Client) timeline(ctx context.Context, w past) ([]*event, error) {
	var all []*event
	events, p := c.events(w.Ref, w.since), newPager()
	seen := known[event]{events.id, map[int64]bool{}}
	for page := 1; page <= maxPages; page++ {
		some, _, err := events.read(ctx, p, page)
		if p.full = p.size; err != nil || seen.add(some) == 0 {
			return slices.DeleteFunc(all, func(e *event) bool { return e == nil }), err
		}
		all = append(all, some...)
	}
	return nil, errEndless
}

// lastEvent returns the newest event of a kind; nil when there is none.
func lastEvent(events []*event, kind string) *event {
	var last *event
	for _, e := range events {
		if e.Type == kind && (last == nil || !e.Created.Before(last.Created)) {
			last = e
		}
	}
	return last
}
