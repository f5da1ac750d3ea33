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
	said := forge.CommandComment{Ref: f.refLocked(n), ID: id, Author: login, At: time.Now(), Command: command}
	f.said = append(f.said, said)
	return id
}

// Unsay deletes the comment of a command. Earlier scans still show it.
func (f *Forge) Unsay(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = slices.DeleteFunc(slices.Clone(f.said), func(s forge.CommandComment) bool { return s.ID == id })
}

// TakeAway makes another supervisor take a command.
func (f *Forge) TakeAway(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken[id] = "another"
}

// ClaimCommand takes a command. A supervisor may repeat it.
func (c *client) ClaimCommand(ctx context.Context, said forge.CommandComment) error {
	return c.do(ctx, "take", func() error {
		there := slices.ContainsFunc(c.f.said, func(s forge.CommandComment) bool {
			return s.ID == said.ID && s.Author == said.Author && s.Command.Equal(said.Command)
		})
		switch by := c.f.taken[said.ID]; {
		case !there:
			return forge.ErrNotFound
		case by != "" && by != c.instance():
			return forge.ErrTaken
		}
		c.f.taken[said.ID] = c.instance()
		return nil
	})
}

// Hesitate makes people confirm no command, until stop is called.
func (f *Forge) Hesitate() (stop func()) {
	set := func(to bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hesitant = to
	}
	set(true)
	return func() { set(false) }
}

// Confirmed reports that a person confirms a command as soon as the supervisor asks.
func (c *client) Confirmed(ctx context.Context, said forge.CommandComment) (confirmed bool, err error) {
	err = c.do(ctx, "confirmed", func() error {
		confirmed = !c.f.hesitant && slices.ContainsFunc(c.f.comments, func(one Comment) bool {
			return one.Key == said.ConfirmKey()
		})
		return nil
	})
	return confirmed, err
}

// MayWrite allows every account except stranger.
func (c *client) MayWrite(ctx context.Context, _, login string) (may bool, err error) {
	err = c.do(ctx, "maywrite", func() error {
		may = login != "stranger"
		return nil
	})
	return may, err
}
