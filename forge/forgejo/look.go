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

// Look reads one item afresh, into the cache too. since is the start of the session on it, by our clock: comments from
// then on are counted, and pull requests that changed from then on are found although no scan has seen them. The zero
// time means since the item was filed.
func (c *Client) Look(ctx context.Context, ref forge.Ref, since time.Time) (forge.Look, error) {
	ref = c.canonical(ref)
	look, err := c.look(ctx, ref, since)
	if err != nil {
		return forge.Look{}, fmt.Errorf("cannot look at %s: %w", ref, err)
	}
	return look, nil
}

func (c *Client) look(ctx context.Context, ref forge.Ref, since time.Time) (forge.Look, error) {
	in, x, err := c.askIssue(ctx, ref)
	if err != nil {
		return forge.Look{}, err
	}
	if since.IsZero() {
		since = in.Created
	} else { // by the forge's clock, like its times
		since = since.Add(x.forgeBegan().Sub(x.began)).Truncate(granularity)
	}
	r := c.repo(ref.Repo)
	if r == nil {
		r = newRepo(ref.Repo) // not scanned: a cache for this call
	}
	var look forge.Look
	if look.Comments, err = c.countComments(ctx, ref, since); err != nil {
		return look, err
	}
	if err := c.lookHolder(ctx, ref, in); err != nil {
		return look, err
	}
	if in.PullRequest != nil {
		look.Pull, err = c.lookPull(ctx, r, ref.Number)
		return look, err
	}
	c.mu.Lock()
	c.applyIssue(r, issueOf(r.name, in, x.began), true)
	c.mu.Unlock()
	if look.Pulls, err = c.lookPulls(ctx, r, ref, since); err != nil {
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

// countComments counts the comments since a time of the forge's clock, by account.
func (c *Client) countComments(ctx context.Context, ref forge.Ref, since time.Time) (map[string]int, error) {
	path := at(ref.Repo, "/issues/%d/comments?since=%s", ref.Number, stamp(since))
	all, _, err := list[*gitea.Comment](ctx, c, path)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, one := range all {
		if one != nil && !one.Created.Before(since) { // the list includes older ones that were edited since
			counts[loginOf(one.Poster)]++
		}
	}
	return counts, nil
}

// lookTries is how often a look repeats a reading that the list of a concurrent scan overtook: the list is newer, so
// that the reading was dropped, but lacks the branches.
const lookTries = 5

// lookPull reads one pull request with reviews and statuses.
func (c *Client) lookPull(ctx context.Context, r *repo, number int64) (*forge.Pull, error) {
	asked := time.Now()
	for try := 0; ; try++ {
		if err := c.readPull(ctx, r, reading{number: number, details: true, reviews: true, statuses: true}); err != nil {
			return nil, err
		}
		c.mu.Lock()
		p := r.pulls[number]
		taken := p != nil && !p.detailsAt.Before(asked)
		c.mu.Unlock()
		switch {
		case p == nil:
			return nil, forge.ErrNotFound
		case taken:
			return c.lookBase(ctx, r, p)
		case try == lookTries:
			return nil, fmt.Errorf("%w: %s#%d changes faster than it can be read", forge.ErrUnavailable, r.name, number)
		}
	}
}

// lookBase returns p as a fact, with its base branch read.
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

// lookPulls reads every pull request for an issue: those in the cache, and those that changed since a time.
func (c *Client) lookPulls(ctx context.Context, r *repo, ref forge.Ref, since time.Time) ([]forge.Pull, error) {
	changed, _, err := list[*gitea.Issue](ctx, c, changesOf(r.name, since.Add(-overlap))+"&type=pulls")
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	numbers := map[int64]bool{}
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
	var pulls []forge.Pull
	for n := range numbers {
		p, err := c.lookPull(ctx, r, n)
		if errors.Is(err, forge.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains(p.Closes, ref) {
			pulls = append(pulls, *p)
		}
	}
	slices.SortFunc(pulls, func(a, b forge.Pull) int { return a.Ref.Compare(b.Ref) })
	return pulls, nil
}

// mayClose reports whether a listed pull request can be for ref: its text names it, or its branch is unknown.
func (c *Client) mayClose(r *repo, in *gitea.Issue, ref forge.Ref) bool {
	if p := r.pulls[in.Index]; p != nil && p.Head != "" {
		return slices.Contains(forge.Closes(p.Head, in.Title, in.Body, r.name), ref)
	}
	return true
}
