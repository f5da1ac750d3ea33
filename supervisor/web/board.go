package web

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/supervisor/control"
)

// board is the content of a page: sections of rows. Two boards of a page are compared row by row. So nothing in a row
// may change only because time passes: the browser counts the seconds.
type board struct {
	Title    string
	State    *control.Document // nil if the page did not read it
	Needs    int               // how many things need a person, for the navigation of each page
	Tools    template.HTML     // beside the title, such as links to other ranges
	Sections []section
}

// Left and Right return the sections beside each other, and Across those above them.
func (b *board) Across() []*section { return b.at(across) }
func (b *board) Left() []*section   { return b.at(left) }
func (b *board) Right() []*section  { return b.at(right) }

// at returns the sections at a place, without those that have nothing to show.
func (b *board) at(p place) (list []*section) {
	for i := range b.Sections {
		if s := &b.Sections[i]; s.Place == p && (len(s.Rows) > 0 || s.Empty != "") {
			list = append(list, s)
		}
	}
	return list
}

// section is a part of a page.
type section struct {
	ID    string // unique in its page; letters and hyphens
	Title string // empty: a section without a heading belongs to the one before it
	Note  string // beside the title
	// Class is the style of the list of rows, and Head the columns if the rows are those of a table.
	Class string
	Head  []column
	Rows  []row
	Bar   template.HTML // above the rows; the page is reloaded when it changes
	Tools template.HTML // beside the title, such as links to other forms of the section
	Empty template.HTML // shown if there are no rows; a section with neither is left out
	Place place
}

// Joined reports whether the section continues the one above it.
func (s *section) Joined() bool { return s.Title == "" && s.Place == left }

// column is the heading of a table's column. Numbers are aligned at the right.
type column struct {
	Title  string
	Number bool
}

// columns returns headings by name. A name that ends in "#" is that of a column of numbers.
func columns(names ...string) (list []column) {
	for _, name := range names {
		title, number := strings.CutSuffix(name, "#")
		list = append(list, column{title, number})
	}
	return list
}

// place says where on a wide screen a section is.
type place int

const (
	across place = iota
	left         // of the rest of the page, beside the sections on the right
	right
)

// row is a row of a table, or an entry of a list. With time alone, only its bars of progress change: see drawProgress.
type row struct {
	ID   string // unique in its section
	HTML template.HTML
}

// version returns a hash of the board's content.
func (b *board) version() string {
	h := sha256.New()
	fmt.Fprintln(h, b.Needs)
	for i := range b.Sections {
		s := &b.Sections[i]
		for _, part := range []string{s.ID, s.Title, s.Note, string(s.Bar), string(s.Empty)} {
			h.Write([]byte(part + "\x00"))
		}
		for _, r := range s.Rows {
			h.Write([]byte(r.ID + "\x00" + string(r.HTML) + "\x00"))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// change turns a section of an open page into the section of the next version. It is sent as JSON.
type change struct {
	Section string            `json:"section"`
	Note    *string           `json:"note,omitempty"`  // the new note
	Rows    map[string]string `json:"rows,omitempty"`  // HTML of rows that are new or changed
	Order   []string          `json:"order,omitempty"` // of all rows; nil if none was added, removed or moved
}

// changes returns the changes from one board to the next. ok is false if a section was added, removed or renamed, or
// if a section got its first row or lost its last: the browser then reloads the page.
func changes(was, is *board) (list []change, ok bool) {
	if len(was.Sections) != len(is.Sections) {
		return nil, false
	}
	for i := range is.Sections {
		a, b := &was.Sections[i], &is.Sections[i]
		if a.ID != b.ID || a.Title != b.Title || a.Bar != b.Bar || a.Empty != b.Empty ||
			(len(a.Rows) == 0) != (len(b.Rows) == 0) {
			return nil, false
		}
		if c, differs := changed(a, b); differs {
			list = append(list, c)
		}
	}
	return list, true
}

func changed(was, is *section) (c change, differs bool) {
	c = change{Section: is.ID, Rows: make(map[string]string)}
	if was.Note != is.Note {
		c.Note = &is.Note
	}
	before := make(map[string]template.HTML, len(was.Rows))
	for _, r := range was.Rows {
		before[r.ID] = r.HTML
	}
	for _, r := range is.Rows {
		if html, known := before[r.ID]; !known || html != r.HTML {
			c.Rows[r.ID] = string(r.HTML)
		}
	}
	if !slices.EqualFunc(was.Rows, is.Rows, func(a, b row) bool { return a.ID == b.ID }) {
		c.Order = []string{}
		for _, r := range is.Rows {
			c.Order = append(c.Order, r.ID)
		}
	}
	return c, c.Note != nil || c.Order != nil || len(c.Rows) > 0
}
