package watch

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

// View returns the screen.
func (m Model) View() tea.View {
	v := tea.NewView(m.Screen())
	v.AltScreen = true
	return v
}

// Screen returns the text of the screen: what is not live and how much runs and waits, the table or a page, the chosen
// row in full, and keys, a question or an answer. It has as many lines as the screen.
func (m *Model) Screen() string {
	head := m.head()
	var body []string
	foot := m.foot()
	if m.page != nil {
		body = m.page.text()
	} else {
		body = m.tableText()
	}
	room := max(m.height-len(head)-len(foot), 0)
	body = body[:min(len(body), room)]
	body = append(body, make([]string, room-len(body))...)
	lines := append(append(head, body...), foot...)
	return strings.Join(lines[:min(len(lines), m.height)], "\n")
}

func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

// head returns the lines above the table or page.
func (m *Model) head() (head []string) {
	v := m.view()
	if m.above != "" {
		head = append(head, lines(m.above)...)
	}
	if lost := m.lost(); lost != "" {
		head = append(head, v.Note(lost, true, 2)...)
	}
	if m.news.Doc != nil {
		v.Lost = false
		head = append(head, lines(v.Head(m.news.Doc))...)
	}
	return append(head, v.Faint(m.state()))
}

// state says which part is shown: the page or group, its filter and order.
func (m *Model) state() string {
	var parts []string
	switch {
	case m.page != nil && !m.page.root:
		parts = append(parts, m.page.title)
	case m.table.group != all:
		parts = append(parts, "only "+m.table.group.String()+" (0 shows everything)")
	}
	if m.page != nil {
		parts = append(parts, m.page.place())
	} else if m.table.sort > 0 {
		parts = append(parts, "sorted by "+sorts[m.table.sort].name)
	}
	if m.filter != "" && !m.typing {
		text := "only with " + strings.TrimSpace(screen.Clean(m.filter))
		if m.page == nil {
			text += fmt.Sprintf(": %d of %d rows", m.table.shown, len(m.rows))
		}
		parts = append(parts, text)
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// tableText returns the table, and below it the host if there is room for all of it.
func (m *Model) tableText() []string {
	v := m.view()
	if m.news.Doc == nil {
		if m.news.Lost == nil {
			return []string{v.Faint("asking the supervisor")}
		}
		return nil
	}
	body := m.table.text(v, m.rows)
	if len(m.table.lines) == 0 {
		body = []string{v.Faint(m.empty())}
	}
	if host := lines(v.Host(m.news.Doc)); m.table.group == all && m.filter == "" && len(body)+len(host) <= m.bodyHeight() {
		body = append(body, host...)
	}
	return body
}

// empty says why the table has no rows.
func (m *Model) empty() string {
	switch {
	case m.filter != "":
		return "no row has " + m.filter + " in it: escape shows all rows"
	case m.table.group != all:
		return "nothing here: 0 shows all groups"
	}
	return "no agent, and nothing waits"
}

// detailLines is how many lines show the chosen row in full.
const detailLines = 2

// The keys, for screens of 80 columns.
const (
	tableKeys = "enter why  l log  p pause  r retry  x cancel  / filter  s sort  ? keys  q "
	pageKeys  = "up, down, page up, page down scroll  g top  G end  / filter  q "
)

// foot returns the lines below: the chosen row in full, and a line for a question, a filter, an answer or the keys.
func (m *Model) foot() (foot []string) {
	if m.deaf {
		return nil
	}
	v := m.view()
	foot = append(foot, v.Faint(strings.Repeat("─", m.width)))
	if m.page == nil {
		detail := make([]string, detailLines)
		if r := m.chosen(); r != nil {
			copy(detail, v.Note(r.Text(), false, detailLines))
		}
		foot = append(foot, detail...)
	}
	return append(foot, m.prompt(v))
}

func (m *Model) prompt(v screen.View) string {
	first := func(text string, bad bool) string { return v.Note(text, bad, 1)[0] }
	switch {
	case m.question != nil:
		return first(m.question.text+" y/n", true)
	case m.typing:
		return first("filter: "+m.filter+"_", false)
	case m.acting != 0:
		return v.Faint("asking the supervisor")
	case m.said != "":
		return first(m.said, m.failed)
	case m.page != nil && m.page.root:
		return v.Faint(pageKeys + "quit")
	case m.page != nil:
		return v.Faint(pageKeys + "back")
	case m.table.group != all:
		return v.Faint(tableKeys + "back")
	}
	return v.Faint(tableKeys + "quit")
}

// bodyHeight is the number of lines for the table.
func (m *Model) bodyHeight() int {
	below := 2 + detailLines
	if m.deaf {
		below = 0
	}
	return max(m.height-len(m.head())-below, 1)
}

// pageHeight is the number of lines for a page.
func (m *Model) pageHeight() int { return max(m.height-len(m.head())-2, 1) }
