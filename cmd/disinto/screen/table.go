package screen

import "strings"

// style is how text looks on a terminal with colour. What is in order has none.
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

// cell is one field of a table. Its text may come from a stranger: it is cleaned when it is written.
type cell struct {
	text  string
	style style
}

// row makes cells of one style.
func row(s style, texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, text := range texts {
		cells[i] = cell{text, s}
	}
	return cells
}

// labelled is a faint word, and a text beside it.
func labelled(label, text string, s style) []cell { return []cell{{label, faint}, {text, s}} }

// page lays text out in lines of one width. text/tabwriter counts the bytes of colours as columns, and knows no width
// that a line must fit in.
type page struct {
	width  int // in columns, of every line; 0 is as wide as it gets
	colour bool

	text strings.Builder
	pad  int // spaces that are due before the next text of this line, so that no line ends in spaces
}

// columnGap is the space between two columns.
const columnGap = 2

// A title keeps minTitle columns as long as the last column has more than minLast, which is not worth wrapping when it
// is narrower; leastTitle says what an item is about on the narrowest screens.
const minTitle, minLast, leastTitle = 24, 20, 12

// table writes rows of equally many cells, each column as wide as its widest cell. Where that exceeds the page, the
// column titles is cut first, and then the last one wrapped below itself: it holds reasons, which are useless when
// cut. titles is -1 in a table without titles.
func (p *page) table(titles int, rows [][]cell) {
	widths := p.fit(columnWidths(rows), titles)
	for _, row := range rows {
		if last := len(row) - 1; titles == last {
			row[last].text = cut(Clean(row[last].text), widths[last])
		}
		p.row(row, widths)
	}
}

// headed writes a table below an empty line, unless its heading is all there is.
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

// row writes one row; a last cell that is too wide goes on in lines of its own.
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
