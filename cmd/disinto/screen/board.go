package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Group is a part of a watched status. The groups are shown in this order.
type Group int

// The groups of rows.
const (
	NeedsYou Group = iota
	AtWork         // agents, also idle ones, and threads that are held
	Services
	Waits
	Ended
)

// Groups is the number of groups.
const Groups = int(Ended) + 1

// headings are the titles of the columns, for each group.
var headings = [Groups][4]string{
	{"NEEDS YOU", "AGE", "TITLE", "WHY"},
	{"AGENT", "FOR", "WORK", "STATE"},
	{"SERVICE", "FOR", "STATE", "SAYS"},
	{"WAITS", "AGE", "TITLE", "WHY"},
	{"ENDED", "AGO", "AGENT", "RESULT"},
}

// String returns what is in the group.
func (g Group) String() string {
	return [Groups]string{"what needs you", "agents", "services", "what waits", "what ended"}[g]
}

// Row is one line of a watched status, and what commands about it take.
type Row struct {
	Group      Group
	Name       string    // such as issue #12, an agent or a service
	At         time.Time // when it began to work, wait or be idle, or ended; zero if unknown
	Title, Why string
	style      style

	Of      string // the argument of why and logs; empty for the factory as a whole
	Session string // the id of the session whose log it is; empty for the newest
	Item    string // the reference for retry and cancel; empty without an item
	Agent   string // for pause and resume: an agent or a thread; empty for neither
	Paused  bool   // a person paused Agent
}

// Text returns all words of the row, for a filter and in full below the table.
func (r *Row) Text() string {
	parts := slices.DeleteFunc([]string{r.Title, r.Why}, func(s string) bool { return s == "" })
	return Clean(r.Name + ": " + strings.Join(parts, ": "))
}

// Rows returns everything in a status that a person can choose, by group and in the order of the status.
func (v View) Rows(d *control.Document) []Row {
	v.repo = onlyRepo(d)
	rows := v.needed(d)
	rows = append(rows, v.agentRows(d)...)
	for i := range d.Services {
		x := &d.Services[i]
		rows = append(rows, Row{Group: Services, Name: x.Name, At: x.Since, Title: x.State, Why: statusText(x), Of: x.Name})
	}
	each, backlog := listed(d)
	for _, q := range append(each, backlog...) {
		row := Row{Group: Waits, Name: v.work(q.Kind, q.Repo, q.Number), At: q.Since, Title: q.Title}
		row.Why = v.relative(v.short(q.Why))
		if q.Since.After(v.Now) { // scheduled work that is not due
			row.At = time.Time{}
		}
		row.about(q.Repo, q.Number)
		rows = append(rows, row)
	}
	for _, r := range d.Recent {
		text, s := v.ended(r)
		row := Row{
			Group: Ended, Name: v.work(r.Kind, r.Repo, r.Number), At: r.EndedAt, Title: r.Agent, Why: text, style: s,
			Session: r.RunID, Agent: r.Agent,
		}
		row.about(r.Repo, r.Number)
		row.Of = cmp.Or(row.Of, r.Agent)
		rows = append(rows, row)
	}
	return rows
}

// about sets what commands about an item take; a schedule has no number, and no such commands.
func (r *Row) about(repo string, number int64) {
	if number != 0 {
		r.Item = forge.Ref{Repo: repo, Number: number}.String()
		r.Of = r.Item
	}
}

// agentRows returns a row for each session, each thread that is held and each agent that is, then the idle agents.
func (v View) agentRows(d *control.Document) (rows []Row) {
	paused := make(map[string]bool)
	for _, a := range d.Agents {
		paused[a.Name] = a.Paused
	}
	for _, s := range d.Sessions {
		row := Row{
			Group: AtWork, Name: s.Agent, At: s.StartedAt, Title: v.work(s.Kind, s.Repo, s.Number) + " " + s.Title,
			Why: v.progress(s), style: good, Session: s.RunID, Agent: s.Agent, Paused: paused[s.Agent],
		}
		row.about(s.Repo, s.Number)
		row.Of = cmp.Or(row.Of, s.Agent)
		rows = append(rows, row)
	}
	for _, t := range d.Threads {
		row := Row{Group: AtWork, Name: t.Name, Title: "thread", style: held, Of: t.Name, Agent: t.Name, Paused: t.Paused}
		switch {
		case t.ParkedUntil.After(v.Now):
			row.Why = fmt.Sprintf("%s for %s: %s", t.Rest(), control.Age(t.ParkedUntil.Sub(v.Now)), t.ParkedWhy)
		case t.Paused && !d.Paused:
			row.Why = "paused" + v.relative(t.Words())
		default:
			continue
		}
		rows = append(rows, row)
	}
	var idle []Row
	for _, a := range d.Agents {
		row := Row{
			Group: AtWork, Name: a.Name, At: a.IdleSince, Why: a.Why, Of: a.Name, Agent: a.Name, Paused: a.Paused,
		}
		switch {
		case a.State == control.AgentWorking || a.NeedsPerson && a.State == control.AgentHeld:
		case a.State == control.AgentIdle:
			row.Why, row.style = "idle", faint
			idle = append(idle, row)
		default:
			row.style = held
			rows = append(rows, row)
		}
	}
	return append(rows, idle...)
}

