package hire

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents/tomltext"
)

// Entry is an agent in factory.toml. An empty field leaves the file's value unchanged; Name and Thread must be set.
type Entry struct {
	Name, Thread string
	Role         string
	Model        string
	BaseURL      string // the agent's own inference server
	TokenVar     string // the variable that holds the token
	Skills       []string
}

// pair is a key with its value as the decoder returns it and as TOML text.
type pair struct {
	key   string
	value any
	text  string
}

// pairs returns the keys that the agent's table must have.
func (e *Entry) pairs() []pair {
	var all []pair
	add := func(key, value string) {
		if value != "" {
			all = append(all, pair{key, value, tomltext.Quote(value)})
		}
	}
	add("role", e.Role)
	add("model", e.Model)
	add("base_url", e.BaseURL)
	if e.TokenVar != "" {
		add("token", "$"+e.TokenVar)
	}
	if len(e.Skills) > 0 {
		list := make([]any, len(e.Skills))
		for i := range e.Skills {
			list[i] = e.Skills[i]
		}
		all = append(all, pair{"skills", list, tomltext.QuoteList(e.Skills)})
	}
	return all
}

// Register adds an agent to the text of a factory.toml, or updates its entry. Comments, order and layout of the rest
// stay. It can be repeated.
//
// The edit is made on the text and checked on the decoded values. If the two differ, this function does not support the
// layout, and the error says what to write by hand.
func Register(text string, e Entry) (string, error) {
	want, err := valuesOf(text)
	if err != nil {
		return "", err
	}
	threads, _ := want["threads"].(map[string]any)
	thread, ok := threads[e.Thread].(map[string]any)
	if !ok {
		return "", fmt.Errorf("there is no thread %s: name one of the file's, or add [threads.%s]", e.Thread, e.Thread)
	}
	table := tableIn(tableIn(want, "agents"), e.Name)
	edited := text
	for _, p := range e.pairs() {
		at := []string{"agents", e.Name}
		if _, many := table["roles"]; many && p.key == "role" {
			edited = tomltext.Add(edited, append(at, "roles"), e.Role)
			table["roles"] = with(table["roles"], e.Role)
			continue
		}
		if !reflect.DeepEqual(table[p.key], p.value) {
			edited = tomltext.Set(edited, at, p.key, p.text)
			table[p.key] = p.value
		}
	}
	edited = tomltext.Add(edited, []string{"threads", e.Thread, "agents"}, e.Name)
	thread["agents"] = with(thread["agents"], e.Name)
	if !hasValues(edited, want) {
		return "", fmt.Errorf("this command does not support its layout: write [agents.%s] and its keys, "+
			"and add %q to agents of [threads.%s], by hand", e.Name, e.Name, e.Thread)
	}
	return edited, nil
}

// Unregister removes an agent from the text of a factory.toml: its table, and its name in every thread's list. It can
// be repeated.
func Unregister(text, name string) (string, error) {
	want, err := valuesOf(text)
	if err != nil {
		return "", err
	}
	if tables, ok := want["agents"].(map[string]any); ok {
		delete(tables, name)
	}
	edited := tomltext.Cut(text, []string{"agents", name})
	threads, _ := want["threads"].(map[string]any)
	for thread, value := range threads {
		if table, ok := value.(map[string]any); ok && slices.Contains(stringsOf(table["agents"]), name) {
			table["agents"] = without(table["agents"], name)
			edited = tomltext.Drop(edited, []string{"threads", thread, "agents"}, name)
		}
	}
	if !hasValues(edited, want) {
		return "", fmt.Errorf("this command does not support its layout: "+
			"remove [agents.%s], and %q from the agents of its thread, by hand", name, name)
	}
	return edited, nil
}

func valuesOf(text string) (map[string]any, error) {
	var values map[string]any
	_, err := toml.Decode(text, &values)
	return values, err
}

// hasValues reports whether a text has the values. An empty table of agents equals a missing one.
func hasValues(text string, want map[string]any) bool {
	got, err := valuesOf(text)
	if err != nil {
		return false
	}
	for _, values := range []map[string]any{got, want} {
		if tables, ok := values["agents"].(map[string]any); ok && len(tables) == 0 {
			delete(values, "agents")
		}
	}
	return reflect.DeepEqual(got, want)
}

// tableIn returns the table with a name, and creates it if it is missing.
func tableIn(values map[string]any, name string) map[string]any {
	if table, ok := values[name].(map[string]any); ok {
		return table
	}
	table := map[string]any{}
	values[name] = table
	return table
}

func with(list any, element string) any {
	if slices.Contains(stringsOf(list), element) {
		return list
	}
	values, _ := list.([]any)
	return append(values, element)
}

func without(list any, element string) any {
	values, _ := list.([]any)
	return slices.DeleteFunc(slices.Clone(values), func(v any) bool { return v == element })
}
