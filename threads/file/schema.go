package file

import (
	"bytes"
	"encoding/json"
	"fmt"
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
cli = ""
[[fleet.hosts]]
[services.name]
command = [""]
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

// Schema returns the JSON Schema of factory.toml, for editors. It is recorded while the decoder reads everything.
// example is the text of factory.toml.example, whose comments describe the keys.
func Schema(example string) (string, error) {
	root, err := recorded()
	if err != nil {
		return "", err
	}
	describe(root, example)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(struct {
		Schema string `json:"$schema"`
		Title  string `json:"title"`
		*shape
	}{"http://json-schema.org/draft-07/schema#", "factory.toml of disinto", root})
	if err != nil {
		return "", fmt.Errorf("cannot write the schema: %w", err)
	}
	return out.String(), nil
}

// describe gives each key the comment above it in the example. Adjacent keys share a comment.
func describe(root *shape, example string) {
	lines := strings.Split(example, "\n")
	for i, line := range lines {
		if pair := commentedPair(line); pair != "" {
			lines[i] = pair
		}
	}
	at := tomltext.Lines(strings.Join(lines, "\n"))
	keys := make([]string, 0, len(at))
	for key := range at {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	original := strings.Split(example, "\n")
	for _, key := range keys {
		s := root
		for part := range strings.SplitSeq(key, ".") {
			if s = s.known(part); s == nil {
				break
			}
		}
		if s == nil || s.Description != "" || at[key] == 0 {
			continue
		}
		s.Description = commentAbove(original, at[key]-1)
		if said, isDefault := strings.CutPrefix(original[at[key]-1], "#"); isDefault && !strings.HasPrefix(said, " ") {
			_, value, _ := strings.Cut(said, " = ")
			s.Description += " Default: " + value
		}
	}
}

// known returns the shape of a key below s; nil for a key that is not read.
func (s *shape) known(key string) *shape {
	if s.Items != nil {
		s = s.Items
	}
	if each, ok := s.More.(*shape); ok {
		return each
	}
	return s.Properties[key]
}

// commentedPair returns the key and value, or the table header, in a commented-out line; "" without one.
func commentedPair(line string) string {
	text, commented := strings.CutPrefix(line, "#")
	text = strings.TrimPrefix(text, " ")
	key, _, pair := strings.Cut(text, " = ")
	isHeader := strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]")
	if !commented || !(pair && !strings.ContainsAny(key, " `\"") || isHeader) {
		return ""
	}
	return text
}

// commentAbove returns the prose above a line as one paragraph. Only other keys may stand between them.
func commentAbove(lines []string, at int) string {
	isProse := func(line string) bool {
		return strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "# ---") && commentedPair(line) == ""
	}
	end := at
	for end > 0 && lines[end-1] != "" && !isProse(lines[end-1]) {
		end--
	}
	begin := end
	for begin > 0 && isProse(lines[begin-1]) {
		begin--
	}
	var words []string
	for _, line := range lines[begin:end] {
		words = append(words, strings.TrimSpace(strings.TrimPrefix(line, "#")))
	}
	return strings.Join(words, " ")
}
