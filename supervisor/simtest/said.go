package simtest

import (
	"context"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Command posts a comment with a command by a person who may write, and returns the comment's number.
func (f *Forge) Command(n int64, login, text string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	command, ok := forge.CommandIn(text)
	if !ok {
		panic("no command: " + text)
	}
	id := int64(1000 + len(f.said))
	f.said = append(f.said, forge.Said{Ref: Ref(n), ID: id, Author: login, At: time.Now(), Command: command})
	return id
}

// Unsay deletes the comment of a command. Earlier scans still show it.
func (f *Forge) Unsay(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = slices.DeleteFunc(slices.Clone(f.said), func(s forge.Said) bool { return s.ID == id })
}

// TakeAway makes another supervisor take a command.
func (f *Forge) TakeAway(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken[id] = true
}

// Take takes a command. A supervisor may repeat it.
func (f *Forge) Take(ctx context.Context, said forge.Said) error {
	return f.call(ctx, "take", func() error {
		switch {
		case !slices.ContainsFunc(f.said, func(s forge.Said) bool { return s.ID == said.ID }):
			return forge.ErrNotFound
		case f.taken[said.ID]:
			return forge.ErrTaken
		}
		return nil
	})
}

// MayWrite allows every account except stranger.
func (f *Forge) MayWrite(ctx context.Context, _, login string) (may bool, err error) {
	err = f.call(ctx, "maywrite", func() error {
		may = login != "stranger"
		return nil
	})
	return may, err
}

func (c *client) Take(ctx context.Context, said forge.Said) error {
	return c.p.use("take", func() error { return c.f.Take(ctx, said) })
}

func (c *client) MayWrite(ctx context.Context, repo, login string) (may bool, err error) {
	err = c.p.use("maywrite", func() (err error) { may, err = c.f.MayWrite(ctx, repo, login); return err })
	return may, err
}
