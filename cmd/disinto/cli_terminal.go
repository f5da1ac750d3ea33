package main

import (
	"context"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/cmd/disinto/watch"
)

// terminal writes to an output: plain text, or with colour on a terminal.
type terminal struct {
	io.Writer
	file    *os.File // nil when the output is not a terminal, or one that cannot be redrawn
	colour  bool
	width   int // 0 for no limit
	height  int // the same
	environ []string
}

// terminal returns the terminal for stdout. NO_COLOR with any value, as no-color.org specifies, and TERM=dumb disable
// colour.
func (c *cli) terminal() *terminal {
	t := &terminal{Writer: c.stdout, width: c.width, environ: c.environ}
	f, ok := c.stdout.(*os.File)
	if ok && term.IsTerminal(int(f.Fd())) {
		t.width, t.height = sizeOf(f)
		if c.getenv("TERM") != "dumb" {
			t.file = f
			t.colour = c.getenv("NO_COLOR") == ""
		}
	}
	return t
}

// view returns the settings for showing documents there.
func (t *terminal) view(now time.Time) screen.View {
	return screen.View{Now: now, Width: t.width, Height: t.height, Colour: t.colour}
}

// live reports whether the output can be redrawn.
func (t *terminal) live() bool { return t.file != nil }

// shown reports whether a person sees the output, and not a program.
func (t *terminal) shown() bool { return t.width > 0 }

// sizeOf returns the size in characters. An output that is not a terminal has none, because a program that reads it
// needs rows that are neither cut nor wrapped.
func sizeOf(f *os.File) (width, height int) {
	if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
		return w, h
	}
	return 80, 24 // the terminal of docker exec -t has no size at first
}

// program returns the screen of a model. With a nil in it takes no keys.
func (t *terminal) program(ctx context.Context, m watch.Model, in *os.File) *tea.Program {
	options := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithOutput(t.file), tea.WithEnvironment(t.environ), tea.WithoutSignalHandler(),
		tea.WithInput(nil),
	}
	if in != nil {
		options[len(options)-1] = tea.WithInput(in)
	}
	return tea.NewProgram(m, options...)
}
