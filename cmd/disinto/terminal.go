package main

import (
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
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

// view is how documents are shown there.
func (t *terminal) view(now time.Time) screen.View {
	width, _ := t.size()
	return screen.View{Now: now, Width: width, Colour: t.colour}
}

// live reports whether the output can be redrawn.
func (t *terminal) live() bool { return t.file != nil }

// size is the width and height in characters. An output that is no terminal has neither: a program that reads it must
// not find a row cut or wrapped.
func (t *terminal) size() (width, height int) {
	if t.file == nil {
		return 0, 0
	}
	if w, h, err := term.GetSize(int(t.file.Fd())); err == nil && w > 0 && h > 0 {
		return w, h
	}
	return 80, 24 // docker exec -t has a terminal without a size at first
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
