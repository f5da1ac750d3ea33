package simtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// us is the account of every supervisor.
const us = "disinto"

func (f *Forge) wrote(format string, args ...any) {
	f.writes = append(f.writes, fmt.Sprintf(format, args...))
}

// Label adds and removes labels.
func (c *client) Label(ctx context.Context, ref forge.Ref, add, remove []string) error {
	return c.do(ctx, "label", func() error {
		f := c.f
		it, err := f.itemLocked(ref)
		if err != nil {
			return err
		}
		if slices.Contains(remove, forge.LabelBacklog) {
			return fmt.Errorf("cannot remove the label backlog of %s", ref.Short())
		}
		for _, l := range add {
			if l == forge.LabelPlanApproved && !slices.Contains(*it.labels, l) {
				f.approved[ref.Number] = us
			}
			it.label(with(*it.labels, l))
			f.wrote("label %s %s", ref.Short(), l)
		}
		for _, l := range remove {
			it.label(without(*it.labels, l))
			f.wrote("unlabel %s %s", ref.Short(), l)
		}
		return nil
	})
}

// SetComment creates or changes the one comment with a key.
func (c *client) SetComment(ctx context.Context, ref forge.Ref, key, body string) error {
	return c.do(ctx, "keep", func() error {
		if _, err := c.f.itemLocked(ref); err != nil {
			return err
		}
		c.f.kept[ref.Short()+" "+key] = body
		c.f.keeps++
		return nil
	})
}

// CommentsSet returns the comments of SetComment, by item and key, and the number of calls of it.
func (f *Forge) CommentsSet() (kept map[string]string, calls int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.kept), f.keeps
}

// Comment writes one comment per key.
func (c *client) Comment(ctx context.Context, ref forge.Ref, key, body string) error {
	return c.do(ctx, "comment", func() error {
		f := c.f
		if _, err := f.itemLocked(ref); err != nil {
			return err
		}
		for _, c := range f.comments {
			if c.Ref == ref && c.Key == key {
				return nil
			}
		}
		f.comments = append(f.comments, Comment{ref, key, body, time.Now()})
		if forge.IsTalkKey(key) {
			f.remarkLocked(ref.Number, us, key)
		}
		f.wrote("comment %s %s", ref.Short(), key)
		return nil
	})
}

// Close closes an issue or pull request.
func (c *client) Close(ctx context.Context, ref forge.Ref) error {
	return c.do(ctx, "close", func() error {
		f := c.f
		if p := f.pulls[ref.Number]; p != nil {
			if !p.Closed {
				p.Closed, p.Ended, p.ClosedBy, p.Updated = true, time.Now(), us, time.Now()
			}
			f.wrote("close %s", ref.Short())
			return nil
		}
		is := f.issues[ref.Number]
		if is == nil {
			return missing(ref)
		}
		for _, b := range f.blockersLocked(is) {
			if b.State == forge.BlockerOpen {
				return fmt.Errorf("cannot close %s, %s is open: %w", ref.Short(), b.Short(), forge.ErrConflict)
			}
		}
		closeIssue(is)
		f.wrote("close %s", ref.Short())
		return nil
	})
}

func closeIssue(is *forge.Issue) {
	if !is.Closed {
		is.Closed, is.Updated, is.Ended = true, time.Now(), time.Now()
	}
}

// Merge merges a pull request, and closes its issues.
func (c *client) Merge(ctx context.Context, ref forge.Ref, headSHA, base string) error {
	return c.do(ctx, "merge", func() error {
		p := c.f.pulls[ref.Number]
		switch {
		case p == nil:
			return missing(ref)
		case p.Merged:
			return nil
		case p.Closed, p.HeadSHA != headSHA, p.Base != base, p.Draft, p.Mergeable != forge.MergeClean:
			return fmt.Errorf("cannot merge %s: %w", ref.Short(), forge.ErrConflict)
		case c.f.strict && p.MergeBase != c.f.tipLocked(ref.Repo):
			return &forge.Refusal{Cause: forge.RefusedOutdated, Words: "The head branch is behind the base branch"}
		}
		c.f.moveLocked(ref.Repo, ref)
		if isRevert(p) {
			delete(c.f.mainLocked(ref.Repo).reds, c.f.tipLocked(ref.Repo))
		}
		p.Merged, p.Closed, p.Ended, p.Updated = true, true, time.Now(), time.Now()
		for _, ref := range p.Closes {
			if is := c.f.issues[ref.Number]; is != nil {
				closeIssue(is)
			}
		}
		c.f.wrote("merge %s", ref.Short())
		return nil
	})
}

