package watch

import (
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

// all shows every group: each with as many rows as fit beside the others. The other values show one group whole.
const all = screen.Group(-1)

// least is how many rows of a group stay if there are more than fit: those that ended go first, and waiting items last.
var least = [screen.Groups]int{
	screen.NeedsYou: 2, screen.AtWork: 2, screen.Services: 1, screen.Waits: 3, screen.Ended: 1,
}

// lineKind is what a line of the table is.
type lineKind int

const (
	blank lineKind = iota
	heading
	row
	more // the rows of a group that have no room
)

// line is one line of the table.
type line struct {
	kind  lineKind
	group screen.Group
	row   int // index into the rows
	count int // rows of the group, or that have no room
}

// table is which rows are shown, and which of them is chosen.
type table struct {
	group screen.Group
	sort  int
	lines []line
	shown int // rows that fit the filter
	keys  []string
	at    int    // index of the chosen line
	key   string // of the chosen line: the cursor stays on its row when rows come and go
	top   int    // first line on the screen
	room  int
}

// fill lays out the rows for a number of lines.
func (t *table) fill(rows []screen.Row, filter string, room int) {
	filter = strings.ToLower(filter)
	var lists [screen.Groups][]int
	t.shown = 0
	for g := range lists {
		lists[g] = sortRows(rows, screen.Group(g), filter, sorts[t.sort].by)
		t.shown += len(lists[g])
	}
	limits, gap := share(&lists, room)
	t.lines, t.room = nil, room
	for i, list := range lists {
		g := screen.Group(i)
		if len(list) == 0 || t.group != all && t.group != g {
			continue
		}
		shown := len(list)
		if t.group == all {
			shown = limits[i]
			if len(t.lines) > 0 && gap {
				t.lines = append(t.lines, line{kind: blank})
			}
		}
		t.lines = append(t.lines, line{kind: heading, group: g, count: len(list)})
		for _, r := range list[:shown] {
			t.lines = append(t.lines, line{kind: row, group: g, row: r})
		}
		if rest := len(list) - shown; rest > 0 {
			t.lines = append(t.lines, line{kind: more, group: g, count: rest})
		}
	}
	t.name(rows)
	t.settle()
}

// share returns how many rows of each group fit into a number of lines, together with the headings, the empty lines
// and those that count the rest. If not all fit, there is no gap between the groups.
func share(lists *[screen.Groups][]int, room int) (limits [screen.Groups]int, gap bool) {
	for g := range lists {
		limits[g] = min(len(lists[g]), room)
	}
	used := func() (n int) {
		for g, list := range lists {
			if len(list) > 0 {
				n += 1 + limits[g]
			}
			if limits[g] < len(list) {
				n++
			}
		}
		return n
	}
	groups := 0
	for _, list := range lists {
		groups += min(len(list), 1)
	}
	gap = used()+groups-1 <= room
	// A group cut to its least is cut further only where even these do not fit.
	for floor := 1; floor >= 0; floor-- {
		for used() > room {
			cut := -1
			for _, g := range []screen.Group{screen.Ended, screen.NeedsYou, screen.AtWork, screen.Services, screen.Waits} {
				if limits[g] > least[g]*floor && (cut < 0 || limits[g] > limits[cut]) {
					cut = int(g)
				}
			}
			if cut < 0 {
				break
			}
			limits[cut]--
		}
	}
	return limits, gap
}

// name gives each line a key that stays the same while rows come and go.
func (t *table) name(rows []screen.Row) {
	t.keys = t.keys[:0:0]
	seen := make(map[string]int)
	for _, l := range t.lines {
		key := ""
		switch l.kind {
		case row:
			r := &rows[l.row]
			key = r.Name + " " + r.Session // an item can move from one group to another
			if seen[key]++; seen[key] > 1 {
				key += fmt.Sprint(" ", seen[key])
			}
		case more:
			key = fmt.Sprint("more ", l.group)
		case blank, heading:
		}
		t.keys = append(t.keys, key)
	}
}

// settle puts the cursor onto the row where it was, or else onto the one that is there now, and scrolls to it.
func (t *table) settle() {
	if i := slices.Index(t.keys, t.key); i >= 0 && t.key != "" {
		t.at = i
	}
	t.at = max(min(t.at, len(t.lines)-1), 0)
	t.skip(1)
	t.skip(-1)
	t.key = ""
	if t.at < len(t.keys) {
		t.key = t.keys[t.at]
	}
	t.top = max(min(t.top, t.at, len(t.lines)-t.room), t.at-t.room+1, 0)
	if t.top == t.at && t.at > 0 && t.lines[t.at-1].kind == heading && t.room > 1 {
		t.top--
	}
}

// skip moves the cursor off a line that cannot be chosen, in a direction if it can.
func (t *table) skip(by int) {
	for i := t.at; i >= 0 && i < len(t.keys); i += by {
		if t.keys[i] != "" {
			t.at = i
			return
		}
	}
}

// move moves the cursor by a number of lines, past those that cannot be chosen.
func (t *table) move(by int) {
	if len(t.lines) == 0 {
		return
	}
	t.at = max(min(t.at+by, len(t.lines)-1), 0)
	if by < 0 {
		t.skip(-1)
	}
	t.skip(1)
	t.skip(-1)
	t.key = t.keys[t.at]
	t.settle()
}

// chosen returns the index of the chosen row; -1 without one.
func (t *table) chosen() int {
	if t.at < len(t.lines) && t.lines[t.at].kind == row {
		return t.lines[t.at].row
	}
	return -1
}

// choose shows one group, or all of them. The cursor stays on its row, if that is shown.
func (t *table) choose(g screen.Group) { t.group, t.at, t.top = g, 0, 0 }

// text returns the lines on the screen.
func (t *table) text(v screen.View, rows []screen.Row) (out []string) {
	board := v.Board(rows)
	for i := t.top; i < min(t.top+t.room, len(t.lines)); i++ {
		l := t.lines[i]
		switch l.kind {
		case heading:
			out = append(out, board.Heading(l.group, l.count))
		case row:
			out = append(out, board.Row(&rows[l.row], i == t.at))
		case more:
			out = append(out, board.More(l.count, i == t.at))
		case blank:
			out = append(out, "")
		}
	}
	return out
}
