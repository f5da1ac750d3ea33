// Package watch is the interactive status of a factory: a table that scrolls, with the answers of why and logs, and
// commands about the row under the cursor. Its Model is pure: Update turns a message into the next model and commands,
// and View turns the model into a screen. What runs the commands is outside.
package watch

import (
	"errors"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

// News is the newest answer of the supervisor. Its zero value means that none has come yet.
type News struct {
	Doc  *control.Document        // the status; nil for another document
	Text func(screen.View) string // another document, such as that of convoys; nil for the status
	At   time.Time                // when it was true
	Lost error                    // why it is not live; nil if it is
}

// Second is a message with the time, once a second: ages count.
type Second time.Time

// Output is a piece of what a command line printed, safe for a terminal.
type Output struct {
	ID   int
	Text string
}

// Ended says that a command line has ended, with its exit code.
type Ended struct{ ID, Code int }

// Runner runs a command line of disinto. Its messages are Output, with the id, and at the end Ended. stop ends it.
type Runner interface {
	Run(id int, args ...string) (cmd tea.Cmd, stop func())
}

// Model is the state of the screen.
type Model struct {
	runner Runner
	above  string // a line above the status
	colour bool
	deaf   bool // no keys come: the screen has no help

	width, height int
	now           time.Time
	news          News
	rows          []screen.Row // of the news
	table         table
	filter        string
	typing        bool // the keys go into the filter
	question      *question
	said          string // what the newest command answered
	failed        bool   // it did not do what was asked
	run           int    // id of the newest command line
	acting        int    // id of the command that acts, 0 without one
	page          *page  // shown instead of the table; nil for none
}

// question is a command that waits for a yes.
type question struct {
	text string
	args []string
}

// New returns the model before the first news. With a nil runner it takes no keys, and shows above in its first line.
func New(runner Runner, above string, colour bool) Model {
	m := Model{runner: runner, above: above, colour: colour, deaf: runner == nil, width: 80, height: 24}
	m.table.group = all
	return m
}

// Init asks for the first second.
func (m Model) Init() tea.Cmd { return second() }

func second() tea.Cmd { return tea.Tick(time.Second, func(at time.Time) tea.Msg { return Second(at) }) }

// Update returns the model after a message.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 { // the terminal of docker exec -t has no size at first
			m.width, m.height = msg.Width, msg.Height
		}
		m.fold()
	case Second:
		m.now, cmd = time.Time(msg), second()
	case News:
		m.news = msg
		m.now = latest(m.now, msg.At)
	case Above:
		m.above = string(msg)
	case Output:
		m.output(msg)
	case Ended:
		m.ended(msg)
	case tea.PasteMsg:
		if m.typing {
			m.filter += screen.Clean(msg.Content)
		}
	case tea.KeyPressMsg:
		m.refresh()
		cmd = m.key(msg.Key())
	}
	m.refresh()
	return m, cmd
}

// Above is a message that replaces the line above the status.
type Above string

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// view returns the settings of documents. A document that is not live is shown as of its own time: its ages stand
// still.
func (m *Model) view() screen.View {
	at := m.now
	if m.news.Lost != nil {
		at = m.news.At
	}
	return screen.View{Now: at, Width: m.width, Colour: m.colour}
}

// refresh makes the rows of the newest status anew, and keeps the cursor on its row.
func (m *Model) refresh() {
	switch {
	case m.news.Doc != nil:
		m.rows = m.view().Rows(m.news.Doc)
	case m.news.Text != nil && (m.page == nil || m.page.root):
		m.showDocument()
	}
	if m.page == nil { // its filter is not the table's
		m.table.fill(m.rows, m.filter, m.bodyHeight())
	}
}

// showDocument shows a document other than the status, at the place where the person had scrolled to.
func (m *Model) showDocument() {
	if m.page == nil {
		m.page = &page{root: true}
	}
	p := *m.page
	p.lines = lines(m.news.Text(m.view()))
	p.layOut(m.width, m.pageHeight(), m.filter)
	m.page = &p
}

// lost says in one line that what is shown is not live; empty while it is.
func (m *Model) lost() string {
	err := m.news.Lost
	if err == nil {
		return ""
	}
	if m.news.At.IsZero() {
		return err.Error()
	}
	why := "no answer"
	if errors.Is(err, control.ErrNoSupervisor) {
		why = "no supervisor runs"
	}
	at := m.news.At.UTC()
	form := "15:04:05 UTC"
	if now := m.now.UTC(); at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		form = "2006-01-02 " + form
	}
	return why + ": last state of " + at.Format(form) + "; commands are off"
}

