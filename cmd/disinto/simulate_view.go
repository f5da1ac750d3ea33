package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"codeberg.org/johba/disinto/threads/sim"
)

// showReports prints policies side by side, and then how long each priority waited under each of them.
func showReports(t *terminal, reports []sim.Report) error {
	rows := [][]cell{heads("policy", "done", "last done", "to done", "wait 95 %", "idle", "gap", "used", "moves", "reload", "again")}
	for i := range reports {
		r := &reports[i]
		rows = append(rows, []cell{
			{r.Policy, plain},
			{fmt.Sprintf("%d/%d", r.Done, r.Issues), plain},
			{brief(r.Makespan), plain},
			{brief(r.Turn.Mean), plain},
			{brief(worstWait(r)), plain},
			{brief(r.Idle), plain},
			{brief(r.Gap.P99), plain},
			{fmt.Sprintf("%.0f %%", 100*r.Used), plain},
			{strconv.Itoa(r.Moves), plain},
			{strconv.Itoa(r.Switches), plain},
			{tokens(r.Reloaded), plain},
		})
		if r.Lost+r.Twice > 0 {
			rows[len(rows)-1][1].style = wrong
		}
	}
	width, _ := t.size()
	out := &page{width: max(width, 100), colour: t.colour}
	out.table(-1, rows)
	out.end()
	if waits := waitRows(reports); len(waits) > 2 {
		out.table(-1, waits)
		out.end()
	}
	out.line("last done: no policy can beat "+brief(reports[len(reports)-1].Bound)+". idle: agents beside work that they could do, all together; "+
		"gap: 99 % of those times are shorter. reload: slots that changed their context; again: tokens read again for it.", faint)
	for i := range reports {
		if r := &reports[i]; r.Lost+r.Twice > 0 {
			out.line(fmt.Sprintf("%s: %d issues are never done, and %d sessions did what was being done already", r.Policy, r.Lost, r.Twice), wrong)
		}
	}
	_, err := io.WriteString(t, out.text.String())
	return err
}

// waitRows are, for each priority, how long 95 % of its issues wait at most under each policy.
func waitRows(reports []sim.Report) [][]cell {
	names := []string{"wait 95 %"}
	for i := range reports {
		names = append(names, reports[i].Policy)
	}
	rows := [][]cell{heads(names...)}
	for p := 1; p <= 10; p++ {
		row := []cell{{"priority " + strconv.Itoa(p), plain}}
		any := false
		for i := range reports {
			at := slices.IndexFunc(reports[i].Wait, func(w sim.ClassWait) bool { return w.Priority == p })
			text := "-"
			if at >= 0 {
				any, text = true, brief(reports[i].Wait[at].P95)
			}
			row = append(row, cell{text, plain})
		}
		if any {
			rows = append(rows, row)
		}
	}
	return rows
}

// worstWait is how long 95 % of the issues of the priority that waits longest wait at most.
func worstWait(r *sim.Report) time.Duration {
	var worst time.Duration
	for i := range r.Wait {
		worst = max(worst, r.Wait[i].P95)
	}
	return worst
}

// brief is a duration in one or two units.
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
