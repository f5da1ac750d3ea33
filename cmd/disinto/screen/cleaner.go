package screen

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Cleaner is a writer that makes a program's output safe for a terminal. It keeps line breaks and tabs, and drops every
// sequence that could move the cursor, change colours, rename the window or simulate typed input. A sequence may be
// split between writes.
type Cleaner struct {
	W    io.Writer // the destination of the clean text
	rest []byte    // an unfinished character
	in   escape
	cr   bool // the last character was a carriage return
}

// escape is the state of the parser of escape sequences.
type escape int

const (
	noEscape    escape = iota
	afterEscape        // ESC
	inControl          // after ESC [, until its last character
	inString           // after ESC ] and similar, until BEL or ESC \
	inStringEnd        // after ESC in such a string
	inCharset          // after ESC ( and similar, for one more character
)

// Write cleans p and writes the result to W. It counts dropped bytes as written.
func (c *Cleaner) Write(p []byte) (int, error) {
	text := append(c.rest, p...)
	var b strings.Builder
	for len(text) > 0 && utf8.FullRune(text) {
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		c.rune(&b, r)
	}
	c.rest = append([]byte(nil), text...)
	if _, err := io.WriteString(c.W, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *Cleaner) rune(b *strings.Builder, r rune) {
	if c.in != noEscape {
		c.in = c.in.next(r)
		return
	}
	// A progress bar overwrites its line after each carriage return; print each version as a line.
	if c.cr && r != '\n' && r != '\r' {
		b.WriteByte('\n')
	}
	c.cr = r == '\r'
	switch {
	case r == '\x1b':
		c.in = afterEscape
	case r == '\n', r == '\t':
		b.WriteRune(r)
	case printable(r):
		b.WriteRune(r)
	}
}

// next returns the state after one more character of a sequence.
func (e escape) next(r rune) escape {
	switch e {
	case afterEscape:
		switch {
		case r == '[':
			return inControl
		case strings.ContainsRune("]PX^_", r):
			return inString
		case r >= ' ' && r <= '/':
			return inCharset
		}
		return noEscape
	case inControl:
		if r >= '@' && r <= '~' || r == '\n' {
			return noEscape
		}
	case inString:
		switch r {
		case '\a', '\n': // a line break ends an unterminated string, or the rest of the log would vanish
			return noEscape
		case '\x1b':
			return inStringEnd
		}
	case inStringEnd:
		return noEscape
	case inCharset:
		if r < ' ' || r > '/' {
			return noEscape
		}
	}
	return e
}
