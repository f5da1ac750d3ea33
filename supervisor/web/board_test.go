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

// applied applies a change as apply in page.js does.
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

// The changes turn the old page into the new one, whatever rows were added, removed, moved or changed; or the page
// must be reloaded.
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
			t.Fatalf("%+v\ngot  %+v\nwant %+v\nby %+v", was.Sections, got.Sections, is.Sections, list)
		}
		if was.version() == is.version() && len(list) > 0 {
			t.Fatalf("the boards are equal, got the changes %+v, want none", list)
		}
	}
	if sent < 500 {
		t.Errorf("changes were sent for %d of 2000 pairs, want at least 500", sent)
	}
	if _, ok := changes(board(1), board(2)); ok {
		t.Error("a page with another section is not reloaded")
	}
}

// A change of one row sends only that row.
func TestOneRow(t *testing.T) {
	was, is := &board{Sections: []section{{ID: "queue"}}}, &board{Sections: []section{{ID: "queue"}}}
	for i := range 100 {
		was.Sections[0].Rows = append(was.Sections[0].Rows, row{fmt.Sprint(i), "before"})
		is.Sections[0].Rows = append(is.Sections[0].Rows, row{fmt.Sprint(i), "before"})
	}
	is.Sections[0].Rows[17].HTML = "after"
	list, ok := changes(was, is)
	if !ok || len(list) != 1 || len(list[0].Rows) != 1 || list[0].Rows["17"] != "after" || list[0].Order != nil {
		t.Errorf("got %+v, want row 17 only", list)
	}
}
