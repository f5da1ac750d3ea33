package threads

import (
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// FrozenDecision is a plan with the snapshot that it was made from. It is read while the next decisions are made, so
// nothing in it may be written to.
type FrozenDecision struct {
	Snapshot Snapshot // its History is not set; see Whole
	History  *Frozen
	Plan     Plan
}

// Freeze copies a decision. The books go on to change the history; all else is replaced and never changed. known is the
// history of an earlier decision if no chain and no item has changed since, and nil otherwise.
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
	touched map[forge.Ref]time.Time
}

// pair is an entry of a map. Lists of pairs are made in a fifth of the time that another map takes.
type pair[K comparable, V any] struct {
	key   K
	value V
}

// Freeze copies the history. Nothing else can be decided meanwhile, so it does the least that must be done then.
func (h *History) Freeze() *Frozen { return h.freeze(nil) }

// freeze takes chains and items from a history that is frozen already, or copies them too. There are ten thousand of
// them where there are ten agents.
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

// History is the frozen history. Its entries are those of every other history that is made of it.
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
