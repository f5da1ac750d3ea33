package forgejo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// File creates an issue with all its labels in one request, so that no scan sees the issue without them. Without a key,
// a repeated call creates another issue.
func (c *Client) File(ctx context.Context, d forge.Draft) (forge.Ref, error) {
	ref, err := c.file(ctx, d)
	if err != nil {
		return forge.Ref{}, fmt.Errorf("cannot file an issue in %s: %w", d.Repo, err)
	}
	return ref, nil
}

func (c *Client) file(ctx context.Context, d forge.Draft) (forge.Ref, error) {
	repo := c.canonical(forge.Ref{Repo: d.Repo}).Repo
	owner, name := owner(repo)
	if d.Key != "" {
		mark, err := markOf(d.Key)
		if err != nil {
			return forge.Ref{}, err
		}
		there, err := c.filed(ctx, repo, mark, d.Since)
		if err != nil {
			return forge.Ref{}, err
		}
		if there != nil {
			ref := forge.Ref{Repo: repo, Number: there.Index}
			return ref, c.addLabels(ctx, ref, there, d.Labels)
		}
		d.Body = marked(d.Body, mark)
	}
	for attempt := 0; ; attempt++ {
		ids, err := c.labelIDs(ctx, repo, d.Labels)
		if err != nil {
			return forge.Ref{}, err
		}
		form := gitea.CreateIssueOption{Title: d.Title, Body: d.Body, Labels: ids}
		g, x := c.sdk(ctx)
		in, _, err := g.CreateIssue(owner, name, form)
		err = x.end(err)
		if errors.Is(err, forge.ErrNotFound) && len(ids) > 0 && attempt == 0 {
			c.forgetLabels(repo) // a label that we created was deleted
			continue
		}
		if err != nil {
			return forge.Ref{}, err
		}
		ref := forge.Ref{Repo: repo, Number: in.Index}
		return ref, c.addLabels(ctx, ref, in, d.Labels) // adds the labels that the forge dropped silently
	}
}

// filed returns the issue of our account, open or closed, whose text ends with a mark and that changed since a time. It
// is nil without one. filed reads the list itself: the forge's search finds new issues only when its index has them.
func (c *Client) filed(ctx context.Context, repo, mark string, since time.Time) (*gitea.Issue, error) {
	me, err := c.me(ctx)
	if err != nil {
		return nil, err
	}
	own := c.issues(repo, gitea.ListIssueOption{
		State: gitea.StateAll, Type: gitea.IssueTypeIssue, CreatedBy: me, Since: since,
	})
	own.slim = nil
	all, _, err := own.all(ctx)
	for _, in := range all {
		if in != nil && loginOf(in.Poster) == me && strings.HasSuffix(strings.TrimSpace(in.Body), mark) {
			return in, err
		}
	}
	return nil, err
}

// Depend makes an issue wait for another one, which can be in another repository. It can be repeated.
func (c *Client) Depend(ctx context.Context, ref, on forge.Ref) (err error) {
	ref, on = c.canonical(ref), c.canonical(on)
	defer wrap(&err, "make %s depend on %s", ref, on)
	err = c.depend(ctx, ref, on)
	if err == nil || errors.Is(err, forge.ErrNotFound) || errors.Is(err, forge.ErrForbidden) || ctx.Err() != nil {
		return err
	}
	// Forgejo answers 500 when the dependency already exists.
	now, again := c.Blockers(ctx, ref)
	there := func(b forge.Blocker) bool { return b.Ref == on && !b.InBody }
	if again == nil && slices.ContainsFunc(now, there) {
		return nil
	}
	return err
}

// Blockers re-reads an issue's blockers: the forge's dependencies with their states, and the references in its text,
// with their states from the cache.
func (c *Client) Blockers(ctx context.Context, ref forge.Ref) (all []forge.Blocker, err error) {
	ref = c.canonical(ref)
	defer wrap(&err, "read the dependencies of %s", ref)
	in, err := c.getIssue(ctx, ref)
	if err != nil {
		return nil, err
	}
	native, _, err := c.dependencies(ref).all(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, dep := range native {
		all = append(all, c.blockerOf(dep))
	}
	for _, on := range c.mentionedIn(forge.Issue{Ref: ref, Body: in.Body}) {
		if !slices.ContainsFunc(all, func(b forge.Blocker) bool { return b.Ref == on }) {
			all = append(all, forge.Blocker{Ref: on, State: c.blockerState(on), InBody: true})
		}
	}
	slices.SortFunc(all, compareBlockers)
	return all, nil
}

// blockerOf converts an entry of a list of dependencies. applyDependencies describes hidden entries.
func (c *Client) blockerOf(dep *gitea.Issue) forge.Blocker {
	if dep == nil || dep.Repository == nil {
		return forge.Blocker{State: forge.BlockerUnreadable}
	}
	ref := c.canonical(forge.Ref{Repo: dep.Repository.FullName, Number: dep.Index})
	b := forge.Blocker{Ref: ref, State: forge.BlockerOpen}
	switch {
	case dep.Created.Unix() <= 0:
		b.State = forge.BlockerUnreadable
	case dep.State == gitea.StateClosed:
		b.State = c.closedState(b.Ref, labelNames(dep.Labels), dep.PullRequest)
	}
	return b
}
