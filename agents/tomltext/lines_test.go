package tomltext

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

// TestLines checks a text with everything that can confuse a scanner. The number in each value or comment is its line.
func TestLines(t *testing.T) {
	text := `# 1
top = 2 # "not a key = 1"
long = """
a = 1
[b]
\""" quoted """
raw = '''
it's \'''
five = """ two more quotes""""" # 9
list = [
  1, # ]
  "]", 'x = 1', """
  ]""",
]
end = 15
"quoted.key" = 16
'raw "key"' = 17
"esc\"aped = " = 18
a.b."c.d" = 19
"" = 20
date = 1979-05-27 07:32:00 # 21

[ t . "u.v" ] # 23
x = 24
y.z = 25
inline = { p = 26, q.r = [ { s = 26 }, { s = 26 } ], "w}" = 26 }
multi = {
  p = 28,
  q = [
    30, # }
  ],
}
[[at]]
p = 34
[[at]] # 35
p = 36
[at.sub]
q = 38`
	lines := map[string]int{
		"top": 2, "long": 3, "raw": 7, "five": 9, "list": 10, "end": 15, `"quoted.key"`: 16, `"raw \"key\""`: 17,
		`"esc\"aped = "`: 18, "a": 19, "a.b": 19, `a.b."c.d"`: 19, `""`: 20, "date": 21,
		"t": 23, `t."u.v"`: 23, `t."u.v".x`: 24, `t."u.v".y`: 25, `t."u.v".y.z`: 25,
		`t."u.v".inline`: 26, `t."u.v".inline.p`: 26, `t."u.v".inline.q`: 26, `t."u.v".inline.q.r`: 26,
		`t."u.v".inline.q.r.s`: 26, `t."u.v".inline.q.r.s[2]`: 26, `t."u.v".inline."w}"`: 26,
		`t."u.v".multi`: 27, `t."u.v".multi.p`: 28, `t."u.v".multi.q`: 29,
		"at": 33, "at.p": 34, "at.sub": 37, "at.sub.q": 38, "at[2]": 35, "at[2].p": 36, "at[2].sub": 37, "at[2].sub.q": 38,
	}
	for name, ends := range map[string]string{"unix": "\n", "windows": "\r\n"} {
		text := strings.ReplaceAll(text, "\n", ends)
		got := Lines(text)
		if diff := cmp.Diff(lines, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// decoderLine makes the TOML package report the line of a key by refusing its value. That fails for tables without a
// header, and returns the last line of a value with several.
func decoderLine(md *toml.MetaData, p toml.Primitive) int {
	var pe toml.ParseError
	errors.As(md.PrimitiveDecode(p, refuser{}), &pe)
	return pe.Position.Line
}

type refuser struct{}

func (refuser) UnmarshalTOML(any) error { return errors.New("refused") }

// checkLines compares the lines of all keys with single-line values with the TOML package's.
func checkLines(t *testing.T, text string) {
	var top map[string]toml.Primitive
	md, err := toml.Decode(text, &top)
	if err != nil {
		return
	}
	if found, keys := scan(text).headings, md.Keys(); !slices.EqualFunc(found, keys,
		func(h heading, k toml.Key) bool { return slices.Equal(h.path, k) }) {
		t.Fatalf("scan found %v, the decoder found %v, in %q", found, keys, text)
	}
	lines := Lines(text)
	var walk func(path toml.Key, m map[string]toml.Primitive)
	walk = func(path toml.Key, m map[string]toml.Primitive) {
		for name, p := range m {
			key := append(path[:len(path):len(path)], name)
			var table map[string]toml.Primitive
			if md.PrimitiveDecode(p, &table) == nil && table != nil {
				walk(key, table)
				continue
			}
			var value any
			if md.PrimitiveDecode(p, &value) != nil {
				continue
			}
			switch v := value.(type) {
			case []map[string]any, []any:
				continue // the package reports the position of the last element
			case string:
				if strings.Contains(v, "\n") || strings.Contains(text, `"""`) || strings.Contains(text, "'''") {
					continue
				}
			}
			if want, got := decoderLine(&md, p), lines[key.String()]; want != got {
				t.Errorf("%s is on line %d, the decoder says %d, in %q", key, got, want, text)
			}
		}
	}
	walk(nil, top)
}

// FuzzLines compares the scanner with the TOML package.
func FuzzLines(f *testing.F) {
	for _, text := range []string{
		"a = 1\n[b]\nc.d = \"x\" # y\n", "[[a]]\nb = {c = 1, d = [1,\n2]}\n", "a = \"\"\"\n\\\"\"\"\"\"\"\n'b'=''",
		"a=[[],[{}],\n]\nb=2",
		"a = '''\n''''\nb = 1", "\ufeffa = 1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkLines(t, text) })
}