// start runs a command line.
func (m *Model) start(args ...string) (id int, cmd tea.Cmd, stop func()) {
	m.run++
	cmd, stop = m.runner.Run(m.run, args...)
	return m.run, cmd, stop
}

// ask puts a question before a command; the command is off while nothing is live.
func (m *Model) ask(text string, args ...string) {
	switch {
	case m.news.Lost != nil:
		m.said, m.failed = "off: "+m.lost(), true
	case m.acting != 0:
		m.said, m.failed = "the command before it has not ended yet", true
	default:
		m.question = &question{text, args}
	}
}

// answered takes the key after a question.
func (m *Model) answered(key tea.Key) tea.Cmd {
	q := m.question
	m.question = nil
	if key.Text != "y" && key.Text != "Y" {
		m.said, m.failed = "nothing was done", false
		return nil
	}
	if m.news.Lost != nil { // since the question
		m.said, m.failed = "off: "+m.lost(), true
		return nil
	}
	var cmd tea.Cmd
	m.acting, cmd, _ = m.start(q.args...)
	m.said, m.failed = "", false
	return cmd
}

func (m *Model) output(o Output) {
	if o.ID == m.acting && m.acting != 0 {
		m.said += o.Text
	}
	if m.page != nil && m.page.id == o.ID {
		p := *m.page
		p.add(o.Text)
		p.layOut(m.width, m.pageHeight(), m.filter)
		m.page = &p
	}
}

func (m *Model) ended(e Ended) {
	if e.ID == m.acting && m.acting != 0 {
		m.acting = 0
		m.said, m.failed = screen.Clean(m.said), e.Code != 0
	}
	if m.page != nil && m.page.id == e.ID {
		p := *m.page
		p.ended = true
		m.page = &p
	}
}

// open shows the output of a command line. Its end shows first if it follows.
func (m *Model) open(title string, follows bool, args ...string) tea.Cmd {
	id, cmd, stop := m.start(args...)
	m.page = &page{title: title, id: id, stop: stop, before: m.filter, tail: follows, follows: follows}
	m.filter = ""
	return cmd
}

// close goes back to the table.
func (m *Model) close() {
	if m.page.stop != nil {
		m.page.stop()
	}
	m.page, m.filter = nil, m.page.before
}

// fold lays out the page for a new size.
func (m *Model) fold() {
	if m.page == nil {
		return
	}
	p := *m.page
	p.layOut(m.width, m.pageHeight(), m.filter)
	m.page = &p
}

// chosen returns the row under the cursor; nil without one.
func (m *Model) chosen() *screen.Row {
	if i := m.table.chosen(); i >= 0 {
		return &m.rows[i]
	}
	return nil
}

// sorts are the orders of rows within their groups.
var sorts = []struct {
	name string
	by   func(a, b *screen.Row) int
}{
	{"order", nil}, // that of the status: waiting items as they are expected to start
	{"age", func(a, b *screen.Row) int { return a.At.Compare(b.At) }},
	{"name", func(a, b *screen.Row) int { return natural(a.Name, b.Name) }},
	{"title", func(a, b *screen.Row) int { return strings.Compare(strings.ToLower(a.Title), strings.ToLower(b.Title)) }},
	{"reason", func(a, b *screen.Row) int { return strings.Compare(a.Why, b.Why) }},
}

// natural compares names such that #9 is before #10.
func natural(a, b string) int {
	digits := func(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
	for a != "" && b != "" {
		if n, k := digits(a), digits(b); n > 0 && k > 0 && n != k {
			return n - k
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// sortRows returns the indices of the rows of a group that fit the filter, sorted.
func sortRows(rows []screen.Row, g screen.Group, filter string, by func(a, b *screen.Row) int) (list []int) {
	for i := range rows {
		if rows[i].Group == g && (filter == "" || strings.Contains(strings.ToLower(rows[i].Text()), filter)) {
			list = append(list, i)
		}
	}
	if by != nil {
		slices.SortStableFunc(list, func(i, j int) int { return by(&rows[i], &rows[j]) })
	}
	return list
}
