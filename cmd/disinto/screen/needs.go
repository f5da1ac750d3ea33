package screen

import (
	"slices"
	"strings"

	"codeberg.org/johba/disinto/supervisor/control"
)

// needed returns everything that needs a person, each with its remedy: a paused factory, problems of the factory
// itself, held agents, then items, oldest first.
func (v View) needed(d *control.Document) (rows []Row) {
	add := func(row Row, s style) {
		row.Group, row.style = NeedsYou, s
		rows = append(rows, row)
	}
	if d.Paused && !slices.ContainsFunc(d.Problems, saysResume) {
		add(Row{Name: "everything", Why: "paused" + v.relative(d.Words()) + "; disinto resume starts waiting work"}, held)
	}
	for _, fault := range d.Faults() {
		add(Row{Name: "factory", Why: fault}, wrong)
	}
	for _, a := range d.Agents {
		if a.State == control.AgentHeld && a.NeedsPerson {
			why := strings.TrimPrefix(a.Why, a.Name+" ")
			add(Row{Name: a.Name, Why: why, Of: a.Name, Agent: a.Name, Paused: a.Paused}, held)
		}
	}
	for _, q := range needingPerson(d) {
		text := v.relative(v.short(q.Why))
		if q.Mend != "" {
			text = remedied(text, v.typed(q.Mend))
		}
		row := Row{Name: v.work(q.Kind, q.Repo, q.Number), At: q.Since, Title: q.Title, Why: text + urlSuffix(d, &q)}
		row.about(q.Repo, q.Number)
		add(row, held)
	}
	return rows
}

// needs shows what needs a person.
func (v View) needs(p *page, d *control.Document, most int) {
	var rows [][]cell
	for _, r := range v.needed(d) {
		rows = append(rows, []cell{{r.Name, plain}, {r.Why, r.style}})
	}
	if len(rows) == 0 {
		return
	}
	p.end()
	p.line("NEEDS YOU", bold)
	p.most(most, -1, rows)
}

// remedied appends a remedy to a reason, which may end with a sentence from an agent.
func remedied(why, mend string) string {
	if strings.HasSuffix(why, "?") || strings.HasSuffix(why, "!") {
		return why + " " + mend
	}
	return strings.TrimRight(why, ".") + ": " + mend
}

// saysResume reports whether a problem, such as the pause at a first start, already mentions disinto resume.
func saysResume(problem string) bool { return strings.Contains(problem, "disinto resume") }

// needsLines is the number of lines for needs on a terminal.
const needsLines = 5

// needingPerson returns the items that need a person, oldest first.
func needingPerson(d *control.Document) []control.QueueDocument {
	chosen := func(q control.QueueDocument) bool { return !q.NeedsPerson }
	list := slices.DeleteFunc(slices.Concat(d.Queue, d.Unqueued), chosen)
	slices.SortStableFunc(list, func(a, b control.QueueDocument) int { return a.Since.Compare(b.Since) })
	return list
}

// urlSuffix returns the item's URL on the forge, to append to its remedy; empty if the remedy is a disinto command or
// the item has no page.
func urlSuffix(d *control.Document, q *control.QueueDocument) string {
	if q.Number == 0 || d.Forge.URL == "" || strings.Contains(q.Mend, "`disinto ") {
		return ""
	}
	return ", " + control.ItemPage(d.Forge.URL, q.Repo, q.Number)
}
