package file

import (
	"fmt"
	"maps"
	"strings"

	"github.com/BurntSushi/toml"
)

// linesOf says on which line each key of a TOML text stands, by toml.Key.String. keys are the text's own, in the order
// in which the decoder met them. A table that no header names, such as a in a.b = 1, stands where it is first used;
// of an array of tables the first element counts, and those behind it have elementName in place of their own name.
//
// The decoder tells the line of a syntax error only, so the text is scanned a second time. The scanner does not read
// names: it only finds where keys begin, and the decoder has said which ones these are.
func linesOf(text string, keys []toml.Key) map[string]int {
	found := keyLines(text)
	lines := make(map[string]int, len(keys))
	times := make(map[string]int) // that a key stands in the text by itself; only elements of arrays do more than once
	for i, key := range keys[:min(len(keys), len(found))] {
		own := key.String()
		if times[own]++; times[own] > 1 {
			maps.DeleteFunc(times, func(k string, _ int) bool { return strings.HasPrefix(k, own+".") })
		}
		element := ""
		for n := 1; n <= len(key); n++ {
			k := key[:n].String()
			element = strings.TrimPrefix(element+"."+key[n-1:n].String(), ".")
			if times[k] > 1 {
				element = elementName(element, times[k])
			}
			for _, name := range []string{k, element} {
				if lines[name] == 0 {
					lines[name] = found[i]
				}
			}
		}
	}
	return lines
}

// elementName is what the nth table of an array is called among the lines, from 2. No key is: one with brackets is quoted.
func elementName(array string, n int) string { return fmt.Sprintf("%s[%d]", array, n) }

// keyLines is the line of every table header, key and inline key of a TOML text, in the order of the text. The text
// must be valid; of one that is not it answers something.
func keyLines(text string) []int {
	for _, mark := range []string{"\ufeff", "\xff\xfe", "\xfe\xff"} { // byte order marks, which the decoder skips too
		text = strings.TrimPrefix(text, mark)
	}
	s := keyScanner{rest: text, line: 1}
	for s.skip(" \t\r\n"); s.rest != ""; s.skip(" \t\r\n") {
		if s.rest[0] == '[' {
			s.lines = append(s.lines, s.line)
			s.take(len(s.rest) - len(strings.TrimLeft(s.rest, "[")))
			s.key(']')
			s.take(len(s.rest) - len(strings.TrimLeft(s.rest, "]")))
		} else {
			s.pair()
		}
	}
	return s.lines
}

// keyScanner walks through a TOML text without keeping anything of it but where keys begin.
type keyScanner struct {
	rest  string
	line  int // of the beginning of rest, from 1
	lines []int
}

// take moves n bytes on.
func (s *keyScanner) take(n int) {
	n = min(n, len(s.rest))
	s.line += strings.Count(s.rest[:n], "\n")
	s.rest = s.rest[n:]
}

// skip moves over white space, of which the caller says what it is, and comments.
func (s *keyScanner) skip(space string) {
	for {
		s.take(len(s.rest) - len(strings.TrimLeft(s.rest, space)))
		if !strings.HasPrefix(s.rest, "#") {
			return
		}
		s.until("\n")
	}
}

// until moves to the next of the characters.
func (s *keyScanner) until(chars string) {
	if i := strings.IndexAny(s.rest, chars); i >= 0 {
		s.take(i)
	} else {
		s.take(len(s.rest))
	}
}

// pair moves over a key and its value.
func (s *keyScanner) pair() {
	s.lines = append(s.lines, s.line)
	s.key('=')
	s.take(1)
	s.value()
}

// key moves to what ends a key, seeing quoted parts as wholes.
func (s *keyScanner) key(end byte) {
	for s.rest != "" && s.rest[0] != end {
		if s.rest[0] == '"' || s.rest[0] == '\'' {
			s.quoted()
		} else {
			s.take(1)
		}
	}
}

func (s *keyScanner) value() {
	s.skip(" \t")
	if s.rest == "" {
		return
	}
	switch s.rest[0] {
	case '"', '\'':
		s.quoted()
	case '[':
		s.list(']', s.value)
	case '{':
		s.list('}', s.pair)
	default:
		s.until(",]}#\n") // a number, a date, true or false
	}
}

// list moves over an array or inline table, whose elements are moved over by element.
func (s *keyScanner) list(end byte, element func()) {
	s.take(1)
	for {
		s.skip(" \t\r\n,")
		if s.rest == "" || s.rest[0] == end {
			s.take(1)
			return
		}
		before := len(s.rest)
		element()
		if len(s.rest) == before {
			s.take(1) // not TOML; do not stand still
		}
	}
}

// quoted moves over a string of any of the four kinds.
func (s *keyScanner) quoted() {
	quote := s.rest[:1]
	if long := strings.Repeat(quote, 3); strings.HasPrefix(s.rest, long) {
		s.take(3)
		s.to(long, quote == `"`)
		// Up to two quotes may stand directly before the closing three.
		s.take(min(2, len(s.rest)-len(strings.TrimLeft(s.rest, quote))))
		return
	}
	s.take(1)
	s.to(quote, quote == `"`)
}

// to moves behind the next end, not counting what a backslash escapes.
func (s *keyScanner) to(end string, escapes bool) {
	for i := 0; i < len(s.rest); i++ {
		if escapes && s.rest[i] == '\\' {
			i++
		} else if strings.HasPrefix(s.rest[i:], end) {
			s.take(i + len(end))
			return
		}
	}
	s.take(len(s.rest))
}
