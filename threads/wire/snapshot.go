package wire

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// snapshot is threads.Snapshot with an encoded configuration, without texts, and with its history as lists.
type snapshot struct {
	Now      time.Time
	Config   json.RawMessage
	Facts    forge.Facts
	Sessions []threads.Session
	History  history
	Fleet    []threads.Remote
	Typical  map[agents.Kind]time.Duration
	Caches   map[string]threads.ServerCache
	Room     *threads.Room
	Rooms    map[string]threads.Room
	Outages  map[string]threads.Outage
}

// history is threads.History, whose maps have keys that JSON does not allow.
type history struct {
	Chains  []entry[forge.Ref, *threads.ChainHistory]
	Items   []entry[threads.Key, *threads.ItemHistory]
	Agents  map[string]*threads.AgentHistory
	Threads map[string]*threads.ThreadHistory
	Authors map[string]*threads.AuthorHistory
	Slots   []entry[threads.SlotKey, threads.Warm]
	Paused  []entry[threads.Pause, time.Time]
	Touched []entry[forge.Ref, time.Time]
}

// entry is one pair of a map.
type entry[K comparable, V any] struct {
	Key   K
	Value V
}

func fromSnapshot(s *threads.Snapshot, config json.RawMessage) *snapshot {
	return &snapshot{
		Now: s.Now, Config: config, Facts: bare(s.Facts), Sessions: s.Sessions, History: fromHistory(&s.History),
		Fleet: s.Fleet, Typical: s.Typical, Caches: s.Caches, Room: s.Room, Rooms: s.Rooms, Outages: s.Outages,
	}
}

func (w *snapshot) threads() (*threads.Snapshot, error) {
	s := &threads.Snapshot{
		Now: w.Now, Facts: w.Facts, Sessions: w.Sessions, History: w.History.threads(),
		Fleet: w.Fleet, Typical: w.Typical, Caches: w.Caches, Room: w.Room, Rooms: w.Rooms, Outages: w.Outages,
	}
	if len(w.Config) == 0 {
		return s, nil
	}
	return s, json.Unmarshal(w.Config, &s.Config)
}

// bare returns the facts without the texts of the forge, which are tens of megabytes for 10,000 issues.
func bare(f forge.Facts) forge.Facts {
	f.Issues, f.Pulls = slices.Clone(f.Issues), slices.Clone(f.Pulls)
	for i := range f.Issues {
		f.Issues[i].Body = ""
	}
	for i := range f.Pulls {
		p := &f.Pulls[i]
		p.Body, p.Reviews = "", slices.Clone(p.Reviews)
		for j := range p.Reviews {
			p.Reviews[j].Body = ""
		}
	}
	return f
}

func fromHistory(h *threads.History) history {
	return history{
		Chains: list(h.Chains, forge.Ref.Compare), Items: list(h.Items, threads.Key.Compare),
		Agents: h.Agents, Threads: h.Threads, Authors: h.Authors,
		Slots: list(h.Slots, threads.SlotKey.Compare), Paused: list(h.Paused, ledger.ComparePauses),
		Touched: list(h.Touched, forge.Ref.Compare),
	}
}

func (w *history) threads() threads.History {
	return threads.History{
		Chains: table(w.Chains), Items: table(w.Items),
		Agents: w.Agents, Threads: w.Threads, Authors: w.Authors,
		Slots: table(w.Slots), Paused: table(w.Paused), Touched: table(w.Touched),
	}
}

// list returns the pairs of a map, sorted by key; nil for a nil map.
func list[K comparable, V any](m map[K]V, compare func(K, K) int) []entry[K, V] {
	if m == nil {
		return nil
	}
	l := make([]entry[K, V], 0, len(m))
	for _, k := range slices.SortedFunc(maps.Keys(m), compare) {
		l = append(l, entry[K, V]{k, m[k]})
	}
	return l
}

// table returns the map of a list.
func table[K comparable, V any](l []entry[K, V]) map[K]V {
	if l == nil {
		return nil
	}
	m := make(map[K]V, len(l))
	for _, e := range l {
		m[e.Key] = e.Value
	}
	return m
}
