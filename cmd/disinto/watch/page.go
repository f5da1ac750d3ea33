package watch

import (
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

// kept is how many lines of a log stay in memory: with the thousand that logs begins with, an hour of most sessions.
const kept = 5000

// page is a text that is shown instead of the table: the answer of why, a log, or a document of its own.
type page struct {
	title   string
	root    bool // it is the watched document itself, without a table to go back to
	id      int
	stop    func() // ends the command line; nil without one
	before  string // the filter of the table
	follows bool   // its end is what is new
	tail    bool   // the end is shown, and stays in sight
	ended   bool

	lines []string // as they came; the last may be unfinished
	open  bool     // the last line is unfinished
	laid  []string // those that fit the filter, in lines of the screen
	top   int      // the first of them on the screen
	room  int      // lines of the screen
}

// add appends output.
func (p *page) add(text string) {
	for part := range strings.Lines(text) {
		whole := strings.HasSuffix(part, "\n")
		part = strings.TrimSuffix(part, "\n")
		if p.open {
			p.lines[len(p.lines)-1] += part
		} else {
			p.lines = append(p.lines, part)
		}
		p.open = !whole
	}
	if len(p.lines) > kept {
		p.lines = append([]string(nil), p.lines[len(p.lines)-kept:]...)
	}
}

// layOut folds the lines that fit the filter into those of the screen.
func (p *page) layOut(width, room int, filter string) {
	filter = strings.ToLower(filter)
	p.laid, p.room = nil, room
	for _, line := range p.lines {
		if filter == "" || strings.Contains(strings.ToLower(line), filter) {
			p.laid = append(p.laid, screen.Fold(line, width)...)
		}
	}
	p.scroll(0)
}

// scroll moves the text by a number of lines. A log that follows stays at its end once the end is in sight.
func (p *page) scroll(by int) {
	last := max(len(p.laid)-p.room, 0)
	if by < 0 {
		p.tail = false
	}
	if p.top += by; p.tail || p.top > last {
		p.top = last
	}
	p.top = max(p.top, 0)
	p.tail = p.follows && p.top == last && (p.tail || by > 0)
}

// text returns the lines on the screen.
func (p *page) text() []string { return p.laid[p.top:min(p.top+p.room, len(p.laid))] }

// place says which part of the text is shown.
func (p *page) place() string {
	switch {
	case len(p.laid) == 0 && !p.ended && !p.root:
		return "waiting for output"
	case p.tail && !p.ended:
		return "following"
	case p.room >= len(p.laid):
		return ""
	}
	return fmt.Sprintf("lines %d to %d of %d", p.top+1, min(p.top+p.room, len(p.laid)), len(p.laid))
}
