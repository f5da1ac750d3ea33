package file

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

const schemaFile = "../../factory.schema.json"

// TestSchema compares the schema in the tree with the decoder's; go test ./threads/file -run TestSchema -update
// writes it.
func TestSchema(t *testing.T) {
	text, err := writeSchema(read(t, exampleFile))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, schemaFile), text); diff != "" {
		t.Errorf("factory.schema.json differs (go test -update rewrites it) (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(read(t, exampleFile), "#:schema ") {
		t.Error("the example does not name the schema in its first line")
	}
	eachKey(schema(t), nil, func(path []string, s *shape) {
		last := path[len(path)-1]
		if s.Description == "" && len(path) > 1 && len(path) < 4 && last != named && last != "0" {
			t.Errorf("%s has no description in the example", strings.Join(path, "."))
		}
	})
}

// TestSchemaAccepts checks that the schema accepts files that the decoder accepts.
func TestSchemaAccepts(t *testing.T) {
	for _, name := range []string{exampleFile, "testdata/decode/seed.toml", "../../docker/factory.toml"} {
		full := read(t, name)
		if name == exampleFile { // every key
			full = regexp.MustCompile(`(?m)^#(\w)`).ReplaceAllString(full, "$1")
			full = regexp.MustCompile(`(?m)^# (\[\[fleet|name =|ssh =)`).ReplaceAllString(full, "$1")
		}
		var values map[string]any
		if _, err := toml.Decode(full, &values); err != nil {
			t.Fatal(err)
		}
		if wrong := schema(t).refuse(nil, values); len(wrong) > 0 {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

// TestSchemaRefuses tries every key with a value of each type, and an unknown key in every table. The schema must
// refuse what the decoder refuses for its type or as unknown.
func TestSchemaRefuses(t *testing.T) {
	root := schema(t)
	tried := 0
	try := func(path []string, value any) {
		if path[0] == "routes" && len(path) == 2 && value == "ten" {
			value = "name" // the decoder wants an agent
		}
		values := nested(path, value)
		d := &decoder{lookupEnv: inContainer, assigned: map[string]assignment{}}
		d.read(&table{d: d, values: values})
		refused := slices.ContainsFunc(d.mistakes, func(m Mistake) bool {
			key := strings.NewReplacer("fleet.hosts", "fleet.hosts.0", "name.windows", "name.windows.0").Replace(m.Key)
			return aboutType.MatchString(m.Text) && strings.HasPrefix(key, keyOf(path))
		})
		if wrong := root.refuse(nil, values); refused != (len(wrong) > 0) {
			t.Errorf("%s = %#v: the decoder reports %v, the schema %q", keyOf(path), value, d.mistakes, wrong)
		}
		tried++
	}
	eachKey(root, nil, func(path []string, s *shape) {
		for _, value := range []any{
			"ten", "", int64(3), int64(-1), int64(math.MaxInt64), 2.5, true,
			[]any{},
			[]any{int64(0)},
			[]any{"name"},
			[]any{""},
			[]any{2.5},
			map[string]any{},
			map[string]any{"colour": int64(1)},
		} {
			if s.Type != nil { // a key without a type accepts every value
				try(path, value)
			}
		}
		if s.Type == "object" && s.More == false {
			try(append(slices.Clone(path), "colour"), int64(1))
		}
	})
	try([]string{"colour"}, int64(1))
	if tried < 1000 {
		t.Errorf("tried %d values, want at least 1000", tried)
	}
}

// TestDurationPattern compares the schema's pattern for durations with the decoder.
func TestDurationPattern(t *testing.T) {
	for _, text := range []string{
		"5s", "1h30m", "1.5h", ".5m", "5.s", "+2h", "0", "+0", "30d", "9999d", "12345d", "1d2h", "d", "", "5", "5 s", "1h ",
		"1y", "µs", "3µs", "1h-2m",
	} {
		_, err := parseDuration(text)
		if fits := regexp.MustCompile(durationPattern).MatchString(text); fits != (err == nil) {
			t.Errorf("%q matches the pattern: %v; error of the decoder: %v", text, fits, err)
		}
	}
}

// aboutType matches the mistakes that a schema can find: in type, grammar and range.
var aboutType = regexp.MustCompile(`^unknown key|^(is|has) (a|an|true or false|one of) ` +
	`?(string|number|fraction|table|list|date)?.*want|` +
	`^is true or false|^is -?\d+, want (at |more |\d+ (\(first\) )?to)|^has -?\d+ in it|want a (duration|size)|^is ` +
	`"[^"]*", want "|has an empty string|^is 2\.5, want|want "needs-human"|` +
	`^has "[^"]*" in it, want a list of TCP`)

// named stands in a path for a name that the user chooses.
const named = "name"

// eachKey visits every key of a schema.
func eachKey(s *shape, path []string, visit func([]string, *shape)) {
	if len(path) > 0 {
		visit(path, s)
	}
	if s.Items != nil && s.Items.Type == "object" {
		eachKey(s.Items, append(slices.Clone(path), "0"), visit)
	}
	if each, ok := s.More.(*shape); ok {
		eachKey(each, append(slices.Clone(path), named), visit)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		eachKey(s.Properties[key], append(slices.Clone(path), key), visit)
	}
}

// nested returns a file with one key, and with the keys without which the decoder would not read it.
func nested(path []string, value any) map[string]any {
	inner := value
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == "0" {
			inner = []any{inner}
			continue
		}
		inner = map[string]any{path[i]: inner}
	}
	values := inner.(map[string]any)
	if path[0] == "agents" || path[0] == "routes" {
		values["threads"] = map[string]any{"llama": map[string]any{"agents": []any{named}}}
	}
	return values
}

func keyOf(path []string) string { return strings.Join(path, ".") }

// schema reads the schema as an editor does.
func schema(t *testing.T) *shape {
	t.Helper()
	s := new(shape)
	if err := json.Unmarshal([]byte(read(t, schemaFile)), s); err != nil {
		t.Fatal(err)
	}
	return s.readMore(t)
}

func (s *shape) readMore(t *testing.T) *shape {
	for _, below := range s.Properties {
		below.readMore(t)
	}
	if s.Items != nil {
		s.Items.readMore(t)
	}
	if m, ok := s.More.(map[string]any); ok {
		raw, err := json.Marshal(m)
		each := new(shape)
		if err == nil {
			err = json.Unmarshal(raw, each)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.More = each.readMore(t)
	}
	return s
}

// refuse returns why a schema refuses a value. It supports only the keywords of shape.
func (s *shape) refuse(path []string, value any) (wrong []string) {
	no := func(why string) { wrong = append(wrong, keyOf(path)+": "+why) }
	types := map[string]bool{}
	switch s.Type.(type) {
	case string:
		types[s.Type.(string)] = true
	case []any:
		for _, one := range s.Type.([]any) {
			types[one.(string)] = true
		}
	}
	is, number := "", 0.0
	switch v := value.(type) {
	case string:
		is = "string"
		if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v) || len(v) < s.MinLength || s.Enum != nil &&
			!slices.Contains(s.Enum, v) {
			no("the string does not match")
		}
	case bool:
		is = "boolean"
	case int64:
		if is, number = "integer", float64(v); types["number"] {
			is = "number"
		}
	case float64:
		is, number = "number", v
	case []map[string]any:
		is = "array"
		for _, one := range v {
			wrong = append(wrong, s.Items.refuse(append(path, "0"), one)...)
		}
	case []any:
		is = "array"
		for i, one := range v {
			if s.Items != nil {
				wrong = append(wrong, s.Items.refuse(append(path, "0"), one)...)
			}
			if s.Unique && slices.Contains(v[:i], one) {
				no("an element is there twice")
			}
		}
	case map[string]any:
		is = "object"
		for key, one := range v {
			switch below := s.Properties[key]; {
			case below != nil:
				wrong = append(wrong, below.refuse(append(slices.Clone(path), key), one)...)
			case s.More == false:
				no(key + " is unknown")
			default:
				if each, ok := s.More.(*shape); ok {
					wrong = append(wrong, each.refuse(append(slices.Clone(path), key), one)...)
				}
			}
		}
	}
	if len(types) > 0 && !types[is] {
		no(fmt.Sprintf("is %s", is))
	}
	if is == "integer" || is == "number" {
		if s.Minimum != nil && number < float64(*s.Minimum) || s.Maximum != nil && number > float64(*s.Maximum) ||
			s.Above != nil && number <= float64(*s.Above) || s.Below != nil && number >= float64(*s.Below) {
			no("is out of range")
		}
	}
	return wrong
}
