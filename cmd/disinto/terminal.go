package main

import (
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// terminal is how to write to an output: plainly, or with colour and redraw where a person looks at it.
type terminal struct {
	io.Writer
	file   *os.File // nil when the output is not a terminal
	colour bool
}

// terminal looks at stdout. NO_COLOR (any value, as no-color.org has it) and TERM=dumb switch colour off.
func (c *cli) terminal() *terminal {
	t := &terminal{Writer: c.stdout}
	f, ok := c.stdout.(*os.File)
	if ok && term.IsTerminal(int(f.Fd())) {
		t.file = f
		t.colour = c.getenv("NO_COLOR") == "" && c.getenv("TERM") != "dumb"
	}
	return t
}

// live reports whether the output can be redrawn.
func (t *terminal) live() bool { return t.file != nil }

// size is the width and height in characters. An output that is no terminal has 80 columns, so that what lands in
// a log or a bug report can be read anywhere, and no height.
func (t *terminal) size() (width, height int) {
	if t.file != nil {
		if w, h, err := term.GetSize(int(t.file.Fd())); err == nil && w > 0 {
			return w, h
		}
	}
	return 80, 0
}

// The control sequences of a redraw. The alternate screen keeps what stood there before, and a resize cannot leave
// torn lines on it.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeCursor  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// redraw replaces the screen by text. Each line clears what is behind it instead of the whole screen first: that
// would flicker.
func (t *terminal) redraw(text string) error {
	text = strings.TrimSuffix(text, "\n")
	text = strings.ReplaceAll(text, "\n", clearLine+"\r\n")
	_, err := io.WriteString(t, homeCursor+text+clearLine+clearBelow)
	return err
}

// clean makes text that came from the forge, an agent or a file safe to print on one line: no control characters,
// no escape sequences, no bidirectional overrides or invisible characters that would show something else than what
// is there. A line break becomes a space.
func clean(s string) string {
	// A lone byte such as 0x9b is not UTF-8, but the start of an escape sequence to some terminals.
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !plainRune(r) }) {
		return s
	}
	var b strings.Builder
	space := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = true
		case plainRune(r):
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			}
			space = false
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plainRune says what may reach a terminal.
func plainRune(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r)
}

// cells is how many columns a terminal needs for s. East Asian wide characters and emoji take two, combining marks
// none. It covers what titles contain, not all of Unicode.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

func runeCells(r rune) int {
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

// cut shortens s to at most n columns; the last is then an ellipsis.
func cut(s string, n int) string {
	if cells(s) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	used := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if used+runeCells(r) > n-1 {
			return strings.TrimRight(s[:i], " ") + "…"
		}
		used += runeCells(r)
		i += size
	}
	return s
}
