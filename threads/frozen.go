package threads

import (
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// FrozenDecision is a plan with its snapshot. Nothing in it may be written to, because it is read while later
// decisions are made.
type FrozenDecision struct {
	Snapshot Snapshot // its History is not set; see Whole
	History  *Frozen
	Plan     Plan
}

// Freeze copies a decision. The books continue to change the history. They replace everything else as a whole, so it
// is not copied. known is an earlier frozen history if no chain and no item has changed since, and nil otherwise.
func (s *Snapshot) Freeze(p *Plan, known *Frozen) *FrozenDecision {
	d := &FrozenDecision{Snapshot: *s, History: s.History.freeze(known), Plan: *p}
	d.Snapshot.History = History{}
	return d
}

// Whole returns the snapshot with its history.
func (d *FrozenDecision) Whole() *Snapshot {
	s := d.Snapshot
	s.History = d.History.History()
	return &s
}

// Frozen is a history as it was at one moment. It shares nothing with the live history, so it can be read while that
// changes.
type Frozen struct {
	chains  []pair[forge.Ref, ChainHistory]
	items   []pair[Key, ItemHistory]
	agents  []pair[string, AgentHistory]
	threads []pair[string, ThreadHistory]
	authors []pair[string, AuthorHistory]
	slots   map[SlotKey]Warm
	paused  map[Pause]time.Time
	touched map[forge.Ref]time.Time
}

// pair is an entry of a map. A copy into a list takes a fifth of the time of a copy into another map.
type pair[K comparable, V any] struct {
	key   K
	value V
}

// Freeze copies the history. It keeps every decision waiting, so it does no more than it must.
func (h *History) Freeze() *Frozen { return h.freeze(nil) }

// freeze shares the chains and items of known, or copies them too if known is nil. A factory with ten agents has ten
// thousand of them.
func (h *History) freeze(known *Frozen) *Frozen {
	f := &Frozen{
		agents: pairs(h.Agents), threads: pairs(h.Threads), authors: pairs(h.Authors),
		slots: maps.Clone(h.Slots), paused: maps.Clone(h.Paused), touched: maps.Clone(h.Touched),
	}
	for i := range f.threads {
		f.threads[i].value.unshare()
	}
	for i := range f.authors {
		a := &f.authors[i].value
		a.Reviews = maps.Clone(a.Reviews)
	}
	if known != nil {
		f.chains, f.items = known.chains, known.items
		return f
	}
	f.chains, f.items = pairs(h.Chains), pairs(h.Items)
	for i := range f.chains {
		f.chains[i].value.unshare()
	}
	return f
}

// History returns the frozen history. All histories that it returns share their entries.
func (f *Frozen) History() History {
	return History{
		Chains: thawed(f.chains), Items: thawed(f.items), Agents: thawed(f.agents), Threads: thawed(f.threads),
		Authors: thawed(f.authors), Slots: f.slots, Paused: f.paused, Touched: f.touched,
	}
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

// unshare replaces by a copy everything that could be written to.
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
