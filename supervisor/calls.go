package supervisor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// callTimeout bounds every call to the forge but a scan.
const callTimeout = 30 * time.Second

// lookTime is how long a slot waits for the forge's view of an ended session.
const lookTime = 10 * time.Second

// showTime bounds the question to the forge within a reading request, for which clients wait four seconds.
const showTime = 3 * time.Second

// call makes one call to the forge within a time limit. A panic in it counts as an unreadable answer: sessions and
// chores call from goroutines of their own, where a panic would end PID 1 and every agent with it. That happened once,
// when a pull request appeared between two requests of one FetchItem.
func (c *core) call(ctx context.Context, limit time.Duration, f func(context.Context, Forge) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			c.panicked("a call to the forge", v, debug.Stack())
			err = fmt.Errorf("internal error: %v: %w", v, forge.ErrUnavailable)
		}
	}()
	client := c.forge.get()
	if client == nil {
		return fmt.Errorf("no forge is configured: %w", forge.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = f(ctx, &posting{client, c.state})
	c.answered(err)
	return err
}

// fetch makes one call to the forge that returns a value.
func fetch[T any](c *core, f func(context.Context, Forge) (T, error)) (answer T, err error) {
	err = c.call(c.base, callTimeout, func(ctx context.Context, client Forge) (err error) {
		answer, err = f(ctx, client)
		return err
	})
	return answer, err
}

func (c *core) label(item forge.Ref, add, remove []string) error {
	return c.call(c.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Label(ctx, item, add, remove) })
}

// comment is a comment by the supervisor on the forge. It is written once for each key.
type comment struct{ key, body string }

func (c *core) comment(item forge.Ref, words comment) error {
	return c.call(c.base, callTimeout, func(ctx context.Context, f Forge) error {
		return f.Comment(ctx, item, words.key, words.body)
	})
}

// keepComment writes a comment whose text may change later.
func (c *core) keepComment(item forge.Ref, words comment) error {
	return c.call(c.base, callTimeout, func(ctx context.Context, f Forge) error {
		return f.SetComment(ctx, item, words.key, words.body)
	})
}

func (c *core) closeIssue(item forge.Ref) error {
	return c.call(c.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Close(ctx, item) })
}

func (c *core) file(d forge.Draft) (forge.Ref, error) {
	return fetch(c, func(ctx context.Context, f Forge) (forge.Ref, error) { return f.File(ctx, d) })
}

func (c *core) depend(item, on forge.Ref) error {
	return c.call(c.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Depend(ctx, item, on) })
}

func (c *core) blockers(item forge.Ref) ([]forge.Blocker, error) {
	return fetch(c, func(ctx context.Context, f Forge) ([]forge.Blocker, error) { return f.Blockers(ctx, item) })
}

// fetchItem reads an issue or pull request, and its comments since a time, from the forge.
func (c *core) fetchItem(item forge.Ref, since time.Time) (forge.ItemFacts, error) {
	return fetch(c, func(ctx context.Context, f Forge) (forge.ItemFacts, error) { return f.FetchItem(ctx, item, since) })
}

func isPermanent(err error) bool {
	return errors.Is(err, forge.ErrNotFound) || errors.Is(err, forge.ErrForbidden) || errors.Is(err, forge.ErrConflict)
}

// posting is a Forge whose posts contain no secret: the outcomes and plans that they quote are a program's words.
type posting struct {
	Forge
	state *state
}

func (p *posting) clean(text string) string {
	config := p.state.config()
	if config == nil {
		return text
	}
	return agents.RedactPost(text, p.state.secretsOf(config))
}

// Comment is Writer's.
func (p *posting) Comment(ctx context.Context, ref forge.Ref, key, body string) error {
	return p.Forge.Comment(ctx, ref, key, p.clean(body))
}

// SetComment is Writer's.
func (p *posting) SetComment(ctx context.Context, ref forge.Ref, key, body string) error {
	return p.Forge.SetComment(ctx, ref, key, p.clean(body))
}

// File is Filer's.
func (p *posting) File(ctx context.Context, d forge.Draft) (forge.Ref, error) {
	d.Title, d.Body = p.clean(d.Title), p.clean(d.Body)
	return p.Forge.File(ctx, d)
}
