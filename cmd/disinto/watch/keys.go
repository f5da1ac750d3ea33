package watch

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

// help is the page of all keys.
const help = `move        up, down, j, k, page up, page down; g the first row, G the last
groups      1 needs you, 2 agents, 3 services, 4 waits, 5 ended, 0 all,
            tab the next
/           shows only rows that have a text; escape shows all rows again
s           sorts: as the status does, by age, name, title or reason
enter, w    why the row waits, or what it needs; "and 7 more" opens its group
l           output of its session or service; / shows only lines with a text
p           pause its agent, or resume it; P pauses or resumes everything
r           retry its issue or pull request
x           cancel its issue or pull request, and end its session
h           the host: what was spent, servers, forge, file, disk
q           back to all groups, or leave; Ctrl-C leaves

Each command asks first. While no supervisor answers, the first line says so,
and commands are off.`

// key takes a key.
func (m *Model) key(key tea.Key) tea.Cmd {
	name := key.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case m.question != nil:
		return m.answered(key)
	case m.typing:
		m.typed(key)
		return nil
	}
	m.said, m.failed = "", false
	switch {
	case name == "/":
		m.typing = true
	case name == "esc" && m.filter != "":
		m.filter = ""
		m.fold()
	case m.page != nil:
		return m.pageKey(name)
	default:
		return m.tableKey(name)
	}
	return nil
}

// typed changes the filter.
func (m *Model) typed(key tea.Key) {
	switch key.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace", "ctrl+h":
		_, n := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-n]
	case "ctrl+u":
		m.filter = ""
	default:
		m.filter += screen.Clean(key.Text)
	}
	m.fold()
}

// steps are the keys that move, in lines; page stands for a screen.
func steps(name string, screenful int) (by int, moves bool) {
	const end = 1 << 30
	switch name {
	case "up", "k":
		return -1, true
	case "down", "j":
		return 1, true
	case "pgup", "ctrl+b":
		return -max(screenful-1, 1), true
	case "pgdown", "ctrl+f", "space":
		return max(screenful-1, 1), true
	case "home", "g":
		return -end, true
	case "end", "G":
		return end, true
	}
	return 0, false
}

func (m *Model) pageKey(name string) tea.Cmd {
	if by, moves := steps(name, m.page.room); moves {
		p := *m.page
		p.scroll(by)
		m.page = &p
		return nil
	}
	switch {
	case m.page.root && name == "q":
		return tea.Quit
	case m.page.root:
	case name == "q", name == "esc", name == "left", name == "backspace":
		m.close()
	}
	return nil
}

func (m *Model) tableKey(name string) tea.Cmd {
	if by, moves := steps(name, m.table.room); moves {
		m.table.move(by)
		return nil
	}
	switch name {
	case "q":
		if m.table.group == all {
			return tea.Quit
		}
		m.table.choose(all)
	case "esc", "0":
		m.table.choose(all)
	case "1", "2", "3", "4", "5":
		m.table.choose(screen.Group(name[0] - '1'))
	case "tab":
		m.table.choose(m.nextGroup(1))
	case "shift+tab":
		m.table.choose(m.nextGroup(-1))
	case "s":
		m.table.sort = (m.table.sort + 1) % len(sorts)
	case "?":
		m.show("keys", help)
	case "h":
		if m.news.Doc != nil {
			m.show("host", m.view().Host(m.news.Doc))
		}
	case "P":
		m.askEverything()
	case "enter", "w", "l", "p", "r", "x":
		return m.rowKey(name)
	}
	return nil
}

// nextGroup returns the next group that has rows; after the last one, all.
func (m *Model) nextGroup(by int) screen.Group {
	const states = screen.Groups + 1
	for i, g := 0, int(m.table.group)+1; i < states; i++ {
		g = (g + by + states) % states
		group := screen.Group(g - 1)
		if group == all || len(sortRows(m.rows, group, strings.ToLower(m.filter), nil)) > 0 {
			return group
		}
	}
	return all
}

// rowKey takes a key about the row under the cursor.
func (m *Model) rowKey(name string) tea.Cmd {
	r := m.chosen()
	if r == nil {
		if t := &m.table; t.at < len(t.lines) && t.lines[t.at].kind == more {
			t.choose(t.lines[t.at].group)
		}
		return nil
	}
	service := r.Group == screen.Services
	switch {
	case name == "l" && r.Of == "":
		m.said, m.failed = r.Name+" has no log", true
	case name == "l":
		args := []string{"logs", "--follow", "--lines=1000"}
		if r.Session != "" {
			args = append(args, "--session="+r.Session)
		}
		return m.open("log of "+r.Name, true, append(args, "--", r.Of)...)
	case name == "enter" || name == "w":
		if r.Of == "" || service {
			m.show(r.Name, strings.Join([]string{r.Title, r.Why}, "\n"))
			return nil
		}
		return m.open("why "+r.Name, false, "why", "--", r.Of)
	case name == "p" && r.Agent == "":
		m.said, m.failed = r.Name+" has no agent to pause; P pauses everything", true
	case name == "p" && r.Paused:
		m.ask("Resume "+r.Agent+"?", "resume", "--", r.Agent)
	case name == "p":
		m.ask("Pause "+r.Agent+"? Its session goes on, and no new one starts.", "pause", "--", r.Agent)
	case r.Item == "":
		m.said, m.failed = r.Name+" is no issue or pull request", true
	case name == "r":
		m.ask("Retry "+r.Item+"? Failed attempts and rests are forgotten.", "retry", "--", r.Item)
	default:
		m.ask("Cancel "+r.Item+"? Its session ends, and none starts.", "cancel", "--", r.Item)
	}
	return nil
}

func (m *Model) askEverything() {
	if m.news.Doc != nil && m.news.Doc.Paused {
		m.ask("Resume everything?", "resume")
		return
	}
	m.ask("Pause everything? Sessions go on, and no new ones start.", "pause")
}

// show shows a text.
func (m *Model) show(title, text string) {
	m.page = &page{title: title, ended: true, before: m.filter, lines: lines(text)}
	m.filter = ""
	m.fold()
}
