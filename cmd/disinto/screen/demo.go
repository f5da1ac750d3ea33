//go:build linux

package screen

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
)

// DemoProgress shows how far a running demo is, and the address of its control room if it has one.
func (v View) DemoProgress(room string, merged int, took time.Duration) string {
	p := v.page()
	p.line(fmt.Sprintf("demo: %d of %d merged, %s", merged, demo.Due(), control.Age(took)), bold)
	if room != "" {
		p.line(room, faint)
	}
	return p.text.String()
}

// DemoReport shows the result of a demo.
func (v View) DemoReport(r *demo.Report, took time.Duration) string {
	v.repo = demo.Repo
	p := v.page()
	p.end()
	p.line(fmt.Sprintf("%d of %d issues merged in %s", len(r.Merged), demo.Due(), control.Age(took)), bold)
	p.end()
	p.table(1, merged(r))
	rows := [][]cell{row(faint, "HELD", "TITLE", "WHY")}
	for _, q := range r.Queue {
		if q.Number != 0 {
			rows = append(rows, []cell{{fmt.Sprintf("#%d", q.Number), plain}, {q.Title, plain}, {v.short(q.Why), held}})
		}
	}
	p.headed(1, rows)
	p.end()
	p.table(-1, [][]cell{
		labelled("agents", strings.Join(r.Used, ", "), plain),
		labelled("switches", control.Count(r.Switches, "change")+" of agent in a llama slot", plain),
		violations(r),
	})
	return p.text.String()
}

// merged returns a row for each merged issue, and for each issue that should have been merged.
func merged(r *demo.Report) [][]cell {
	rows := [][]cell{row(faint, "ISSUE", "TITLE", "BY", "APPROVED BY")}
	for _, m := range r.Merged {
		approved := strings.Join(m.Approvers, " and ")
		if m.Rounds > 0 {
			approved += fmt.Sprintf(", in round %d", m.Rounds+1)
		}
		rows = append(rows, row(plain, fmt.Sprintf("#%d", m.Issue), m.Title, m.Author, approved))
	}
	for _, n := range r.Missing {
		rows = append(rows, []cell{{fmt.Sprintf("#%d", n), plain}, {}, {}, {"not merged", wrong}})
	}
	return rows
}

// violations returns the row with the violations or, if there are none, with the audited rules.
func violations(r *demo.Report) []cell {
	if len(r.Violations) > 0 {
		return labelled("violations", strings.Join(r.Violations, "; "), wrong)
	}
	return labelled("violations", fmt.Sprintf("none in %s: one agent per llama slot, one session per agent, "+
		"no local review of local work, no start while blocked", control.Count(r.Looked, "session")), good)
}
