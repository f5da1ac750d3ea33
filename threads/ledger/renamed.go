package ledger

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// Renamed gives agents and threads new names, by their old ones. Everything that is remembered goes on under the new
// name, unless something is remembered of it already.
type Renamed struct {
	Agents  map[string]string `json:"agents,omitempty"`
	Threads map[string]string `json:"threads,omitempty"`
}

func (r *Renamed) valid() bool { return len(r.Agents)+len(r.Threads) > 0 }

// The fields that have the name of an agent, and of a thread.
var (
	agentFields  = []string{"Agent", "Claimed", "Writers", "LastWriter", "FailedBy", "Unanswered"}
	threadFields = []string{"Thread"}
)

func (r *Renamed) apply(s *State, _ time.Time) {
	for _, from := range slices.Sorted(maps.Keys(r.Agents)) {
		move(s.Agents, from, r.Agents[from])
		s.rename(agentFields, from, r.Agents[from])
		s.renameWork(ByAgent, from, r.Agents[from])
	}
	for _, from := range slices.Sorted(maps.Keys(r.Threads)) {
		move(s.Threads, from, r.Threads[from])
		s.rename(threadFields, from, r.Threads[from])
		s.renameWork(ByThread, from, r.Threads[from])
	}
}

// renameWork renames in merges and in the keys of sums. A copy of a merge shares its credit.
func (s *State) renameWork(by By, from, to string) {
	for _, sums := range s.Days {
		sums.rename(by, from, to)
	}
	for i := range s.Merges {
		switch m := &s.Merges[i]; {
		case by == ByAgent && m.Agent == from:
			m.Agent = to
		case by == ByThread && m.Credit != nil && m.Credit.Thread == from:
			c := *m.Credit
			c.Thread, m.Credit = to, &c
		}
	}
}

func move[V any](m map[string]*V, from, to string) {
	if old := m[from]; old != nil && (m[to] == nil || isZero(*m[to])) {
		m[to] = old
	}
	delete(m, from)
}

func (s *State) rename(fields []string, from, to string) {
	for _, part := range []any{
		&s.Chains, &s.Items, &s.Agents, &s.Threads, &s.Failing, &s.Slots, &s.Paused, &s.Open, &s.Steals, &s.Recent, &s.Past,
		&s.Free, &s.Parks, &s.Tells, &s.Days,
	} {
		renameIn(reflect.ValueOf(part).Elem(), fields, from, to)
	}
}

// renameIn renames in a value and all that it contains. It uses reflection, so that no new field can be forgotten.
func renameIn(v reflect.Value, fields []string, from, to string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			renameIn(v.Elem(), fields, from, to)
		}
	case reflect.Slice:
		for i := range v.Len() {
			renameIn(v.Index(i), fields, from, to)
		}
	case reflect.Map:
		renameInMap(v, fields, from, to)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			switch named := slices.Contains(fields, v.Type().Field(i).Name); {
			case !f.CanSet():
			case named && f.Kind() == reflect.String && f.String() == from:
				f.SetString(to)
			case named && f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.String:
				for k := range f.Len() {
					if f.Index(k).String() == from {
						f.Index(k).SetString(to)
					}
				}
			default:
				renameIn(f, fields, from, to)
			}
		}
	}
}

// renameInMap renames in the keys and values of a map. Neither can be changed in place.
func renameInMap(m reflect.Value, fields []string, from, to string) {
	for _, k := range m.MapKeys() {
		key, value := reflect.New(k.Type()).Elem(), reflect.New(m.Type().Elem()).Elem()
		key.Set(k)
		value.Set(m.MapIndex(k))
		if renameIn(value, fields, from, to); k.Kind() == reflect.Struct {
			renameIn(key, fields, from, to)
		}
		if key.Interface() != k.Interface() {
			m.SetMapIndex(k, reflect.Value{})
			if m.MapIndex(key).IsValid() {
				continue // something is remembered of the new name already
			}
		}
		m.SetMapIndex(key, value)
	}
}

// Remembers reports whether anything is remembered of an agent, or of a thread; the other name is "".
func (s *State) Remembers(agent, thread string) bool {
	_, paused := s.Paused[threads.Pause{Agent: agent, Thread: thread}]
	return paused || s.Agents[agent] != nil || s.Threads[thread] != nil || slices.ContainsFunc(s.Past, func(p Past) bool {
		return agent != "" && p.Agent == agent || thread != "" && p.Thread == thread
	})
}
