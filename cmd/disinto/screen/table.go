package screen

import "strings"

// style is the colour of text on a terminal. Ordinary text is plain.
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

// cell is one field of a table. Its text may be untrusted: page cleans it.
type cell struct {
	text  string
	style style
}

// row returns cells of one style.
func row(s style, texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, text := range texts {
		cells[i] = cell{text, s}
	}
	return cells
}

// labelled returns a row with a faint label and a text.
func labelled(label, text string, s style) []cell { return []cell{{label, faint}, {text, s}} }

// page lays out text in lines of a limited width. text/tabwriter cannot do that: it counts the bytes of colours as
// columns, and has no line width.
type page struct {
	width  int // the largest number of columns of a line; 0 means no limit
	colour bool

	text strings.Builder
	pad  int // pending spaces before the next text of the line: no line ends in spaces
}

// columnGap is the space between two columns.
const columnGap = 2

// fit narrows the titles to minTitle columns first, then the last column to minLast, and then the titles to leastTitle.
const minTitle, minLast, leastTitle = 24, 20, 12

// table writes rows with the same number of cells. Each column is as wide as its widest cell. If the table is wider
// than the page, table cuts the column with index titles, and then wraps the last column, because it has reasons, which
// are useless when cut. titles is -1 for a table without titles.
func (p *page) table(titles int, rows [][]cell) {
	widths := p.fit(columnWidths(rows), titles)
	for _, row := range rows {
		if last := len(row) - 1; titles == last {
			row[last].text = cut(Clean(row[last].text), widths[last])
		}
		p.row(row, widths)
	}
}

// headed writes an empty line and a table, or nothing if the table has only its heading.
func (p *page) headed(titles int, rows [][]cell) {
	if len(rows) > 1 {
		p.end()
		p.table(titles, rows)
	}
}

func columnWidths(rows [][]cell) []int {
	var widths []int
	for _, row := range rows {
		widths = append(widths, make([]int, max(0, len(row)-len(widths)))...)
		for i, c := range row {
			widths[i] = max(widths[i], Columns(Clean(c.text)))
		}
	}
	return widths
}

// fit narrows widths to the page.
func (p *page) fit(widths []int, titles int) []int {
	if p.width == 0 {
		return widths
	}
	last := len(widths) - 1
	over := columnGap*last - p.width
	for _, w := range widths {
		over += w
	}
	narrow := func(column, least int) {
		less := max(0, min(over, widths[column]-least))
		widths[column] -= less
		over -= less
	}
	cuts := titles >= 0 && titles < last
	if cuts {
		narrow(titles, minTitle)
	}
	narrow(last, minLast)
	if cuts {
		narrow(titles, leastTitle)
	}
	return widths
}

// row writes one row. It wraps a last cell that is too wide into further lines.
func (p *page) row(row []cell, widths []int) {
	last, indent := len(row)-1, 0
	for i, c := range row[:last] {
		text := cut(Clean(c.text), widths[i])
		p.write(text, c.style)
		p.pad += widths[i] - Columns(text) + columnGap
		indent += widths[i] + columnGap
	}
	for i, line := range wrap(Clean(row[last].text), widths[last]) {
		if i > 0 {
			p.pad = indent
		}
		p.write(line, row[last].style)
		p.end()
	}
}

// line writes one line of text, wrapped.
func (p *page) line(text string, s style) {
	width := p.width
	if width == 0 {
		width = max(1, Columns(Clean(text)))
	}
	p.row([]cell{{text, s}}, []int{width})
}

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
