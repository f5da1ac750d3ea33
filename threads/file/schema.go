package file

import (
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents/tomltext"
)

// shape is the JSON Schema of a key. The reading methods of table fill it in, so it always describes what they
// accept.
type shape struct {
	Description string            `json:"description,omitempty"`
	Type        any               `json:"type,omitempty"` // a name or, for a choice, several
	Enum        []string          `json:"enum,omitempty"`
	Pattern     string            `json:"pattern,omitempty"`
	MinLength   int               `json:"minLength,omitempty"`
	Minimum     *int64            `json:"minimum,omitempty"`
	Maximum     *int64            `json:"maximum,omitempty"`
	Above       *int64            `json:"exclusiveMinimum,omitempty"`
	Below       *int64            `json:"exclusiveMaximum,omitempty"`
	Items       *shape            `json:"items,omitempty"`
	Unique      bool              `json:"uniqueItems,omitempty"`
	Properties  map[string]*shape `json:"properties,omitempty"`
	// More describes the keys that are not among Properties: false for none, or their shape in a table whose names the
	// user chooses.
	More any `json:"additionalProperties,omitempty"`
}

// at returns the shape of a key below s.
func (s *shape) at(key string) *shape {
	if s.Items != nil {
		return s.Items.at(key)
	}
	if each, ok := s.More.(*shape); ok {
		return each
	}
	if s.Properties == nil {
		s.Properties = make(map[string]*shape)
	}
	if s.Properties[key] == nil {
		s.Properties[key] = new(shape)
	}
	return s.Properties[key]
}

// typed records the type of values of T.
func typed[T any](s *shape) {
	switch any(*new(T)).(type) {
	case string:
		s.Type = "string"
	case bool:
		s.Type = "boolean"
	case int64:
		s.Type = "integer"
	case []any:
		s.Type = "array"
	case map[string]any:
		s.Type = "object"
	}
}

// from records the least value of a number.
func (s *shape) from(least int64) { s.Minimum = &least }

// between records the least and the greatest value of a number.
func (s *shape) between(least, most int64) { s.Minimum, s.Maximum = &least, &most }

// portsOr records a list of TCP ports, or a word that stands for many.
func (s *shape) portsOr(words ...string) {
	port := &shape{Type: "integer"}
	port.between(1, 65535)
	s.Type, s.Items, s.Pattern = []string{"string", "array"}, port, "^("+strings.Join(words, "|")+")$"
}

// everything has each table once, and the keys that are read only where they are present. Its mistakes do not matter.
const everything = `
forge.url = ""
routes.go = []
[threads.name]
backend = "local"
agents = ["name"]
budget = { usd_per_day = 1 }
windows = [{ usd = 1 }]
[agents.name]
role = "name"
budget = { usd_per_day = 1 }
[roles.name]
[[fleet.hosts]]
[services.name]
command = [""]
[repos."o/r"]
budget = { usd_per_day = 1 }
`

// recorded returns the shape of the whole file. The decoder records it while it reads everything.
func recorded() (*shape, error) {
	root := &shape{Type: "object"}
	none := func(string) (string, bool) { return "", false }
	d := &decoder{lookupEnv: none, assigned: map[string]assignment{}}
	var values map[string]any
	if _, err := toml.Decode(everything, &values); err != nil {
		return nil, err
	}
	d.lines = tomltext.Lines(everything)
	d.read(&table{d: d, values: values, noted: root})
	return root, nil
}

// tablesWith names the tables that have a key: "[forge] or [agents.NAME]"; empty if none has it.
func tablesWith(key string) string {
	root, err := recorded()
	if err != nil {
		return ""
	}
	var names []string
	for name, s := range root.Properties {
		header := "[" + name + "]"
		if each, ok := s.More.(*shape); ok {
			s, header = each, "["+name+".NAME]"
		}
		if s.Properties[key] != nil {
			names = append(names, header)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " or ")
}
