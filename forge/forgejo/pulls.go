package forgejo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// reading says which parts of a pull request must be read.
type reading struct {
	number                     int64
	details, reviews, statuses bool
	commits, past              bool // see authors
	head                       string
	only                       forge.Ref // if set: reviews and statuses are read only if the details name this issue
	ended                      bool      // read the reviews even if it is closed, for people; a scan needs none
}

// readPulls reads the pull requests that changed, those with unknown parts that no list of changes shows, and the one
// that was read longest ago.
func (c *Client) readPulls(ctx context.Context, r *repo) error {
	now := time.Now()
	c.mu.Lock()
	work := c.pullWork(r, now)
	c.mu.Unlock()
	err := inParallel(ctx, len(work), func(ctx context.Context, n int) error {
		return c.readPull(ctx, r, work[n])
	})
	if isOutage(err) {
		return err
	}
	c.mu.Lock()
	bases, chore := r.newBases(), r.nextChore(now)
	c.mu.Unlock()
	if len(bases) == 0 && chore.base != "" {
		bases = []string{chore.base}
	}
	unread := inParallel(ctx, len(bases), func(ctx context.Context, n int) error {
		return c.readBase(ctx, r, bases[n])
	})
	if unread == nil && chore.base == "" && chore.number != 0 {
		unread = c.readPull(ctx, r, chore.reading)
	}
	if isOutage(unread) {
		return unread
	}
	red := c.readTips(ctx, r)
	if isOutage(red) {
		return red
	}
	return errors.Join(err, unread, red)
}

// pullWork lists what must be read now, sorted by number. An open pull request that changed is read completely. After
// a failure a pull request waits for its retry.
func (c *Client) pullWork(r *repo, now time.Time) []reading {
	var work []reading
	for n, p := range r.pulls {
		w := reading{number: n, head: p.HeadSHA}
		switch {
		case p.resting(now):
		case p.Closed:
			w.details = p.Head == ""
		case p.readAt.Before(p.Updated.Add(granularity)):
			w.details = p.detailsFrom.Before(p.Updated.Add(granularity)) // else the list of a cold scan contained the details
			w.reviews, w.statuses, w.commits = true, true, true
		default:
			w.commits = c.commitsKey(r, p) != p.authors.of
			w.details = r.mergeabilityDue(p, now)
			w.statuses = r.statusDue(p, now)
		}
		if w.details || w.reviews || w.statuses || w.commits {
			work = append(work, w)
		}
	}
	slices.SortFunc(work, func(a, b reading) int { return int(a.number - b.number) })
	return work
}

// resting reports whether p still waits for its retry after a failed reading. An ended pull request waits longer.
func (p *pull) resting(now time.Time) bool {
	wait := pollEvery
	if p.Closed {
		wait = settledEvery
	}
	return p.failed && now.Sub(p.tried) < wait
}

// mergeabilityDue reports whether the mergeability of p must be read again. It is read more often right after a
// change: Forgejo needs a second or two to compute it, and the merge queue waits for it.
func (r *repo) mergeabilityDue(p *pull, now time.Time) bool {
	if p.Draft {
		return false
	}
	b := r.bases[p.Base]
	if b != nil && b.sha == p.baseSHA && (p.clean || r.mergeable(p) == forge.MergeNotClean) {
		return p.clean && p.lateCheckDue(now)
	}
	if b != nil && b.sha != p.baseSHA && !p.detailsAt.After(b.moved) {
		return true
	}
	wait := min(max(p.detailsAt.Sub(p.ConflictSince)/2, 2*time.Second), pollEvery)
	return now.Sub(p.detailsAt) >= wait
}

// lateCheckDue reports whether "mergeable" has to be read again because head or base has moved shortly before: 2, 6,
// 18 and 54 seconds later. Without these checks, a conflict with a merge was noticed up to settledEvery later.
func (p *pull) lateCheckDue(now time.Time) bool {
	known := p.detailsAt.Sub(p.moved)
	return !p.moved.IsZero() && known < lateCheck && now.Sub(p.moved) >= max(3*known, 2*time.Second)
}

// statusDue reports whether the head's checks must be read again: some are pending, or a new head has no checks yet.
func (r *repo) statusDue(p *pull, now time.Time) bool {
	if p.Draft || now.Sub(p.statusAt) < pollEvery {
		return false
	}
	ci := r.ci(p)
	return ci == forge.CIPending || ci == forge.CINone && now.Sub(p.headSeen) < youngHead+pollEvery
}

