package simtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// holder is the supervisor that holds a claim.
type holder struct {
	instance, boot, host, agent, run string
	made                             time.Time
}

// isTwinLocked reports whether another client with this one's instance made a claim after this one's start.
func (c *client) isTwinLocked(h holder) bool {
	return h.instance == c.instance() && h.boot != c.boot && h.made.After(c.since)
}

// foreignLocked reports whether a claim belongs to another supervisor.
func (c *client) foreignLocked(h holder) bool {
	return h.instance != "" && h.instance != c.instance() || c.isTwinLocked(h)
}

// peersLocked returns our twin, and tells it of us; and another supervisor with our agents' accounts.
func (c *client) peersLocked() (twin, sharer forge.Peer) {
	for _, h := range c.f.holders {
		peer := forge.Peer{Who: h.agent + " on " + h.host, At: h.made}
		switch {
		case c.isTwinLocked(h) && h.made.After(c.twin.At):
			c.twin, c.twinOf = peer, h.instance
			c.f.twins[h.instance] = holder{instance: h.instance, boot: c.boot, host: c.host, agent: "a twin", made: time.Now()}
		case h.instance != "" && h.instance != c.instance():
			c.sharer = peer
		}
	}
	if c.twinOf == c.instance() {
		twin = c.twin
	}
	return twin, c.sharer
}

// toldLocked returns forge.ErrTaken if our twin has told us of itself.
func (c *client) toldLocked() error {
	h := c.f.twins[c.instance()]
	if !c.isTwinLocked(h) {
		return nil
	}
	c.twin, c.twinOf = forge.Peer{Who: h.agent + " on " + h.host, At: h.made}, h.instance
	return fmt.Errorf("a twin: %w", forge.ErrTaken)
}

// holderLocked names the other supervisor that holds an item, and "" if none does.
func (c *client) holderLocked(ref forge.Ref) string {
	if is := c.f.issues[ref.Number]; is != nil && is.HeldBy != "" { // a test said so
		return is.HeldBy
	}
	if h := c.f.holders[ref.Number]; c.foreignLocked(h) {
		return h.host
	}
	return ""
}

// ClaimCommit returns "": these claims have no ref.
func (c *client) ClaimCommit(forge.Ref) string { return "" }

// Claim writes the label, then the assignee, as two requests.
func (c *client) Claim(ctx context.Context, ref forge.Ref, login, run string) error {
	return c.use("claim", func() error {
		err := c.f.call(ctx, "claim", func() error {
			it, err := c.f.itemLocked(ref)
			if err != nil {
				return err
			}
			if held := c.f.holders[ref.Number]; held.instance == c.instance() && held.run == run {
				return nil
			}
			if err := c.toldLocked(); err != nil {
				return err
			}
			if err := c.freeLocked(it, ref, login); err != nil {
				return err
			}
			c.runs[ref.Number] = run
			c.f.holders[ref.Number] = holder{c.instance(), c.boot, c.host, login, run, time.Now()}
			it.label(with(*it.labels, forge.LabelInProgress))
			c.f.wrote("label %s in-progress", ref.Short())
			return nil
		})
		if err != nil {
			return err
		}
		return c.f.call(ctx, "assign", func() error {
			it, err := c.f.itemLocked(ref)
			if err != nil {
				return err
			}
			it.assign(with(*it.assignees, login))
			c.f.wrote("claim %s %s", ref.Short(), login)
			return nil
		})
	})
}

// freeLocked returns nil if login may claim an item. A claim of what the last scan showed as taken is the supervisor's
// mistake.
func (c *client) freeLocked(it item, ref forge.Ref, login string) error {
	taken := fmt.Errorf("%s: %w", ref.Short(), forge.ErrTaken)
	seen, scanned := c.seen[ref.Number]
	switch held := c.f.holders[ref.Number]; {
	case c.foreignLocked(held), scanned && (*it.updated).After(seen):
		return taken
	case it.closed, c.runs[ref.Number] != "",
		slices.Contains(*it.labels, forge.LabelInProgress) && held.instance == "",
		!it.pull && (forge.SkipLabel(*it.labels) != "" || len(without(*it.assignees, login)) > 0):
		c.f.errs = append(c.f.errs, fmt.Sprintf("claim of %s by %s: labels %v, assignees %v",
			ref.Short(), login, *it.labels, *it.assignees))
		return taken
	}
	return nil
}

