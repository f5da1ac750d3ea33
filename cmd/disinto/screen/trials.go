package screen

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"codeberg.org/johba/disinto/threads/sim"
)

// minTrials is the least width of the tables of trials, also where the terminal is narrower: wrapped, their numbers
// could not be compared.
const minTrials = 100

// Trials shows the reports of a simulation side by side, what their columns say, then how long each priority waited
// under each policy. There is at least one. work says what was played.
func (v View) Trials(work string, reports []sim.Report) string {
	rows := [][]cell{row(faint,
		"policy", "done", "all done", "an issue", "waits", "idle", "gap", "busy", "moved", "swaps", "reread")}
	for i := range reports {
		r := &reports[i]
		line := row(plain, r.Policy, fmt.Sprintf("%d/%d", r.Done, r.Issues), Brief(r.Makespan), Brief(r.Turn.Mean),
			Brief(worstWait(r)), Brief(r.Idle), Brief(r.Gap.P99), fmt.Sprintf("%.0f %%", 100*r.Used), strconv.Itoa(r.Moves),
			strconv.Itoa(r.Switches), tokens(r.Reloaded))
		if r.Lost+r.Twice > 0 {
			line[1].style = wrong
		}
		rows = append(rows, line)
	}
	v.Width = max(v.Width, minTrials)
	p := v.page()
	p.line(work, plain)
	p.end()
	p.table(-1, rows)
	p.end()
	if waits := waitRows(reports); len(waits) > 2 {
		p.table(-1, waits)
		p.end()
	}
	p.table(-1, legend(reports))
	for i := range reports {
		if r := &reports[i]; r.Lost+r.Twice > 0 {
			p.line(fmt.Sprintf("%s: %s never done, and %s what was being done already",
				r.Policy, numbered(r.Lost, "issue is", "issues are"), numbered(r.Twice, "session did", "sessions did")), wrong)
		}
	}
	return p.text.String()
}

func numbered(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// legend says what the columns of the table are.
func legend(reports []sim.Report) (rows [][]cell) {
	for _, line := range [][2]string{
		{"all done", "when the last issue was done; no policy could before " + Brief(reports[len(reports)-1].Bound)},
		{"an issue", "from filing to done, on average"},
		{"waits", "from filing to the first session: 95 % of the issues wait no longer"},
		{"idle", "time that agents had nothing to do beside work that they could do, of all agents together"},
		{"gap", "the same at one time: 99 % of these times are shorter"},
		{"busy", "share of all agents' time in sessions, until all was done"},
		{"moved", "issues that were given to another agent before they were begun"},
		{"swaps", "sessions that a local slot began with another agent's or issue's context in its cache"},
		{"reread", "tokens that local servers read again because of that"},
	} {
		rows = append(rows, row(faint, line[0], line[1]))
	}
	return rows
}

// waitRows has a row for each priority: what 95 % of its issues wait at most under each policy.
func waitRows(reports []sim.Report) [][]cell {
	heads := []string{"waits"}
	for i := range reports {
		heads = append(heads, reports[i].Policy)
	}
	rows := [][]cell{row(faint, heads...)}
	for priority := 1; priority <= 10; priority++ {
		line := row(plain, "priority "+strconv.Itoa(priority))
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
