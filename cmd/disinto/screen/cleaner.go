package screen

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Cleaner is a writer that makes what a program printed safe to show on a terminal: lines stay lines, and everything
// that would move the cursor, colour, rename the window or answer as if it were typed is left out. A sequence may
// come in pieces.
type Cleaner struct {
	W    io.Writer // where the clean text goes
	rest []byte    // an unfinished character
	in   escape
	cr   bool // the last character was a carriage return
}

// escape is where in an escape sequence the text stands.
type escape int

const (
	noEscape    escape = iota
	afterEscape        // ESC
	inControl          // ESC [ ... up to its last character
	inString           // ESC ] and the like: up to BEL or ESC \
	inStringEnd        // ESC in such a string
	inCharset          // ESC ( and the like: one more character
)

// Write counts what it leaves out as written.
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
	// A progress bar draws over its line again and again; here each is a line of its own.
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

// next is where the text stands after one more character of a sequence.
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
		case '\a', '\n': // a line break ends what was never closed: the rest of the log must not vanish
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