// Release removes the assignee, then the label, as two requests.
func (c *client) Release(ctx context.Context, ref forge.Ref, login string) error {
	step := func(name string, do func(it item)) error {
		return c.f.call(ctx, name, func() error {
			it, err := c.f.itemLocked(ref)
			if err != nil { // a missing item is not claimed
				return nil
			}
			if h := c.f.holders[ref.Number]; c.foreignLocked(h) {
				delete(c.runs, ref.Number)
				return fmt.Errorf("%s: %w", ref.Short(), forge.ErrTaken)
			}
			do(it)
			return nil
		})
	}
	return c.use("release", func() error {
		if err := step("unassign", func(it item) { it.assign(without(*it.assignees, login)) }); err != nil {
			return err
		}
		return step("release", func(it item) {
			it.label(without(*it.labels, forge.LabelInProgress))
			delete(c.f.holders, ref.Number)
			delete(c.runs, ref.Number)
			c.f.wrote("release %s %s", ref.Short(), login)
		})
	})
}

// Free removes the claim of any supervisor.
func (c *client) Free(ctx context.Context, ref forge.Ref) (was string, err error) {
	err = c.do(ctx, "free", func() error {
		was = c.f.holders[ref.Number].host
		delete(c.f.holders, ref.Number)
		if is := c.f.issues[ref.Number]; is != nil && is.HeldBy != "" {
			was, is.HeldBy = is.HeldBy, ""
		}
		return nil
	})
	return was, err
}

// Reassign writes the labels, then the assignee, as two requests. Each checks the item first.
func (c *client) Reassign(ctx context.Context, ref forge.Ref, from, to string, add []string, _ string) error {
	step := func(name string, do func(it item)) error {
		return c.f.call(ctx, name, func() error {
			it, err := c.f.itemLocked(ref)
			switch {
			case err != nil:
				return err
			case it.closed, slices.Contains(*it.labels, forge.LabelInProgress),
				!slices.Equal(*it.assignees, pinned(to)) && !slices.Equal(*it.assignees, pinned(from)):
				return fmt.Errorf("%s: %w", ref.Short(), forge.ErrTaken)
			}
			do(it)
			return nil
		})
	}
	return c.use("reassign", func() error {
		err := step("mark", func(it item) {
			for _, label := range add {
				it.label(with(*it.labels, label))
			}
		})
		if err != nil {
			return err
		}
		return step("hand over", func(it item) {
			it.assign(pinned(to))
			c.f.wrote("reassign %s %s %s", ref.Short(), from, to)
		})
	})
}

func pinned(login string) []string {
	if login == "" {
		return nil
	}
	return []string{login}
}

// item is what issues and pull requests have in common.
type item struct {
	labels, assignees *[]string
	updated           *time.Time
	closed, pull      bool
}

// itemLocked returns an item; the error wraps forge.ErrNotFound.
func (f *Forge) itemLocked(ref forge.Ref) (item, error) {
	if is := f.issues[ref.Number]; is != nil {
		return item{&is.Labels, &is.Assignees, &is.Updated, is.Closed, false}, nil
	}
	if p := f.pulls[ref.Number]; p != nil {
		return item{&p.Labels, &p.Assignees, &p.Updated, p.Closed, true}, nil
	}
	return item{}, missing(ref)
}

// label and assign change an item, unless it has the list already.
func (it item) label(labels []string)     { it.set(it.labels, labels) }
func (it item) assign(assignees []string) { it.set(it.assignees, assignees) }

func (it item) set(list *[]string, to []string) {
	if !slices.Equal(*list, to) {
		*list, *it.updated = to, time.Now()
	}
}
