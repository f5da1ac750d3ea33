package forgejo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// FetchItem re-reads one item and updates the cache. since is the start of the session on the item, by our clock:
// comments since then are counted, and pull requests that changed since then are found even if no scan has seen them.
// The zero time means the time at which the item was filed.
func (c *Client) FetchItem(ctx context.Context, ref forge.Ref, since time.Time) (forge.ItemFacts, error) {
	ref = c.canonical(ref)
	look, err := c.fetchItem(withSlots(ctx), ref, since)
	if err != nil {
		return forge.ItemFacts{}, fmt.Errorf("cannot look at %s: %w", ref, err)
	}
	return look, nil
}

func (c *Client) fetchItem(ctx context.Context, ref forge.Ref, since time.Time) (forge.ItemFacts, error) {
	in, x, err := c.askIssue(ctx, ref)
	if err != nil {
		return forge.ItemFacts{}, err
	}
	if since.IsZero() {
		since = in.Created
	} else { // convert to the forge's clock
		since = since.Add(x.forgeBegan().Sub(x.began)).Truncate(granularity)
	}
	r := c.repo(ref.Repo)
	if r == nil {
		r = newRepo(ref.Repo) // not scanned: this call uses its own cache
	}
	if in.PullRequest == nil {
		c.mu.Lock()
		c.applyIssue(r, issueOf(r.name, in, x.began), true)
		c.mu.Unlock()
	}
	look, err := c.lookAround(ctx, r, in, ref, since)
	if err != nil || in.PullRequest != nil {
		return look, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := r.issues[ref.Number]; i != nil {
		fact := c.issueFact(r, i, c.ends()[ref])
		look.Issue = &fact
	}
	return look, nil
}

// lookAround reads everything about an item concurrently: each answer of a slow forge takes seconds, and the session's
// slot waits.
func (c *Client) lookAround(
	ctx context.Context, r *repo, in *gitea.Issue, ref forge.Ref, since time.Time,
) (look forge.ItemFacts, err error) {
	parts := []func(context.Context) error{
		func(ctx context.Context) (err error) {
			look.Comments, err = c.countComments(ctx, ref, since)
			return err
		},
		func(ctx context.Context) error { return c.lookHolder(ctx, ref, in) },
		func(ctx context.Context) (err error) {
			if in.PullRequest != nil {
				look.Pull, err = c.lookPull(ctx, r, ref.Number, forge.Ref{})
			} else {
				look.Pulls, err = c.lookPulls(ctx, r, ref, since, in.State == gitea.StateClosed)
			}
			return err
		},
	}
	err = inParallel(ctx, len(parts), func(ctx context.Context, n int) error { return parts[n](ctx) })
	return look, err
}

// countComments counts the comments since a time by the forge's clock, by login.
func (c *Client) countComments(ctx context.Context, ref forge.Ref, since time.Time) (map[string]int, error) {
	all, _, err := c.comments(ref, since).all(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, one := range all {
		if one != nil && !one.Created.Before(since) { // the list also contains older comments that were edited since
			counts[loginOf(one.Poster)]++
		}
	}
	return counts, nil
}

// lookTries is how often a look re-reads a pull request because a concurrent scan overtook it: the scan's list was
// newer, so the look's reading was dropped, but the list lacks the branches.
const lookTries = 5

// lookPull reads one pull request with reviews, statuses and commits. If only is set and the pull request is not for
// that issue, it reads nothing but the details. If only is zero, it also reads who pushed and when the base changed.
func (c *Client) lookPull(ctx context.Context, r *repo, number int64, only forge.Ref) (*forge.Pull, error) {
	asked := time.Now()
	for try := 0; ; try++ {
		w := reading{
			number: number, details: true, reviews: true, statuses: true, commits: true, past: only.IsZero(), only: only,
			ended: true,
		}
		if err := c.readPull(ctx, r, w); err != nil {
			return nil, err
		}
		c.mu.Lock()
		p := r.pulls[number]
		taken := p != nil && !p.detailsAt.Before(asked)
		c.mu.Unlock()
		switch {
		case p == nil:
			return nil, forge.ErrNotFound
		case taken && !only.IsZero() && !c.isFor(r, w):
			return nil, forge.ErrNotFound
		case taken:
			return c.lookBase(ctx, r, p)
		case try == lookTries:
			return nil, fmt.Errorf("%w: %s#%d changes faster than it can be read", forge.ErrUnavailable, r.name, number)
		}
	}
}

// lookBase returns p as a fact, and reads its base branch if it was never read.
func (c *Client) lookBase(ctx context.Context, r *repo, p *pull) (*forge.Pull, error) {
	c.mu.Lock()
	branch, b := p.Base, r.bases[p.Base]
	unread := !p.Closed && branch != "" && (b == nil || b.readAt.IsZero())
	c.mu.Unlock()
	if unread {
		if err := c.readBase(ctx, r, branch); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fact := c.pullFact(r, p)
	return &fact, nil
}

// lookPulls reads every pull request for an issue: those in the cache, those that changed since a time, and for a
// closed issue those that its timeline names. The cache has an open issue's pull requests, but not those of an issue
// that was closed before this client started or longer ago than keepEnded.
func (c *Client) lookPulls(
	ctx context.Context, r *repo, ref forge.Ref, since time.Time, closed bool,
) ([]forge.Pull, error) {
	changed, _, err := c.issues(r.name, gitea.ListIssueOption{
		State: gitea.StateAll, Type: gitea.IssueTypePull, Since: since.Add(-overlap),
	}).all(ctx)
	if err != nil {
		return nil, err
	}
	numbers := map[int64]bool{}
	if closed {
		events, err := c.timeline(ctx, past{Ref: ref})
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			in := e.RefIssue
			if e.Type != "pull_ref" || in == nil || in.Index <= 0 || in.Repository == nil {
				continue
			}
			if strings.EqualFold(in.Repository.FullName, r.name) {
				numbers[in.Index] = true
			}
		}
	}
	c.mu.Lock()
	for n, p := range r.pulls {
		if slices.Contains(p.Closes, ref) {
			numbers[n] = true
		}
	}
	for _, in := range changed {
		if in != nil && in.PullRequest != nil && c.mayClose(r, in, ref) {
			numbers[in.Index] = true
		}
	}
	c.mu.Unlock()
	all := slices.Sorted(maps.Keys(numbers))
	read := make([]*forge.Pull, len(all))
	err = inParallel(ctx, len(all), func(ctx context.Context, n int) (err error) {
		if read[n], err = c.lookPull(ctx, r, all[n], ref); errors.Is(err, forge.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var pulls []forge.Pull
	for _, p := range read {
		if p != nil && slices.Contains(p.Closes, ref) {
			pulls = append(pulls, *p)
		}
	}
	return pulls, nil
}

// mayClose reports whether a listed pull request can be for ref: its branch or text names ref, or its branch is
// unknown.
func (c *Client) mayClose(r *repo, in *gitea.Issue, ref forge.Ref) bool {
	if p := r.pulls[in.Index]; p != nil && p.Head != "" {
		return slices.Contains(forge.Closes(p.Head, in.Title, in.Body, r.name), ref)
	}
	return true
}
