package web

import (
	"fmt"
	"html/template"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// applied makes a change as the browser does: see apply in page.js.
func applied(was section, c change) section {
	by, order := make(map[string]template.HTML), []string{}
	for _, r := range was.Rows {
		by[r.ID] = r.HTML
		order = append(order, r.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Rows)) {
		by[id] = template.HTML(c.Rows[id])
	}
	if c.Order != nil {
		order = c.Order
	}
	is := was
	is.Rows = nil
	if c.Note != nil {
		is.Note = *c.Note
	}
	for _, id := range order {
		is.Rows = append(is.Rows, row{id, by[id]})
	}
	return is
}

// What is sent makes the old page the new one, whatever rows came, went, moved or changed; or the page is loaded again.
func TestChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	board := func(sections int) *board {
		b := &board{}
		for i := range sections {
			s := section{ID: fmt.Sprint("s", i), Note: fmt.Sprint(rng.IntN(3)), Empty: "none"}
			for _, n := range rng.Perm(6)[:rng.IntN(6)] {
				s.Rows = append(s.Rows, row{fmt.Sprint(n), template.HTML(strings.Repeat("x", rng.IntN(3)))})
			}
			b.Sections = append(b.Sections, s)
		}
		return b
	}
	sent := 0
	for range 2000 {
		was, is := board(2), board(2)
		list, ok := changes(was, is)
		if !ok {
			continue
		}
		sent++
		got := *was
		got.Sections = slices.Clone(was.Sections)
		for _, c := range list {
			i := slices.IndexFunc(got.Sections, func(s section) bool { return s.ID == c.Section })
			got.Sections[i] = applied(got.Sections[i], c)
		}
		if got.version() != is.version() {
			t.Fatalf("%+v\nbecame %+v\nwant   %+v\nby %+v", was.Sections, got.Sections, is.Sections, list)
		}
		if was.version() == is.version() && len(list) > 0 {
			t.Fatalf("nothing changed, and %+v is sent", list)
		}
	}
	if sent < 500 {
		t.Errorf("only %d of 2000 pairs were sent", sent)
	}
	if _, ok := changes(board(1), board(2)); ok {
		t.Error("a page with another section is not loaded again")
	}
}

// An update of one row sends that row, and no other.
func TestOneRow(t *testing.T) {
	was, is := &board{Sections: []section{{ID: "queue"}}}, &board{Sections: []section{{ID: "queue"}}}
	for i := range 100 {
		was.Sections[0].Rows = append(was.Sections[0].Rows, row{fmt.Sprint(i), "before"})
		is.Sections[0].Rows = append(is.Sections[0].Rows, row{fmt.Sprint(i), "before"})
	}
	is.Sections[0].Rows[17].HTML = "after"
	list, ok := changes(was, is)
	if !ok || len(list) != 1 || len(list[0].Rows) != 1 || list[0].Rows["17"] != "after" || list[0].Order != nil {
		t.Errorf("sent %+v", list)
	}
}
