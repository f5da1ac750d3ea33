package tomltext

import (
	"testing"

	"github.com/BurntSushi/toml"
)

// Mistake returns the line that a person has to change, and a problem without Go's type names.
func TestMistake(t *testing.T) {
	tests := []struct {
		name, text string
		line       int
		key, want  string
	}{
		{"table", "[f]\na = 1\n[threads.llama\nb = 2\n", 3, "", "[threads.llama is not closed: want ] at the end"},
		{"table, CRLF", "[f]\r\na = 1\r\n[t.l\r\n\r\nb = 2\r\n", 3, "", "[t.l is not closed: want ] at the end"},
		{"table at the end", "[f]\n[t.l", 2, "", "[t.l is not closed: want ] at the end"},
		{"table with a comment", "[f]\n[t.l # x\nb = 2\n", 2, "", "[t.l # x is not closed: want ] at the end"},
		{"array of tables", "[f]\n[[t.l]\nb = 2\n", 2, "", "[[t.l] is not closed: want ]] at the end"},
		{
			"list", "[f]\na = [\"q\"\n\n[x]\n", 2, "f.a",
			"the value that begins here is not closed: expected a comma (',') or array terminator (']'), but got '['",
		},
		{
			"list before a key", "[f]\na = [\"q\"\nb = 1\n", 2, "f.a",
			"the value that begins here is not closed: expected a comma (',') or array terminator (']'), but got 'b'",
		},
		{
			"comma", "[f]\na = [\n \"q\"\n \"r\"\n]\n", 4, "f.a",
			"expected a comma (',') or array terminator (']'), but got '\"'",
		},
		{"string", "[f]\na = \"q\nb = 1\n", 2, "f.a", "strings cannot contain newlines"},
		{
			"long string", "[f]\na = \"\"\"q\nb = 1\n", 2, "f.a",
			"the value that begins here is not closed: unexpected EOF; expected '\"\"\"'",
		},
		{"no value", "[f]\na =\nb = 1\n", 2, "f.a", "expected value but found '\\n' instead"},
		{
			"large number", "a = 99999999999999999999\n", 1, "a",
			"99999999999999999999 is out of range: no number is that large",
		},
		{"large fraction", "a = 1e999\n", 1, "a", "1e999 is out of range: no number is that large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var values map[string]any
			_, err := toml.Decode(tt.text, &values)
			if err == nil {
				t.Fatal("the text is valid TOML")
			}
			line, key, problem := Mistake(tt.text, err)
			if line != tt.line || key != tt.key || problem != tt.want {
				t.Errorf("got line %d, key %q: %s\nwant line %d, key %q: %s", line, key, problem, tt.line, tt.key, tt.want)
			}
		})
	}
}

// The line of a mistake lies in the text, whatever the text is.
func FuzzMistake(f *testing.F) {
	for _, text := range []string{"[a\n", "a = [1\n[b]", "a = \"\"\"", "\xff", "[[a\r\n", "a=1e999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var values map[string]any
		_, err := toml.Decode(text, &values)
		if err == nil {
			return
		}
		if line, _, problem := Mistake(text, err); line < 0 || line > 1+len(text) || problem == "" {
			t.Errorf("Mistake(%q) = line %d, %q, want a line of the text and a problem", text, line, problem)
		}
	})
}