// progress says where a session runs and what it does.
func (v View) progress(s control.SessionDocument) string {
	var parts []string
	if s.State == threads.Reserved || s.State == threads.Stopping {
		parts = append(parts, string(s.State))
	}
	parts = append(parts, strings.TrimSpace(fmt.Sprintf("%son %s%s", attempt(s.Attempt), s.Thread, within(s.Place))))
	if n := s.Usage.Tokens(); n > 0 {
		parts = append(parts, control.Tokens(n)+" tokens")
	}
	if !s.LastOutputAt.IsZero() {
		parts = append(parts, "last output "+v.ago(s.LastOutputAt)+" ago")
	}
	return strings.Join(parts, ", ")
}

func within(place string) string {
	if place == "" {
		return ""
	}
	return ", " + place
}

// ended returns the outcome of a session with its reason.
func (v View) ended(r control.RecentDocument) (text string, s style) {
	text = string(r.Outcome)
	for _, why := range []string{r.Reason, r.LastLine} {
		if why != "" {
			text += ": " + v.short(why)
		}
	}
	if r.Outcome.BurnsAttempt() || r.Outcome == agents.Lost {
		s = wrong
	}
	return text, s
}

// Board lays out rows as a table in which each row is one line.
type Board struct {
	view                  View
	name, age, title, why int // columns
}

// mark is the space for the mark of the chosen row: not only its colour tells it.
const mark = 2

// Board returns the layout for rows. Width must not be 0.
func (v View) Board(rows []Row) Board {
	b := Board{view: v, name: 10, age: 6, title: 10}
	for i := range rows {
		b.name = max(b.name, Columns(Clean(rows[i].Name)))
		b.title = max(b.title, Columns(Clean(rows[i].Title)))
	}
	b.name = min(b.name, v.Width/4)
	rest := v.Width - mark - b.name - b.age - 3*columnGap
	b.title = min(b.title, rest*2/5)
	b.why = max(rest-b.title, 1)
	return b
}

// Heading returns the heading of a group with its number of rows.
func (b Board) Heading(g Group, rows int) string {
	h := headings[g]
	h[3] += fmt.Sprintf(" (%d)", rows)
	return b.line("", [4]cell{{h[0], faint}, {h[1], faint}, {h[2], faint}, {h[3], faint}}, false)
}

// Row returns a row's line.
func (b Board) Row(r *Row, chosen bool) string {
	name := r.style
	if r.Group == NeedsYou || r.Group == Ended {
		name = plain
	}
	cells := [4]cell{{r.Name, name}, {b.view.age(r.At), plain}, {r.Title, plain}, {r.Why, r.style}}
	if r.Group == AtWork && r.style == good {
		cells[3].style = plain
	}
	return b.line(">", cells, chosen)
}

// More returns the line for rows of a group that have no room.
func (b Board) More(rows int, chosen bool) string {
	return b.line(">", [4]cell{{fmt.Sprintf("and %d more", rows), faint}}, chosen)
}

func (b Board) line(marked string, cells [4]cell, chosen bool) string {
	p := b.view.page()
	if chosen {
		p.write(marked, bold)
		p.pad = mark - len(marked)
	} else {
		p.pad = mark
	}
	for i, width := range []int{b.name, b.age, b.title, b.why} {
		s := cells[i].style
		if chosen {
			s = bold
		}
		text := cut(Clean(cells[i].text), width)
		p.write(text, s)
		p.pad += width - Columns(text) + columnGap
	}
	return p.text.String()
}

// age returns the time since t in one unit, because a table of ages is read by their lengths.
func (v View) age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	text := control.Age(v.Now.Sub(t))
	if i := strings.IndexAny(text, "dhms"); i >= 0 {
		return text[:i+1]
	}
	return text
}

// Head returns the first lines of a status: how much runs and waits.
func (v View) Head(d *control.Document) string {
	p := v.page()
	v.head(p, d)
	return p.text.String()
}

// Host returns the lines of a status about the forge, the file and the machine, and what was spent.
func (v View) Host(d *control.Document) string { return v.foot(d) }

// Note returns a text in at most as many lines as said, one that is bad in its colour.
func (v View) Note(text string, bad bool, most int) (lines []string) {
	s := plain
	if bad {
		s = wrong
	}
	parts := wrap(Clean(text), v.Width)
	if len(parts) > most {
		parts = append(parts[:most-1], cut(strings.Join(parts[most-1:], " "), v.Width))
	}
	for _, part := range parts {
		p := v.page()
		p.write(part, s)
		lines = append(lines, p.text.String())
	}
	return lines
}

// Faint returns a line of text that stands back.
func (v View) Faint(text string) string {
	p := v.page()
	p.write(cut(text, v.Width), faint)
	return p.text.String()
}

// Fold splits a clean line of a log after every width columns. It keeps its spaces, unlike wrap, and returns at least
// one line.
func Fold(s string, width int) (lines []string) {
	s = strings.TrimRight(strings.ReplaceAll(s, "\t", "    "), " ")
	for len(s) > width && Columns(s) > width {
		var head string
		head, s = splitAt(s, width)
		lines = append(lines, strings.TrimRight(head, " "))
	}
	return append(lines, s)
}
