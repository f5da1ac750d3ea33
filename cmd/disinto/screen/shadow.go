package screen

import (
	"cmp"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// shadowLines is the number of differences that a status shows. Its JSON form has control.ShadowDiffers.
const shadowLines = 5

// shadow shows the decisions that another build would make differently, newest first.
func (v View) shadow(p *page, d *control.Document) {
	if d.Shadow == nil || len(d.Shadow.Differs) == 0 {
		return
	}
	rows := [][]cell{row(faint, "SHADOW", "AGO", "DECIDES DIFFERENTLY")}
	list := d.Shadow.Differs
	for _, x := range list[:min(len(list), shadowLines)] {
		on := v.short(forge.Ref{Repo: x.Repo, Number: x.Number}.String())
		words := "it would " + x.Shadow + "; in charge: " + x.Here
		rows = append(rows, row(plain, cmp.Or(x.Role, on), control.Age(v.Now.Sub(x.Last)), v.relative(v.short(words))))
	}
	p.headed(0, rows)
}

// shadowed returns the heading's row about the shadow; none without a shadow.
func (v View) shadowed(d *control.Document) [][]cell {
	if d.Shadow == nil {
		return nil
	}
	style := plain
	if d.Shadow.Error != "" {
		style = wrong
	}
	return [][]cell{labelled("shadow", d.Shadow.Line(v.Now), style)}
}
