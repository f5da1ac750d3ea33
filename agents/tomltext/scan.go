// Package tomltext edits TOML as text: comments, order and layout of everything that an edit does not touch stay. It
// also finds the line of each key. The TOML decoder returns only values; this package's scanner finds their positions.
//
// Texts must be valid TOML. An edit finds its position by reading keys and never checks values: callers decode the
// result.
package tomltext

import (
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// span is a range of bytes in a text.
type span struct{ from, to int }

// entry is a key with its value, on its own line or in an inline table.
type entry struct {
	path       []string // from the root
	base       []string // path of the table to which key is relative
	key, value span
	inline     bool // is in an inline table
}

// section holds the lines below one header, or above the first header.
type section struct {
	path []string // nil above the first header and for an element of an array of tables
	head span     // the header's line; empty above the first header
	end  int      // after the last line with one of its keys, or after the header
}

// heading is the position of a table header or of the key of a pair.
type heading struct {
	path []string // from the root
	at   int
}

// document is a TOML text with the positions of its parts, in text order.
type document struct {
	text     string
	sections []section // the first one holds the lines above all headers
	entries  []entry   // entries with a unique path: none inside arrays
	headings []heading // all of them, also those inside arrays
}

// byteOrderMarks can precede a text. The TOML decoder skips them.
var byteOrderMarks = []string{"\ufeff", "\xff\xfe", "\xfe\xff"}

// scan finds the positions in a TOML text. For an invalid text the positions are arbitrary.
func scan(text string) *document {
	s := &scanner{document: document{text: text}}
	for _, mark := range byteOrderMarks {
		if strings.HasPrefix(text, mark) {
			s.at = len(mark)
			break
		}
	}
	s.sections = []section{{end: s.at}}
	below, known := []string(nil), true
	for s.skipBlank(" \t\r\n"); s.at < len(text); s.skipBlank(" \t\r\n") {
		if text[s.at] != '[' {
			s.pair(below, false, known)
			s.sections[len(s.sections)-1].end = endOfLine(text, s.at)
			continue
		}
		at := s.at
		known = !s.starts("[[")
		s.skipAny("[ \t")
		below = s.key()
		s.skipAny("] \t")
		s.headings = append(s.headings, heading{below, at})
		end := endOfLine(text, s.at)
		header := section{head: span{startOfLine(text, at), end}, end: end}
		if known {
			header.path = below
		}
		s.sections = append(s.sections, header)
	}
	return &s.document
}

// scanner walks through a TOML text.
type scanner struct {
	document
	at int
}

func (s *scanner) rest() string { return s.text[s.at:] }

func (s *scanner) starts(with string) bool { return strings.HasPrefix(s.rest(), with) }

// skipAny moves past the given characters.
func (s *scanner) skipAny(chars string) {
	s.at = len(s.text) - len(strings.TrimLeft(s.rest(), chars))
}

// skipBlank moves past comments and the given white space.
func (s *scanner) skipBlank(space string) {
	for s.skipAny(space); s.starts("#"); s.skipAny(space) {
		s.until("\n")
	}
}

// until moves to the next of the given characters.
func (s *scanner) until(chars string) {
	if i := strings.IndexAny(s.rest(), chars); i >= 0 {
		s.at += i
	} else {
		s.at = len(s.text)
	}
}

// endOfLine returns the position after the next line break, or the end of the text.
func endOfLine(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

func startOfLine(text string, at int) int {
	return strings.LastIndexByte(text[:at], '\n') + 1
}

// pair moves past a key and its value. known is false inside arrays, where elements share their paths.
func (s *scanner) pair(base []string, inline, known bool) {
	e := entry{base: base, inline: inline}
	e.key.from = s.at
	e.path = slices.Concat(base, s.key())
	e.key.to = s.at
	s.headings = append(s.headings, heading{e.path, e.key.from})
	s.skipAny(" \t")
	s.at = min(s.at+1, len(s.text)) // the equals sign
	s.skipAny(" \t")
	n := len(s.entries)
	if known {
		s.entries = append(s.entries, e)
	}
	e.value.from = s.at
	s.value(e.path, known)
	e.value.to = s.at
	if known {
		s.entries[n] = e
	}
}

// key moves past a key and returns its parts.
func (s *scanner) key() []string {
	var parts []string
	for {
		s.skipAny(" \t")
		from := s.at
		if s.starts(`"`) || s.starts(`'`) {
			s.quoted()
			parts = append(parts, unquote(s.text[from:s.at]))
		} else {
			s.until(" \t.=]\r\n")
			parts = append(parts, s.text[from:s.at])
		}
		end := s.at
		s.skipAny(" \t")
		if !s.starts(".") {
			s.at = end
			return parts
		}
		s.at++
	}
}

func (s *scanner) value(path []string, known bool) {
	switch {
	case s.starts(`"`), s.starts(`'`):
		s.quoted()
	case s.starts("["):
		s.list("]", func() { s.value(path, false) })
	case s.starts("{"):
		s.list("}", func() { s.pair(path, true, known) })
	default: // a number, a date, true or false
		from := s.at
		s.until(",]}#\r\n")
		s.at = from + len(strings.TrimRight(s.text[from:s.at], " \t"))
	}
}

// list moves past an array or inline table.
func (s *scanner) list(end string, element func()) {
	s.at++
	for s.skipBlank(" \t\r\n,"); s.at < len(s.text) && !s.starts(end); s.skipBlank(" \t\r\n,") {
		before := s.at
		element()
		if s.at == before {
			return // not TOML
		}
	}
	s.at = min(s.at+1, len(s.text))
}

// quoted moves past a string of any of the four kinds.
func (s *scanner) quoted() {
	quote, escapes := s.text[s.at:s.at+1], s.text[s.at] == '"'
	if long := strings.Repeat(quote, 3); s.starts(long) {
		quote = long
	}
	s.at += len(quote)
	for s.at < len(s.text) && !s.starts(quote) {
		if escapes && s.text[s.at] == '\\' {
			s.at++
		}
		s.at++
	}
	s.at = min(s.at+len(quote), len(s.text))
	// A long string can end in one or two quotes that belong to it.
	for n := 0; len(quote) == 3 && n < 2 && s.starts(quote[:1]); n++ {
		s.at++
	}
}

// unquote decodes a quoted string. It returns "" for anything else.
func unquote(quoted string) string {
	var v struct{ V any }
	if _, err := toml.Decode("V = "+quoted, &v); err != nil {
		return ""
	}
	text, _ := v.V.(string)
	return text
}

// find returns the entry of a path, or nil.
func (d *document) find(path []string) *entry {
	i := slices.IndexFunc(d.entries, func(e entry) bool { return slices.Equal(e.path, path) })
	if i < 0 {
		return nil
	}
	return &d.entries[i]
}

// section returns the section whose header is a path, or nil.
func (d *document) section(path []string) *section {
	i := slices.IndexFunc(d.sections, func(s section) bool { return s.path != nil && slices.Equal(s.path, path) })
	if i < 0 {
		return nil
	}
	return &d.sections[i]
}

// isBelow reports whether a path leads into a table.
func isBelow(path, table []string) bool {
	return len(path) > len(table) && slices.Equal(path[:len(table)], table)
}

// within reports whether a path is a table's or leads into it.
func within(path, table []string) bool { return slices.Equal(path, table) || isBelow(path, table) }
