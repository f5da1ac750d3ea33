package main

import (
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

// terminal writes to an output: plain text, or with colour and redraws on a terminal.
type terminal struct {
	io.Writer
	file   *os.File // nil when the output is not a terminal
	colour bool
}

// terminal returns the terminal for stdout. NO_COLOR with any value, as no-color.org specifies, and TERM=dumb disable
// colour.
func (c *cli) terminal() *terminal {
	t := &terminal{Writer: c.stdout}
	f, ok := c.stdout.(*os.File)
	if ok && term.IsTerminal(int(f.Fd())) {
		t.file = f
		t.colour = c.getenv("NO_COLOR") == "" && c.getenv("TERM") != "dumb"
	}
	return t
}

// view returns the settings for showing documents there.
func (t *terminal) view(now time.Time) screen.View {
	width, _ := t.size()
	return screen.View{Now: now, Width: width, Colour: t.colour}
}

// live reports whether the output can be redrawn.
func (t *terminal) live() bool { return t.file != nil }

// size returns the width and height in characters; 0 for an output that is not a terminal, because a program that reads
// it needs rows that are neither cut nor wrapped.
func (t *terminal) size() (width, height int) {
	if t.file == nil {
		return 0, 0
	}
	if w, h, err := term.GetSize(int(t.file.Fd())); err == nil && w > 0 && h > 0 {
		return w, h
	}
	return 80, 24 // the terminal of docker exec -t has no size at first
}

// The control sequences of a redraw. The alternate screen preserves the text before it, and a resize leaves no broken
// lines on it.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeCursor  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// redraw replaces the screen by text. It clears the rest of each line, because clearing the whole screen first would
// flicker.
func (t *terminal) redraw(text string) error {
	text = strings.TrimSuffix(text, "\n")
	text = strings.ReplaceAll(text, "\n", clearLine+"\r\n")
	_, err := io.WriteString(t, homeCursor+text+clearLine+clearBelow)
	return err
}
