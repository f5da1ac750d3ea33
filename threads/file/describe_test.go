package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents/tomltext"
)

// writeSchema returns the JSON Schema of factory.toml, for editors. It is recorded while the decoder reads everything.
// example is the text of factory.toml.example, whose comments describe the keys.
func writeSchema(example string) (string, error) {
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