// Update merges main into a pull request.
func (c *client) Update(ctx context.Context, ref forge.Ref, headSHA string) (now forge.Updated, err error) {
	err = c.do(ctx, "update", func() error {
		p := c.f.pulls[ref.Number]
		if p == nil || p.HeadSHA != headSHA {
			return fmt.Errorf("cannot update %s: %w", ref.Short(), forge.ErrConflict)
		}
		c.f.pushLocked(p)
		p.MergeBase = c.f.tipLocked(ref.Repo)
		now = forge.Updated{Head: p.HeadSHA, MergeBase: p.MergeBase, Same: !c.f.overlaps}
		c.f.wrote("update %s", ref.Short())
		return nil
	})
	return now, err
}

// File makes an issue with its labels.
func (c *client) File(ctx context.Context, d forge.Draft) (ref forge.Ref, err error) {
	err = c.do(ctx, "file", func() error {
		f := c.f
		if !slices.Contains(f.Repos, d.Repo) {
			return fmt.Errorf("cannot file an issue in %s: %w", d.Repo, forge.ErrNotFound)
		}
		mark := "<!-- disinto:" + d.Key + " -->"
		for _, is := range f.issues {
			if d.Key != "" && strings.HasSuffix(is.Body, mark) {
				ref = is.Ref
				return nil
			}
		}
		if d.Key != "" {
			d.Body += "\n\n" + mark
		}
		f.last++
		ref = forge.Ref{Repo: d.Repo, Number: f.last}
		labels := slices.Clone(d.Labels)
		slices.Sort(labels)
		f.issues[f.last] = &forge.Issue{
			Ref: ref, Title: d.Title, Body: d.Body, Author: us, Labels: labels,
			Created: time.Now(), Updated: time.Now(), BlockersKnown: true,
		}
		f.wrote("file %s", ref.Short())
		return nil
	})
	return ref, err
}

// Depend makes an issue wait for another.
func (c *client) Depend(ctx context.Context, ref, on forge.Ref) error {
	return c.do(ctx, "depend", func() error {
		is := c.f.issues[ref.Number]
		if is == nil || c.f.issues[on.Number] == nil {
			return missing(ref)
		}
		if !slices.ContainsFunc(is.Blockers, func(b forge.Blocker) bool { return b.Ref == on }) {
			is.Blockers = append(slices.Clone(is.Blockers), forge.Blocker{Ref: on})
			is.Updated = time.Now()
			c.f.wrote("depend %s %s", ref.Short(), on.Short())
		}
		return nil
	})
}

// Blockers returns the issues that an issue waits for.
func (c *client) Blockers(ctx context.Context, ref forge.Ref) (all []forge.Blocker, err error) {
	err = c.do(ctx, "blockers", func() error {
		is := c.f.issues[ref.Number]
		if is == nil {
			return missing(ref)
		}
		all = c.f.blockersLocked(is)
		return nil
	})
	return all, err
}

// blockersLocked returns an issue's dependencies and the references in its text, with their current states.
func (f *Forge) blockersLocked(is *forge.Issue) []forge.Blocker {
	list := slices.Clone(is.Blockers)
	for _, ref := range forge.Dependencies(is.Body, is.Ref) {
		if !slices.ContainsFunc(list, func(b forge.Blocker) bool { return b.Ref == ref }) {
			list = append(list, forge.Blocker{Ref: ref, InBody: true})
		}
	}
	for i := range list {
		b := f.issues[list[i].Number]
		switch {
		case b == nil:
			list[i].State = forge.BlockerMissing
		case !b.Closed:
			list[i].State = forge.BlockerOpen
		case b.Has(forge.LabelCancelled):
			list[i].State = forge.BlockerCancelled
		default:
			list[i].State = forge.BlockerClosed
		}
	}
	slices.SortFunc(list, func(a, b forge.Blocker) int { return a.Ref.Compare(b.Ref) })
	return list
}

// with and without return new lists: facts that were handed out must not change.
func with(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	list = append(slices.Clone(list), s)
	slices.Sort(list)
	return list
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(o string) bool { return strings.EqualFold(o, s) })
}
