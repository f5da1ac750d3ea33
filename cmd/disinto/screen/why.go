package screen

import (
	"fmt"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Why shows every rule in order with its answer: those about the item first and, if all of them say yes, those about
// each agent that could take it.
func (v View) Why(ex *threads.Explanation) string {
	p := v.page()
	v.repo = ex.Repo // the heading has it
	ref := forge.Ref{Repo: ex.Repo, Number: ex.Number}
	p.table(2, [][]cell{{{string(ex.Kind), plain}, {ref.String(), bold}, {ex.Title, plain}}})
	verdict := v.short(ex.Verdict)
	if ex.Position > 0 {
		verdict += fmt.Sprintf(" (place %d in the queue)", ex.Position)
	}
	switch {
	case ex.Code == "":
		p.line(verdict, good)
	case ex.Mend == "":
		p.line(verdict, held)
		p.line("nothing to do: it goes on by itself", faint)
	default:
		p.line(verdict, held)
		p.line("to change that: "+ex.Mend, faint)
	}
	p.end()
	v.steps(p, ex.Steps)
	for i := range ex.Candidates {
		c := &ex.Candidates[i]
		p.end()
		p.line(fmt.Sprintf("%s as %s on %s", c.Agent, c.Role, c.Thread), bold)
		v.steps(p, c.Steps)
	}
	return p.text.String()
}

// steps shows rules and their answers up to the first no. A later no most often has the same cause (a closed issue
// has no pull request, no reviewer and no merge either) and is left to --json.
func (v View) steps(p *page, steps []threads.Step) {
	rows := make([][]cell, 0, len(steps))
	for i, s := range steps {
		if !s.OK {
			rows = append(rows, []cell{{"  no", wrong}, {s.Rule, plain}, {v.short(s.Why), wrong}})
			if rest := len(steps) - i - 1; rest > 0 {
				rows = append(rows, row(faint, "", Count(rest, "more rule"), ""))
			}
			break
		}
		rows = append(rows, row(faint, "  yes", s.Rule, ""))
	}
	if len(rows) > 0 {
		p.table(-1, rows)
	}
}
