package screen

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Clean makes text from the forge, an agent or a file safe to print on one line. It removes control characters, escape
// sequences, bidirectional overrides and invisible characters, and replaces line breaks by spaces.
func Clean(s string) string {
	// A lone byte such as 0x9b is not UTF-8, and starts an escape sequence on some terminals.
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !printable(r) }) {
		return s
	}
	var b strings.Builder
	space := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = true
		case printable(r):
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			}
			space = false
			b.WriteRune(r)
		}
	}
	return b.String()
}

// JSON makes a JSON document safe to print: it replaces unprintable characters in strings by equivalent escapes.
// Outside of strings, line breaks and tabs are the only control characters of valid JSON.
func JSON(raw []byte) string {
	var b strings.Builder
	for _, r := range string(raw) {
		switch {
		case r == '\n', r == '\r', r == '\t', printable(r) && r != utf8.RuneError:
			b.WriteRune(r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

// printable reports whether a character may reach a terminal.
func printable(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r)
}

// Columns returns the number of columns of s on a terminal. East Asian wide characters and emoji have two, combining
// marks none. It is exact for the characters that titles usually have, not for all of Unicode.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// cut shortens s to at most n columns, and ends a shortened s with an ellipsis.
func cut(s string, n int) string {
	if Columns(s) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	used := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if used+runeColumns(r) > n-1 {
			return strings.TrimRight(s[:i], " ") + "…"
		}
		used += runeColumns(r)
		i += size
	}
	return s
}

// wrap breaks s between words into lines of at most width columns, and splits longer words. It returns at least one
// line.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		for Columns(word) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			head, tail := splitAt(word, width)
			lines, word = append(lines, head), tail
		}
		switch {
		case line == "":
			line = word
		case Columns(line)+1+Columns(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}

// splitAt splits s after the characters that fit into width columns, but after at least one.
func splitAt(s string, width int) (head, tail string) {
	used := 0
	for i, r := range s {
		used += runeColumns(r)
		if used > width && i > 0 {
			return s[:i], s[i:]
		}
	}
	return s, ""
}
