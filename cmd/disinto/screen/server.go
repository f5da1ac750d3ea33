package screen

import (
	"fmt"

	"codeberg.org/johba/disinto/supervisor/control"
)

// servers shows the servers of local threads: their speeds per slot and the number of waiting requests. Below a server
// it shows each slot whose speed is known.
func (v View) servers(p *page, d *control.Document) {
	rows := [][]cell{row(faint, "SERVER", "READS", "IN AN HOUR", "WRITES", "IN AN HOUR", "WAITING", "MODEL")}
	var faults [][]cell
	for _, t := range d.Threads {
		if t.Cold != "" {
			faults = append(faults, labelled("cache", t.Name+": "+t.Cold, held))
		}
		s := t.Server
		if s == nil {
			continue
		}
		waits := "-"
		if s.Deferred != nil {
			waits = fmt.Sprint(*s.Deferred)
		}
		model := s.Model
		if s.Asleep {
			model += " (asleep)"
		}
		rows = append(rows, row(plain, t.Name, control.PerSecond(s.Now.Read), control.PerSecond(s.Hour.Read),
			control.PerSecond(s.Now.Written), control.PerSecond(s.Hour.Written), waits, model))
		for _, slot := range s.At {
			if slot.Read != nil || slot.Written != nil {
				rows = append(rows, row(plain, fmt.Sprintf("  slot %d", slot.Index), control.PerSecond(slot.Read), "",
					control.PerSecond(slot.Written), "", "", ""))
			}
		}
		for _, line := range s.Problems {
			faults = append(faults, labelled("server", t.Name+": "+line, held))
		}
	}
	p.headed(6, rows)
	if len(faults) == 0 {
		return
	}
	if len(rows) == 1 {
		p.end()
	}
	p.table(-1, faults)
}
