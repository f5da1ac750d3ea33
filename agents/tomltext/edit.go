package tomltext

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Set sets a key of a table to a value, which is TOML text. The rest of the text stays unchanged. A missing table is
// added at the end of the text, where it cannot separate a key from its comment. An empty table means the root.
func Set(text string, table []string, key, value string) string {
	d := scan(text)
	if e := d.find(slices.Concat(table, []string{key})); e != nil {
		return text[:e.value.from] + value + text[e.value.to:]
	}
	if len(table) == 0 {
		s := d.sections[0]
		return insertLine(text, s.end, indentBefore(text, s.end)+quoteKey(key)+" = "+value)
	}
	if s := d.section(table); s != nil {
		return insertLine(text, s.end, indentBefore(text, s.end)+quoteKey(key)+" = "+value)
	}
	if e := d.find(table); e != nil && strings.HasPrefix(text[e.value.from:], "{") {
		return insertPair(text, e.value, quoteKey(key)+" = "+value)
	}
	if e := d.lastBelow(table); e != nil {
		return insertBehind(text, e, relative(e.base, table, key)+" = "+value)
	}
	if parent, name := table[:len(table)-1], table[len(table)-1]; len(parent) > 0 {
		if e := d.find(parent); e != nil {
			return Set(text, parent, name, "{ "+quoteKey(key)+" = "+value+" }")
		}
	}
	text = endLine(text)
	if strings.TrimSpace(text) != "" {
		text += breakOf(text)
	}
	return text + "[" + relative(nil, table) + "]" + breakOf(text) + quoteKey(key) + " = " + value + breakOf(text)
}

// lastBelow returns the last entry that sets a key of a table without the table's header, as in agents.dev-qwen.model =
// "x".
func (d *document) lastBelow(table []string) *entry {
	for i := len(d.entries) - 1; i >= 0; i-- {
		if e := &d.entries[i]; isBelow(e.path, table) && len(e.base) < len(table) {
			return e
		}
	}
	return nil
}

// insertBehind adds a pair after an entry, inline or on its own line as the entry is.
func insertBehind(text string, e *entry, pair string) string {
	if e.inline {
		return text[:e.value.to] + ", " + pair + text[e.value.to:]
	}
	end := endOfLine(text, e.value.to)
	return insertLine(text, end, indentBefore(text, end)+pair)
}

// insertPair adds a pair to the inline table at a position.
func insertPair(text string, table span, pair string) string {
	inside := strings.TrimRight(text[table.from+1:table.to-1], " \t\r\n")
	at := table.from + 1 + len(inside)
	switch {
	case inside == "":
		return text[:table.from] + "{ " + pair + " }" + text[table.to:]
	case strings.HasSuffix(inside, ","):
		return text[:at] + " " + pair + text[at:]
	}
	return text[:at] + ", " + pair + text[at:]
}

// insertLine inserts a line before the line at a position, or at the end of the text.
func insertLine(text string, at int, line string) string {
	if at == len(text) {
		return AppendLine(text, line)
	}
	return text[:at] + line + breakOf(text) + text[at:]
}

// AppendLine adds a line to the end of a text.
func AppendLine(text, line string) string { return endLine(text) + line + breakOf(text) }

// endLine gives the last line a line break if it has none.
func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + breakOf(text)
}

// breakOf returns the line break that a text uses.
func breakOf(text string) string {
	if strings.Contains(text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// indentBefore returns the indentation of the line that ends at a position.
func indentBefore(text string, at int) string {
	line := strings.TrimSuffix(text[:at], "\n")
	line = strings.TrimPrefix(line[strings.LastIndexByte(line, '\n')+1:], byteOrderMarks[0])
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// relative formats the path of a table, and keys in it, relative to the table base.
func relative(base, table []string, keys ...string) string {
	parts := slices.Concat(table[len(base):], keys)
	for i := range parts {
		parts[i] = quoteKey(parts[i])
	}
	return strings.Join(parts, ".")
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func quoteKey(key string) string {
	if bareKey.MatchString(key) {
		return key
	}
	return Quote(key)
}

// Quote formats a string as TOML.
func Quote(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

// QuoteList formats an array of strings on one line.
func QuoteList(list []string) string {
	quoted := make([]string, len(list))
	for i := range list {
		quoted[i] = Quote(list[i])
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Cut removes a table from a text: its sections and their subtables, or the pairs that set its keys without a header.
// Comments between its keys are removed too; all others stay.
func Cut(text string, table []string) string {
	for {
		shorter, ok := cutOne(text, table)
		if !ok {
			return text
		}
		text = shorter
	}
}

func cutOne(text string, table []string) (string, bool) {
	d := scan(text)
	for _, s := range d.sections {
		if s.path != nil && within(s.path, table) {
			return cutLines(text, s.head.from, s.end), true
		}
	}
	for _, e := range d.entries {
		if !within(e.path, table) {
			continue
		}
		if e.inline {
			return cutPair(text, span{e.key.from, e.value.to}), true
		}
		return cutLines(text, startOfLine(text, e.key.from), endOfLine(text, e.value.to)), true
	}
	return text, false
}

// cutLines removes lines. Between two empty lines, and at the end of the text, it also removes the one before.
func cutLines(text string, from, to int) string {
	before, after := text[:from], text[to:]
	gap := strings.HasSuffix(before, "\n\n") || strings.HasSuffix(before, "\n\r\n")
	if gap && strings.TrimLeft(after[:endOfLine(after, 0)], " \t\r\n") == "" {
		before = strings.TrimSuffix(strings.TrimSuffix(before, "\n"), "\r")
	}
	return before + after
}

// cutPair removes a pair from an inline table, together with one adjacent comma.
func cutPair(text string, pair span) string {
	after := strings.TrimLeft(text[pair.to:], " \t\r\n")
	if rest, ok := strings.CutPrefix(after, ","); ok {
		return text[:pair.from] + strings.TrimLeft(rest, " \t")
	}
	before := strings.TrimRight(text[:pair.from], " \t\r\n")
	return strings.TrimSuffix(before, ",") + text[pair.to:]
}

// CommentOut turns the lines of a table with a header, and of its subtables, into comments.
func CommentOut(text string, table []string) string {
	for _, s := range slices.Backward(scan(text).sections) {
		if s.path == nil || !within(s.path, table) {
			continue
		}
		var b strings.Builder
		for line := range strings.Lines(text[s.head.from:s.end]) {
			b.WriteString("# " + line)
		}
		text = text[:s.head.from] + b.String() + text[s.end:]
	}
	return text
}
