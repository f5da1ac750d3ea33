package screen

import (
	"slices"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// ConvoyList shows a line for each convoy.
func (v View) ConvoyList(d *control.Convoys) string {
	p := v.page()
	if len(d.Convoys) == 0 {
		p.line("no open convoys", faint)
		return p.text.String()
	}
	if one := d.Convoys[0].Repo; !slices.ContainsFunc(d.Convoys, func(c threads.Convoy) bool { return c.Repo != one }) {
		v.repo = one
	}
	rows := [][]cell{row(faint, "CONVOY", "TITLE", "STATE")}
	for i := range d.Convoys {
		c := &d.Convoys[i]
		line := row(plain, v.short(forge.Ref{Repo: c.Repo, Number: c.Number}.String()), c.Title, convoyLine(c))
		line[2].style = convoyStyle(c)
		rows = append(rows, line)
	}
	p.table(1, rows)
	return p.text.String()
}
