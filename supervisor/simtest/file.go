package simtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// File makes an issue with its labels.
func (f *Forge) File(ctx context.Context, d forge.Draft) (ref forge.Ref, err error) {
	err = f.call(ctx, "file", func() error {
		f.last++
		ref = Ref(f.last)
		labels := slices.Clone(d.Labels)
		slices.Sort(labels)
		f.issues[f.last] = &forge.Issue{
			Ref: ref, Title: d.Title, Body: d.Body, Author: "disinto", Labels: labels,
			Created: time.Now(), Updated: time.Now(), BlockersKnown: true,
		}
		f.wrote("file %s", ref.Short())
		return nil
	})
	return ref, err
}

// Depend makes an issue wait for another.
func (f *Forge) Depend(ctx context.Context, ref, on forge.Ref) error {
	return f.call(ctx, "depend", func() error {
		is := f.issues[ref.Number]
		if is == nil || f.issues[on.Number] == nil {
			return forge.ErrNotFound
		}
		if !slices.ContainsFunc(is.Blockers, func(b forge.Blocker) bool { return b.Ref == on }) {
			is.Blockers = append(slices.Clone(is.Blockers), forge.Blocker{Ref: on})
			slices.SortFunc(is.Blockers, func(a, b forge.Blocker) int { return a.Ref.Compare(b.Ref) })
			is.Updated = time.Now()
			f.wrote("depend %s %s", ref.Short(), on.Short())
		}
		return nil
	})
}

// Blockers returns the issues that an issue waits for.
func (f *Forge) Blockers(ctx context.Context, ref forge.Ref) (all []forge.Blocker, err error) {
	err = f.call(ctx, "blockers", func() error {
		is := f.issues[ref.Number]
		if is == nil {
			return forge.ErrNotFound
		}
		all = f.statesLocked(is.Blockers)
		return nil
	})
	return all, err
}

// statesLocked fills in the current states of blockers.
func (f *Forge) statesLocked(blockers []forge.Blocker) []forge.Blocker {
	list := slices.Clone(blockers)
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
	return list
}

// keptOpenLocked returns the forge's refusal to close an issue with open dependencies, or nil.
func (f *Forge) keptOpenLocked(is *forge.Issue) error {
	for _, b := range f.statesLocked(is.Blockers) {
		if b.State == forge.BlockerOpen {
			return fmt.Errorf("cannot close %s, %s is open: %w", is.Short(), b.Short(), forge.ErrConflict)
		}
	}
	return nil
}

func (c *client) File(ctx context.Context, d forge.Draft) (ref forge.Ref, err error) {
	err = c.p.use("file", func() (err error) { ref, err = c.f.File(ctx, d); return err })
	return ref, err
}

func (c *client) Depend(ctx context.Context, ref, on forge.Ref) error {
	return c.p.use("depend", func() error { return c.f.Depend(ctx, ref, on) })
}

func (c *client) Blockers(ctx context.Context, ref forge.Ref) (all []forge.Blocker, err error) {
	err = c.p.use("blockers", func() (err error) { all, err = c.f.Blockers(ctx, ref); return err })
	return all, err
}
