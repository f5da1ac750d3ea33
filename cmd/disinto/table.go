package main

import (
	"fmt"
	"strings"
	"time"
)

// style is how a piece of text looks on a terminal with colour. There are few on purpose: what is well has none.
type style string

const (
	plain style = ""
	faint style = "\x1b[2m"
	bold  style = "\x1b[1m"
	good  style = "\x1b[32m"
	held  style = "\x1b[33m"
	wrong style = "\x1b[31m"
)

const resetStyle = "\x1b[0m"

// cell is one field of a table. Its text may be anything, also what a stranger wrote on the forge.
type cell struct {
	text  string
	style style
}

// page lays text out in columns of one width. text/tabwriter cannot do it: it counts the bytes of colours as
// columns, and it knows no width that a line must fit in.
type page struct {
	width  int // in columns, of every line
	colour bool

	text strings.Builder
	pad  int // spaces that are due before the next text of this line, so that no line ends in spaces
}

// columnGap is the space between two columns.
const columnGap = 2

// A title keeps minTitle columns, and a last column narrower than minLast is not worth wrapping.
const minTitle, minLast = 24, 20

// table writes rows of equally many cells. Every column is as wide as its widest cell. Where that is more than the
// page, the column titles is cut, and then the last one wrapped below itself: it holds reasons, and half a reason
// helps nobody. Without a column of titles it is -1.
func (p *page) table(titles int, rows [][]cell) {
	widths := p.fit(columnWidths(rows), titles)
	for _, row := range rows {
		if last := len(row) - 1; titles == last {
			row[last].text = cut(clean(row[last].text), widths[last])
		}
		p.row(row, widths)
	}
}

func columnWidths(rows [][]cell) []int {
	var widths []int
	for _, row := range rows {
		widths = append(widths, make([]int, max(0, len(row)-len(widths)))...)
		for i, c := range row {
			widths[i] = max(widths[i], cells(clean(c.text)))
		}
	}
	return widths
}

// fit narrows widths to the page.
func (p *page) fit(widths []int, titles int) []int {
	last := len(widths) - 1
	over := columnGap*last - p.width
	for _, w := range widths {
		over += w
	}
	if over > 0 && titles >= 0 && titles < last {
		less := min(over, max(0, widths[titles]-minTitle))
		widths[titles] -= less
		over -= less
	}
	if over > 0 {
		widths[last] = max(widths[last]-over, minLast)
	}
	return widths
}

// row writes one row; a last cell that is too wide goes on in lines of its own.
func (p *page) row(row []cell, widths []int) {
	last, indent := len(row)-1, 0
	for i, c := range row[:last] {
		text := cut(clean(c.text), widths[i])
		p.write(text, c.style)
		p.pad += widths[i] - cells(text) + columnGap
		indent += widths[i] + columnGap
	}
	for i, line := range wrap(clean(row[last].text), widths[last]) {
		if i > 0 {
			p.pad = indent
		}
		p.write(line, row[last].style)
		p.end()
	}
}

// line writes one line of text, wrapped.
func (p *page) line(text string, s style) { p.row([]cell{{text, s}}, []int{p.width}) }

func (p *page) write(text string, s style) {
	if text == "" {
		return
	}
	p.text.WriteString(strings.Repeat(" ", p.pad))
	p.pad = 0
	if p.colour && s != plain {
		text = string(s) + text + resetStyle
	}
	p.text.WriteString(text)
}

func (p *page) end() {
	p.text.WriteByte('\n')
	p.pad = 0
}

// wrap breaks s between words into lines of at most width columns; a word that is longer is cut in pieces. It
// returns at least one line.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		for cells(word) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			head, tail := splitAt(word, width)
			lines, word = append(lines, head), tail
		}
		switch {
		case line == "":
			line = word
		case cells(line)+1+cells(word) <= width:
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

// splitAt divides s after as many characters as fit in width columns, at least one.
func splitAt(s string, width int) (head, tail string) {
	used := 0
	for i, r := range s {
		used += runeCells(r)
		if used > width && i > 0 {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

// age writes a duration with the two units that matter: 41s, 3m12s, 2h05m, 3d4h.
func age(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	days, hours := int(d.Hours())/24, int(d.Hours())%24
	minutes, seconds := int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%02ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
}
