package screen

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"codeberg.org/johba/disinto/threads/sim"
)

// Trials shows the reports of a simulation side by side, a column for each policy, and what the rows say. There is at
// least one. work says what was played.
// learnt says how long things take.
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
			p.line(fmt.Sprintf("%s: %s never done, and %s work that another one was doing",
				r.Policy, numbered(r.Lost, "issue was", "issues were"), numbered(r.Twice, "session did", "sessions did")), wrong)
		}
	}
	return p.text.String()
}

// measures are the rows of the table, the first of which says whether all was done.
var measures = []struct {
	name string
	of   func(*sim.Report) string
	says string // in the legend; empty needs no words
}{
	{"done", func(r *sim.Report) string { return fmt.Sprintf("%d/%d", r.Done, r.Issues) }, ""},
	{
		"all done", func(r *sim.Report) string { return Brief(r.Makespan) },
		"when the last issue was done; no policy could before ",
	},
	{"an issue", func(r *sim.Report) string { return Brief(r.Turn.Mean) }, "from filing to done, on average"},
	{
		"idle", func(r *sim.Report) string { return Brief(r.Idle) },
		"time that agents had nothing to do beside work that they could do, of all agents together",
	},
	{
		"gap", func(r *sim.Report) string { return Brief(r.Gap.P99) },
		"the same at one time: 99 % of these times are shorter",
	},
	{
		"busy", func(r *sim.Report) string { return fmt.Sprintf("%.0f %%", 100*r.Used) },
		"share of all agents' time in sessions, until all was done",
	},
	{
		"moved", func(r *sim.Report) string { return strconv.Itoa(r.Moves) },
		"issues that were given to another agent before they were begun",
	},
	{
		"swaps", func(r *sim.Report) string { return strconv.Itoa(r.Switches) },
		"sessions that a local slot began with another agent's or issue's context in its cache",
	},
	{
		"reread", func(r *sim.Report) string { return tokens(r.Reloaded) },
		"tokens that local servers read again because of that",
	},
	{
		"waits", func(r *sim.Report) string { return Brief(worstWait(r)) },
		"from filing to the first session: 95 % of the issues of a priority wait no longer",
	},
}

func numbered(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// legend says what the rows of the table are.
func legend(reports []sim.Report) (rows [][]cell) {
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

// delayNames are the words for delays.
var delayNames = map[sim.Delay]string{
	sim.Handover: "next session", sim.Notice: "new issue", sim.Claim: "claim",
	sim.Checks: "checks", sim.Merging: "merge", sim.People: "people",
}

// learntRows says how long things take, and from how much of the past that is known.
func learntRows(learnt []sim.Learnt) (rows [][]cell) {
	for _, l := range learnt {
		what := l.What
		if name, delay := delayNames[sim.Delay(what)]; delay {
			what = name
		}
		took, from := Brief(l.P50)+", "+Brief(l.P90), "learnt from "+strconv.Itoa(l.Sessions)
		switch {
		case l.Usual && l.P50 == 0 && delayNames[sim.Delay(l.What)] == "":
			took, from = "-", fmt.Sprintf("as others: %d known, too few", l.Sessions)
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

// waitRows has a row for each priority of several: what 95 % of its issues wait at most under each policy.
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

// worstWait is the wait that 95 % of the issues of the slowest priority do not exceed.
func worstWait(r *sim.Report) time.Duration {
	var worst time.Duration
	for i := range r.Wait {
		worst = max(worst, r.Wait[i].P95)
	}
	return worst
}

// Brief is a duration in one unit.
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

func tokens(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1fG", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return strconv.FormatInt(n, 10)
}
