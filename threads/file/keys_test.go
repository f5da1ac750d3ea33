package file

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents/tomltext"
)

const keysFile = "../../docs/keys.md"

// TestKeys compares the reference of all keys with the decoder and the example; go test ./threads/file -run TestKeys
// -update writes it.
func TestKeys(t *testing.T) {
	text := keysPage(t)
	if *update {
		if err := os.WriteFile(keysFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := gocmp.Diff(read(t, keysFile), text); diff != "" {
		t.Errorf("docs/keys.md differs (go test -update rewrites it) (-want +got):\n%s", diff)
	}
}

const keysBegin = `# Keys of factory.toml

<!-- go test ./threads/file -run TestKeys -update writes this page from factory.toml.example and the decoder -->

Durations are 30s, 15m, 6h, 1h30m or 30d; sizes are 512M or 10G, in powers of 1024; *strings* are a list. A string may be written
"$NAME": its value comes from the environment or from secrets.env, and no agent to which it does not belong gets that
variable. Unknown keys are errors. A blank default means none, or that the text gives it.
[factory.toml.example](../factory.toml.example) has the same texts in a file that loads.
`

// keysPage returns the reference: a section for each table of factory.toml, in the order of the example, and a row for
// each key that the decoder reads. Keys that share a comment in the example share a row.
func keysPage(t *testing.T) string {
	t.Helper()
	root, err := recorded()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(read(t, exampleFile), "\n")
	describe(root, strings.Join(lines, "\n"))
	at := exampleLines(lines)
	var b strings.Builder
	b.WriteString(keysBegin)
	names := slices.SortedFunc(maps.Keys(root.Properties), func(x, y string) int { return cmp.Compare(at[x], at[y]) })
	for _, name := range names {
		s, header := root.Properties[name], name
		if each, ok := s.More.(*shape); ok && len(each.Properties) > 0 {
			s, header = each, name+".NAME"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", name, sectionText(lines, name, at[name]))
		writeKeys(&b, header, s, at)
	}
	return b.String()
}

// exampleLines returns the first line, from 1, of each key and table of the example, defaults included. A name that the
// user chooses is NAME in a key's path.
func exampleLines(example []string) map[string]int {
	lines := slices.Clone(example)
	for i, line := range lines {
		if pair := commentedPair(line); pair != "" {
			lines[i] = pair
		}
	}
	at := make(map[string]int)
	for key, line := range tomltext.Lines(strings.Join(lines, "\n")) {
		parts := strings.Split(key, ".")
		if len(parts) > 2 {
			parts[1] = "NAME"
		}
		key = strings.Join(parts, ".")
		if at[key] == 0 || line < at[key] {
			at[key] = line
		}
	}
	return at
}

// writeKeys writes the table of a section.
func writeKeys(b *strings.Builder, header string, s *shape, at map[string]int) {
	if len(s.Properties) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| `[%s]` | values | default | |\n|---|---|---|---|\n", header)
	line := func(key string) int { return at[header+"."+key] }
	keys := slices.SortedFunc(maps.Keys(s.Properties), func(x, y string) int {
		return cmp.Or(cmp.Compare(line(x), line(y)), cmp.Compare(x, y))
	})
	var names, values, defaults []string
	for i, key := range keys {
		text, def, _ := strings.Cut(s.Properties[key].Description, " Default: ")
		if strings.Contains(text, "Without this key") || strings.Contains(text, "Without these keys") {
			def = "" // the text says it
		} else if def != "" {
			def = "`" + def + "`"
		}
		names, values = append(names, "`"+key+"`"), append(values, accepts(s.Properties[key]))
		defaults = append(defaults, def)
		if i+1 < len(keys) {
			if next, _, _ := strings.Cut(s.Properties[keys[i+1]].Description, " Default: "); next == text {
				continue
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", strings.Join(names, "<br>"), strings.Join(values, "<br>"),
			strings.Trim(strings.Join(defaults, "<br>"), "<br>"), strings.ReplaceAll(withLinks(text), "|", `\|`))
		names, values, defaults = nil, nil, nil
	}
}

// accepts returns the values of a key, for people.
func accepts(s *shape) string {
	switch {
	case s.Enum != nil:
		return "`\"" + strings.Join(s.Enum, "\"` `\"") + "\"`"
	case s.Pattern == durationPattern:
		return "duration"
	case s.Pattern == sizeGrammar.String():
		return "size"
	}
	types, several := s.Type.([]string)
	if !several {
		name, _ := s.Type.(string)
		types = []string{name}
	}
	var out []string
	for _, name := range types {
		switch {
		case name == "object" && len(s.Properties) == 0:
			out = append(out, "table of strings")
		case name == "object":
			out = append(out, "table: `"+strings.Join(slices.Sorted(maps.Keys(s.Properties)), "` `")+"`")
		case name == "array" && s.Items != nil && s.Items.Type == "object":
			out = append(out, "list of tables: `"+strings.Join(slices.Sorted(maps.Keys(s.Items.Properties)), "` `")+"`")
		case name == "array" && s.Items != nil && s.Items.Type == "string" && s.Items.Enum == nil:
			out = append(out, "strings")
		case name == "array" && s.Items != nil:
			out = append(out, "list of "+accepts(s.Items))
		case (name == "integer" || name == "number") && s.Maximum != nil && s.Minimum != nil:
			out = append(out, fmt.Sprintf("%d to %d", *s.Minimum, *s.Maximum))
		case name == "boolean":
			out = append(out, "`true` `false`")
		case name == "string" && several && s.Pattern != "":
			out = append(out, "`\""+strings.ReplaceAll(strings.Trim(s.Pattern, "^()$"), "|", "\"` `\"")+"\"`")
		default:
			out = append(out, name)
		}
	}
	return strings.Join(out, ", or ")
}

var (
	rule    = regexp.MustCompile(`^# -+$`)
	pageRef = regexp.MustCompile(`docs/([a-z-]+)\.md`)
)

// sectionText returns the text below the rule above a section's first line, from 1.
func sectionText(example []string, name string, line int) string {
	begin := line - 1
	for begin > 0 && !rule.MatchString(example[begin]) {
		begin--
	}
	var blocks []string
	begins := true // a paragraph or a list
	for _, line := range example[begin+1 : line] {
		text, comment := strings.CutPrefix(line, "# ")
		if !comment {
			break
		}
		switch {
		case strings.HasPrefix(text, "  "):
			name, keys, _ := strings.Cut(strings.Join(strings.Fields(text), " "), " ")
			blocks, begins = append(blocks, fmt.Sprintf("- `%s`: `%s`", name, keys)), true
		case begins:
			blocks, begins = append(blocks, "\n"+text), false
		default:
			blocks[len(blocks)-1] += " " + text
		}
	}
	text := strings.TrimSpace(strings.Join(blocks, "\n"))
	if title, after, ok := strings.Cut(text, ": "); ok && strings.EqualFold(title, name) {
		text = strings.ToUpper(after[:1]) + after[1:]
	}
	return withLinks(text)
}

// withLinks makes links of the names of pages.
func withLinks(text string) string { return pageRef.ReplaceAllString(text, "[$1]($1.md)") }

// TestMoneyPage checks that docs/money.md has the most sessions that the defaults allow.
func TestMoneyPage(t *testing.T) {
	cfg, err := Decode("factory.toml", worker, inContainer)
	if err != nil {
		t.Fatal(err)
	}
	page := read(t, "../../docs/money.md")
	for _, n := range []int{cfg.Forge.MaxSessions(), cfg.Forge.MaxSessionsDay} {
		if !strings.Contains(page, fmt.Sprintf("| %d |\n", n)) {
			t.Errorf("docs/money.md has no row that ends in %d", n)
		}
	}
}
