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
		walk(part, func(field string, v reflect.Value) {
			if v.Kind() == reflect.String && v.String() == from && slices.Contains(fields, field) {
				v.SetString(to)
			}
		})
	}
}

// walk visits what a pointer points to and all that it contains, each with the name of its field. It uses reflection,
// so that no new field can be forgotten.
func walk(pointer any, visit func(field string, v reflect.Value)) {
	walkIn("", reflect.ValueOf(pointer).Elem(), visit)
}

func walkIn(field string, v reflect.Value, visit func(field string, v reflect.Value)) {
	visit(field, v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walkIn(field, v.Elem(), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walkIn(field, v.Index(i), visit)
		}
	case reflect.Map:
		walkMap(field, v, visit)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				walkIn(v.Type().Field(i).Name, f, visit)
			}
		}
	}
}

// walkMap visits the keys and values of a map. Neither can be changed in place.
func walkMap(field string, m reflect.Value, visit func(field string, v reflect.Value)) {
	for _, k := range m.MapKeys() {
		key, value := reflect.New(k.Type()).Elem(), reflect.New(m.Type().Elem()).Elem()
		key.Set(k)
		value.Set(m.MapIndex(k))
		if walkIn(field, value, visit); k.Kind() == reflect.Struct {
			walkIn("", key, visit)
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
