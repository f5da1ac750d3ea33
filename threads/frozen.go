package threads

import (
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Frozen is a history as it was at one moment. It shares nothing with the history that can be written to, so that it
// can be read while that goes on.
type Frozen struct {
	chains  []pair[forge.Ref, ChainHistory]
	items   []pair[Key, ItemHistory]
	agents  []pair[string, AgentHistory]
	threads []pair[string, ThreadHistory]
	authors []pair[string, AuthorHistory]
	slots   map[SlotKey]Warm
	paused  map[Pause]time.Time
	touched []pair[forge.Ref, time.Time]
}

// pair is an entry of a map. Lists of pairs are made in a fifth of the time that another map takes.
type pair[K comparable, V any] struct {
	key   K
	value V
}

// Freeze copies the history. Nothing else can be decided meanwhile, so it does the least that must be done then.
func (h *History) Freeze() *Frozen {
	f := &Frozen{
		chains: pairs(h.Chains), items: pairs(h.Items), agents: pairs(h.Agents), threads: pairs(h.Threads),
		authors: pairs(h.Authors), slots: maps.Clone(h.Slots), paused: maps.Clone(h.Paused),
	}
	for i := range f.chains {
		f.chains[i].value.unshare()
	}
	for i := range f.threads {
		f.threads[i].value.unshare()
	}
	for i := range f.authors {
		a := &f.authors[i].value
		a.Reviews = maps.Clone(a.Reviews)
	}
	f.touched = make([]pair[forge.Ref, time.Time], 0, len(h.Touched))
	for r, at := range h.Touched {
		f.touched = append(f.touched, pair[forge.Ref, time.Time]{r, at})
	}
	return f
}

// History is the frozen history. It belongs to the caller, and may be asked for once.
func (f *Frozen) History() History {
	h := History{
		Chains: thawed(f.chains), Items: thawed(f.items), Agents: thawed(f.agents), Threads: thawed(f.threads),
		Authors: thawed(f.authors), Slots: f.slots, Paused: f.paused, Touched: make(map[forge.Ref]time.Time, len(f.touched)),
	}
	for _, p := range f.touched {
		h.Touched[p.key] = p.value
	}
	return h
}

func pairs[K comparable, V any](m map[K]*V) []pair[K, V] {
	list := make([]pair[K, V], 0, len(m))
	for k, v := range m {
		if v != nil {
			list = append(list, pair[K, V]{k, *v})
		}
	}
	return list
}

func thawed[K comparable, V any](list []pair[K, V]) map[K]*V {
	m := make(map[K]*V, len(list))
	for i := range list {
		m[list[i].key] = &list[i].value
	}
	return m
}

// unshare replaces what could be written to by a copy.
func (c *ChainHistory) unshare() {
	c.Writers, c.Approved, c.Attempts = slices.Clone(c.Writers), slices.Clone(c.Approved), slices.Clone(c.Attempts)
	if c.Dialogue != nil {
		d := *c.Dialogue
		d.Comments = slices.Clone(d.Comments)
		c.Dialogue = &d
	}
}

func (t *ThreadHistory) unshare() {
	t.Uses, t.Paces = slices.Clone(t.Uses), slices.Clone(t.Paces)
	t.Talks, t.Forgotten = slices.Clone(t.Talks), slices.Clone(t.Forgotten)
}
