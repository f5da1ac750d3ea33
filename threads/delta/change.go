package delta

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/threads"
)

// change has the entries of a list or a map that are new or changed, and the keys that are gone. Both are sorted.
type change[K comparable, V any] struct {
	Put  []entry[K, V] `json:",omitempty"`
	Gone []K           `json:",omitempty"`
}

// entry is one value by its key.
type entry[K comparable, V any] struct {
	Key   K
	Value V
}

// betweenLists compares two lists that are sorted by their keys. Between two scans, snapshots share the very same
// lists.
func betweenLists[K comparable, V any](
	from, to []V, key func(*V) K, compare func(K, K) int, same func(a, b *V) bool,
) (c change[K, V]) {
	if len(from) == len(to) && len(from) > 0 && &from[0] == &to[0] {
		return c
	}
	for i, j := 0, 0; i < len(from) || j < len(to); {
		order := 0
		switch {
		case i == len(from):
			order = 1
		case j == len(to):
			order = -1
		default:
			order = compare(key(&from[i]), key(&to[j]))
		}
		switch {
		case order < 0:
			c.Gone = append(c.Gone, key(&from[i]))
			i++
			continue
		case order > 0 || !same(&from[i], &to[j]):
			c.Put = append(c.Put, entry[K, V]{key(&to[j]), to[j]})
		}
		if order == 0 {
			i++
		}
		j++
	}
	return c
}

// applyList returns the list after the change. It overwrites the old list.
func (c *change[K, V]) applyList(list []V, key func(*V) K, compare func(K, K) int) []V {
	if len(c.Gone) > 0 {
		list = slices.DeleteFunc(list, func(v V) bool {
			_, gone := slices.BinarySearchFunc(c.Gone, key(&v), compare)
			return gone
		})
	}
	var more []V
	for i := range c.Put {
		if at, found := find(list, c.Put[i].Key, key, compare); found {
			list[at] = c.Put[i].Value
		} else {
			more = append(more, c.Put[i].Value)
		}
	}
	if len(more) > 0 {
		list = append(list, more...)
		slices.SortStableFunc(list, func(a, b V) int { return compare(key(&a), key(&b)) })
	}
	return list
}

// find returns the place of a key in a sorted list.
func find[K comparable, V any](list []V, of K, key func(*V) K, compare func(K, K) int) (at int, found bool) {
	return slices.BinarySearchFunc(list, of, func(v V, k K) int { return compare(key(&v), k) })
}

// between compares two maps.
func between[K comparable, V any](from, to map[K]V, compare func(K, K) int) (c change[K, V]) {
	for k, v := range to {
		if was, found := from[k]; !found || !reflect.DeepEqual(was, v) {
			c.Put = append(c.Put, entry[K, V]{k, v})
		}
	}
	for k := range from {
		if _, found := to[k]; !found {
			c.Gone = append(c.Gone, k)
		}
	}
	slices.SortFunc(c.Put, func(a, b entry[K, V]) int { return compare(a.Key, b.Key) })
	slices.SortFunc(c.Gone, compare)
	return c
}

// apply returns the map after the change.
func (c *change[K, V]) apply(m map[K]V) map[K]V {
	if m == nil {
		m = make(map[K]V)
	}
	for _, k := range c.Gone {
		delete(m, k)
	}
	for i := range c.Put {
		m[c.Put[i].Key] = c.Put[i].Value
	}
	return m
}

// thread is the history of a thread with only the new part of its uses: a week of them is a thousand numbers, and
// each session's end adds to the last.
type thread struct {
	Rest threads.ThreadHistory // without Uses
	Skip int                   `json:",omitempty"` // number of uses that have left the longest window
	Keep int                   `json:",omitempty"` // number of uses after them that have not changed
	Uses []threads.Use         `json:",omitempty"` // the uses that follow
}

func betweenThreads(from, to map[string]*threads.ThreadHistory) (c change[string, thread]) {
	whole := between(from, to, strings.Compare)
	c.Gone = whole.Gone
	for _, e := range whole.Put {
		if e.Value == nil {
			continue
		}
		t := thread{Rest: *e.Value}
		t.Rest.Uses, t.Uses = nil, e.Value.Uses
		if was := from[e.Key]; was != nil && len(t.Uses) > 0 {
			t.Skip, t.Keep = overlap(was.Uses, t.Uses)
			t.Uses = t.Uses[t.Keep:]
		}
		c.Put = append(c.Put, entry[string, thread]{e.Key, t})
	}
	return c
}

// overlap returns how many uses precede the first of the later ones, and how many from there on are the same.
func overlap(from, to []threads.Use) (skip, keep int) {
	skip = slices.IndexFunc(from, func(u threads.Use) bool { return u == to[0] })
	if skip < 0 {
		return 0, 0
	}
	for keep < len(to) && skip+keep < len(from) && from[skip+keep] == to[keep] {
		keep++
	}
	return skip, keep
}

func applyThreads(m map[string]*threads.ThreadHistory, c *change[string, thread]) map[string]*threads.ThreadHistory {
	m = maps.Clone(m)
	whole := change[string, *threads.ThreadHistory]{Gone: c.Gone}
	for i := range c.Put {
		t := &c.Put[i].Value
		h := t.Rest
		if was := m[c.Put[i].Key]; was != nil && t.Skip >= 0 && t.Keep >= 0 && t.Skip <= len(was.Uses)-t.Keep {
			h.Uses = slices.Clone(was.Uses[t.Skip : t.Skip+t.Keep])
		}
		h.Uses = append(h.Uses, t.Uses...)
		whole.Put = append(whole.Put, entry[string, *threads.ThreadHistory]{c.Put[i].Key, &h})
	}
	return whole.apply(m)
}