// newBases returns the base branches of open pull requests that were never read, and those that a merge moved, where
// there are checks: the merge may have made them red.
func (r *repo) newBases() []string {
	var names []string
	for _, p := range r.pulls {
		if b := r.bases[p.Base]; !p.Closed && p.Base != "" && (b == nil || b.readAt.IsZero()) {
			names = append(names, p.Base)
		}
	}
	for name, b := range r.bases {
		if b.sha == "" && b.moved.After(b.readAt) && r.hasChecks() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// chore is a refresh of a settled pull request or of a base branch.
type chore struct {
	reading
	base string
	due  time.Time
}

// nextChore returns the most overdue chore; the zero chore when none is due. One chore per scan keeps the cost of an
// unchanged repository at two requests, however many pull requests are open.
func (r *repo) nextChore(now time.Time) chore {
	var best chore
	offer := func(c chore) {
		if c.due.Before(now) && (best.due.IsZero() || c.due.Before(best.due)) {
			best = c
		}
	}
	used := map[string]bool{}
	for n, p := range r.pulls {
		if p.Closed || p.readAt.IsZero() || p.resting(now) {
			continue
		}
		used[p.Base] = true
		offer(chore{reading: reading{number: n, details: true}, due: p.detailsAt.Add(settledEvery)})
		offer(chore{reading: reading{number: n, statuses: true, head: p.HeadSHA}, due: p.statusAt.Add(settledEvery)})
	}
	for name, b := range r.bases {
		if used[name] {
			offer(chore{base: name, due: b.readAt.Add(baseEvery)})
		}
	}
	return best
}

// readPull does one reading. It drops a pull request that is gone. If it reads the details, it reads the statuses of
// the head in them.
func (c *Client) readPull(ctx context.Context, r *repo, w reading) (err error) {
	ref := forge.Ref{Repo: r.name, Number: w.number}
	whole := w.reviews && w.statuses
	defer func() {
		if err != nil && !isOutage(err) {
			err = fmt.Errorf("%s: %w", ref, err)
		}
		c.noteRead(r, w.number, whole, err)
	}()
	if w.details {
		in, x, err := c.readDetails(ctx, ref)
		if errors.Is(err, forge.ErrNotFound) {
			c.mu.Lock()
			delete(r.pulls, w.number)
			c.mu.Unlock()
			return nil
		}
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.applyDetails(r, in, x)
		c.mu.Unlock()
		w.head = headOf(in)
		if in.State == gitea.StateClosed {
			if !w.ended || !w.only.IsZero() && !c.isFor(r, w) {
				return nil
			}
			w.statuses, w.commits, w.past = false, false, false // its branch may be gone
		}
		if !w.only.IsZero() && !c.isFor(r, w) {
			whole = false
			return nil
		}
	}
	return c.readChecks(ctx, r, w)
}

// isFor reports whether the cached pull request is for the issue w.only.
func (c *Client) isFor(r *repo, w reading) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := r.pulls[w.number]
	return p != nil && slices.Contains(p.Closes, w.only)
}

// noteRead records a reading. A whole reading, with reviews and statuses, settles the pull request up to the time of
// the details, which were read first.
func (c *Client) noteRead(r *repo, number int64, whole bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := r.pulls[number]
	if p == nil || isOutage(err) {
		return
	}
	p.tried, p.failed = time.Now(), err != nil
	if whole && err == nil {
		p.readAt = p.detailsFrom
	}
}

func headOf(in *gitea.PullRequest) string {
	if in.Head == nil {
		return ""
	}
	return in.Head.Sha
}

// readDetails reads the pull request itself. Forgejo answers null when it cannot open one of its repositories.
func (c *Client) readDetails(ctx context.Context, ref forge.Ref) (*gitea.PullRequest, *exchange, error) {
	in, x, err := c.connection.pull(ctx, ref)
	if err == nil && (in == nil || in.Index != ref.Number) {
		err = errors.New("the forge cannot load this pull request")
	}
	return in, x, err
}

// readChecks reads reviews, statuses and the accounts behind the commits concurrently. It stores reviews and statuses
// only if all of them were read.
func (c *Client) readChecks(ctx context.Context, r *repo, w reading) error {
	var reviews []*gitea.PullReview
	var statuses []*gitea.Status
	var x *exchange
	parts := make([]func(context.Context) error, 0, 4)
	if w.commits {
		parts = append(parts, func(ctx context.Context) error { return c.readCommits(ctx, r, w.number) })
	}
	parts = append(parts, func(ctx context.Context) error { return c.readPast(ctx, r, w.number, w.past) })
	if w.reviews {
		parts = append(parts, func(ctx context.Context) (err error) {
			reviews, _, err = c.reviews(forge.Ref{Repo: r.name, Number: w.number}).all(ctx)
			return err
		})
	}
	if w.statuses = w.statuses && w.head != ""; w.statuses {
		parts = append(parts, func(ctx context.Context) (err error) {
			// The combined status is not an alternative: it has at most 30 contexts.
			owner, name := owner(r.name)
			id := func(in *gitea.Status) int64 { return in.ID }
			statuses, x, err = newList(c.connection, id, func(
				g *gitea.Client, page gitea.ListOptions,
			) ([]*gitea.Status, *gitea.Response, error) {
				return g.ListStatuses(owner, name, w.head, gitea.ListStatusesOption{ListOptions: page})
			}).all(ctx)
			return err
		})
	}
	err := inParallel(ctx, len(parts), func(ctx context.Context, n int) error { return parts[n](ctx) })
	if err != nil {
		return err
	}
	c.update(r, w.number, func(p *pull) {
		if w.reviews {
			p.Reviews = reviewsOf(reviews)
		}
		if w.statuses && p.HeadSHA == w.head {
			p.statuses, p.CISince = statusesOf(statuses)
			p.statusAt = x.began
		}
	})
	return nil
}

func (c *Client) update(r *repo, number int64, change func(*pull)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := r.pulls[number]; p != nil {
		change(p)
	}
}

// readBase reads a base branch: its commit and required checks. Every writer can read the branch; only administrators
// can read its protection. A branch that is gone requires no checks.
func (c *Client) readBase(ctx context.Context, r *repo, branch string) error {
	owner, name := owner(r.name)
	g, x := c.sdk(ctx)
	in, _, err := g.GetRepoBranch(owner, name, branch)
	err = x.end(err)
	if errors.Is(err, forge.ErrNotFound) {
		in, err = &gitea.Branch{}, nil
	}
	if err != nil {
		if isOutage(err) {
			return err
		}
		return fmt.Errorf("%s: branch %s: %w", r.name, branch, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := r.bases[branch]
	if b == nil {
		b = &base{}
		r.bases[branch] = b
	}
	b.required, b.readAt = nil, x.began
	if in.EnableStatusCheck {
		b.required = in.StatusCheckContexts
	}
	if in.Commit != nil {
		b.sha = in.Commit.ID
	}
	return nil
}
