package forgejo

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

const (
	// updateTime bounds how long Update waits for the new merge base, which the forge computes after its answer.
	updateTime = 15 * time.Second
	updateRest = 500 * time.Millisecond
)

// Update merges the base of a pull request into its branch, whose head must be headSHA. forge.ErrConflict means that
// the head is another one, or that the two conflict.
func (c *Client) Update(ctx context.Context, ref forge.Ref, headSHA string) (u forge.Updated, err error) {
	ref = c.canonical(ref)
	defer wrap(&err, "bring %s up to date", ref)
	in, x, err := c.readDetails(ctx, ref)
	if err != nil {
		return u, err
	}
	old := pullOf(ref.Repo, in, x.began)
	if headSHA == "" || old.HeadSHA != headSHA {
		return u, fmt.Errorf("%w: its head is %.10s now, not %.10s", forge.ErrConflict, old.HeadSHA, headSHA)
	}
	before, err := c.diff(ctx, ref)
	if err != nil {
		return u, err
	}
	post := c.begin(ctx)
	post.limit = mergeTime
	_, err = post.sendJSON(http.MethodPost, api+at(ref.Repo, "/pulls/%d/update", ref.Number)+"?style=merge", struct{}{})
	if err = post.wrote(err); err != nil {
		return u, err
	}
	end := time.Now().Add(updateTime)
	now, err := c.awaitPull(ctx, ref, end, func(p *forge.Pull) bool { return p.HeadSHA != headSHA })
	if err != nil {
		return u, err
	}
	u.Head, u.MergeBase = now.HeadSHA, now.MergeBase
	parents, err := c.parents(ctx, ref.Repo, u.Head)
	if err != nil || len(parents) != 2 || parents[0] != headSHA {
		return u, err
	}
	u.MergeBase = parents[1]
	now, err = c.awaitPull(ctx, ref, end, func(p *forge.Pull) bool { return p.MergeBase == u.MergeBase })
	if err != nil || now.HeadSHA != u.Head || now.MergeBase != u.MergeBase {
		return u, err
	}
	after, err := c.diff(ctx, ref)
	u.Same = err == nil && bytes.Equal(before, after)
	return u, err
}

// awaitPull reads a pull request until the forge shows it as wanted, or until end. The forge computes head and merge
// base after its answer, one after the other, and can show the merge base of a former head meanwhile.
func (c *Client) awaitPull(ctx context.Context, ref forge.Ref, end time.Time, wanted func(*forge.Pull) bool,
) (now forge.Pull, err error) {
	for {
		in, x, err := c.readDetails(ctx, ref)
		if err != nil {
			return now, err
		}
		if now = pullOf(ref.Repo, in, x.began); wanted(&now) || time.Now().After(end) {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-time.After(updateRest):
		}
	}
}

// diff returns what a pull request changes of its merge base.
func (c *Client) diff(ctx context.Context, ref forge.Ref) ([]byte, error) {
	owner, name := owner(ref.Repo)
	g, x := c.sdk(ctx)
	text, _, err := g.GetPullRequestDiff(owner, name, ref.Number, gitea.PullRequestDiffOptions{Binary: true})
	return text, x.end(err)
}

// parents returns the parents of a commit.
func (c *Client) parents(ctx context.Context, repo, sha string) (list []string, err error) {
	owner, name := owner(repo)
	g, x := c.sdk(ctx)
	in, _, err := g.GetSingleCommit(owner, name, sha)
	if err = x.end(err); err != nil {
		return nil, err
	}
	for _, p := range in.Parents {
		list = append(list, p.SHA)
	}
	return list, nil
}
