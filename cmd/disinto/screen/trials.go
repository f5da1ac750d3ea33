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

// Trials shows the reports of a simulation side by side, then how long each priority waited under each policy. There
// is at least one.
func (v View) Trials(reports []sim.Report) string {
	rows := [][]cell{row(faint,
		"policy", "done", "last done", "to done", "wait 95 %", "idle", "gap", "used", "moves", "reload", "again")}
	for i := range reports {
		r := &reports[i]
		line := row(plain, r.Policy, fmt.Sprintf("%d/%d", r.Done, r.Issues), brief(r.Makespan), brief(r.Turn.Mean),
			brief(worstWait(r)), brief(r.Idle), brief(r.Gap.P99), fmt.Sprintf("%.0f %%", 100*r.Used), strconv.Itoa(r.Moves),
			strconv.Itoa(r.Switches), tokens(r.Reloaded))
		if r.Lost+r.Twice > 0 {
			line[1].style = wrong
		}
		rows = append(rows, line)
	}
	v.Width = max(v.Width, minTrials)
	p := v.page()
	p.table(-1, rows)
	p.end()
	if waits := waitRows(reports); len(waits) > 2 {
		p.table(-1, waits)
		p.end()
	}
	p.line("last done: no policy can beat "+brief(reports[len(reports)-1].Bound)+
		". idle: agents beside work that they could do, all together; gap: 99 % of those times are shorter. "+
		"reload: slots that changed their context; again: tokens read again for it.", faint)
	for i := range reports {
		if r := &reports[i]; r.Lost+r.Twice > 0 {
			p.line(fmt.Sprintf("%s: %d issues are never done, and %d sessions did what was being done already",
				r.Policy, r.Lost, r.Twice), wrong)
		}
	}
	return p.text.String()
}

// waitRows has a row for each priority: what 95 % of its issues wait at most under each policy.
func waitRows(reports []sim.Report) [][]cell {
	heads := []string{"wait 95 %"}
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
				used, text = true, brief(reports[i].Wait[at].P95)
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

// brief is a duration in one unit.
func brief(d time.Duration) string {
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
