package screen

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/sim"
)

// Trials shows the reports of a simulation, at least one, with a column for each policy, and explains the rows. work
// describes the simulated work, and learnt has the durations.
func (v View) Trials(work string, reports []sim.Report, learnt []sim.Learnt) string {
	p := v.page()
	p.line(work, plain)
	p.end()
	rows := [][]cell{row(faint, "")}
	for i := range reports {
		rows[0] = append(rows[0], cell{reports[i].Policy, bold})
	}
	for _, m := range measures {
		line := row(faint, m.name)
		for i := range reports {
			line = append(line, cell{m.of(&reports[i]), plain})
		}
		rows = append(rows, line)
	}
	for i := range reports {
		if r := &reports[i]; r.Lost+r.Twice > 0 {
			rows[1][i+1].style = wrong
		}
	}
	p.table(-1, append(rows, waitRows(reports)...))
	p.end()
	p.table(-1, legend(reports))
	if rows := learntRows(learnt); len(rows) > 0 {
		p.end()
		p.table(-1, rows)
	}
	for i := range reports {
		if r := &reports[i]; r.Lost+r.Twice > 0 {
			p.line(fmt.Sprintf("%s: %s never done, and %s work that another session was doing",
				r.Policy, numbered(r.Lost, "issue was", "issues were"), numbered(r.Twice, "session did", "sessions did")), wrong)
		}
	}
	return p.text.String()
}

// measures are the rows of the table. The first shows whether all issues were done.
var measures = []struct {
	name string
	of   func(*sim.Report) string
	says string // its text in the legend; empty if it needs none
}{
	{"done", func(r *sim.Report) string { return fmt.Sprintf("%d/%d", r.Done, r.Issues) }, ""},
	{
		"all done", func(r *sim.Report) string { return Brief(r.Makespan) },
		"when the last issue was done; no policy could be done before ",
	},
	{"an issue", func(r *sim.Report) string { return Brief(r.Turn.Mean) }, "from filing to done, on average"},
	{
		"idle", func(r *sim.Report) string { return Brief(r.Idle) },
		"total time that agents were idle while work waited that they could do",
	},
	{
		"gap", func(r *sim.Report) string { return Brief(r.Gap.P99) },
		"99th percentile of a single such idle time",
	},
	{
		"busy", func(r *sim.Report) string { return fmt.Sprintf("%.0f %%", 100*r.Used) },
		"share of all agents' time in sessions, until all was done",
	},
	{
		"moved", func(r *sim.Report) string { return strconv.Itoa(r.Moves) },
		"issues that moved to another agent before they started",
	},
	{
		"swaps", func(r *sim.Report) string { return strconv.Itoa(r.Switches) },
		"sessions that started in a local slot with another agent's or issue's context in its cache",
	},
	{
		"reread", func(r *sim.Report) string { return control.Tokens(r.Reloaded) },
		"tokens that local servers read again because of swaps",
	},
	{
		"waits", func(r *sim.Report) string { return Brief(worstWait(r)) },
		"from filing to the first session: 95th percentile, for the slowest priority",
	},
}

func numbered(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// legend explains the columns and the rows of the table.
func legend(reports []sim.Report) (rows [][]cell) {
	for _, p := range sim.Policies() {
		if slices.ContainsFunc(reports, func(r sim.Report) bool { return r.Policy == p.Name }) {
			rows = append(rows, row(faint, p.Name, p.Says))
		}
	}
	for _, m := range measures {
		says := m.says
		if m.name == "all done" {
			says += Brief(reports[len(reports)-1].Bound)
		}
		if says != "" {
			rows = append(rows, row(faint, m.name, says))
		}
	}
	return rows
}

// delayNames are the names of delays for people.
var delayNames = map[sim.Delay]string{
	sim.Handover: "next session", sim.Notice: "new issue", sim.Claim: "claim",
	sim.Checks: "checks", sim.Merging: "merge", sim.People: "people",
}

// learntRows returns a row for each duration, with the number of sessions that it was learnt from.
func learntRows(learnt []sim.Learnt) (rows [][]cell) {
	for _, l := range learnt {
		what := l.What
		if name, delay := delayNames[sim.Delay(what)]; delay {
			what = name
		}
		took, from := Brief(l.P50)+", "+Brief(l.P90), "learnt from "+strconv.Itoa(l.Sessions)
		switch {
		case l.Usual && l.P50 == 0 && delayNames[sim.Delay(l.What)] == "":
			took, from = "-", fmt.Sprintf("from other agents: %d known, too few", l.Sessions)
		case l.Usual:
			took, from = Brief(l.P50), fmt.Sprintf("assumed: %d known, too few", l.Sessions)
		}
		rows = append(rows, row(plain, what, took, from))
	}
	if len(rows) > 0 {
		rows = slices.Insert(rows, 0, row(faint, "takes", "half, 90 %", "sessions"))
	}
	return rows
}

// waitRows returns a row for each priority, with the 95th percentile of its issues' wait under each policy. It returns
// none for a single priority.
func waitRows(reports []sim.Report) (rows [][]cell) {
	for priority := 1; priority <= 10; priority++ {
		line := row(faint, "  priority "+strconv.Itoa(priority))
		used := false
		for i := range reports {
			of := func(w sim.ClassWait) bool { return w.Priority == priority }
			text := "-"
			if at := slices.IndexFunc(reports[i].Wait, of); at >= 0 {
				used, text = true, Brief(reports[i].Wait[at].P95)
			}
			line = append(line, cell{text, plain})
		}
		if used {
			rows = append(rows, line)
		}
	}
	if len(rows) < 2 {
		return nil
	}
	return rows
}

// worstWait returns the 95th percentile of the wait for the slowest priority.
func worstWait(r *sim.Report) time.Duration {
	var worst time.Duration
	for i := range r.Wait {
		worst = max(worst, r.Wait[i].P95)
	}
	return worst
}

// Brief formats a duration with one unit.
func Brief(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1fd", d.Hours()/24)
	case d >= time.Hour:
		return fmt.Sprintf("%.1fh", d.Hours())
	case d >= time.Minute:
		return fmt.Sprintf("%.1fm", d.Minutes())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}
