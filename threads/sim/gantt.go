package sim

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// Measures of a chart, in pixels.
const (
	ganttWidth = 1200
	ganttLeft  = 170
	ganttRow   = 22
	ganttHead  = 34
)

// ganttColours are the colours by kind of work. Reloading is drawn over them.
var ganttColours = map[string]string{
	"issue": "#4c78a8", "rework": "#f58518", "review": "#54a24b", "schedule": "#b79a20",
}

// Gantt draws the first day of a report as an SVG picture: one row for each slot of a thread with bound slots, and
// one for each agent of any other thread.
func (r *Report) Gantt() string {
	end := min(r.Makespan, 24*time.Hour)
	if end == 0 {
		end = time.Hour
	}
	rows := r.rows()
	var b strings.Builder
	height := ganttHead + len(rows)*ganttRow + 8
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`font-family="sans-serif" font-size="12">`+"\n", ganttLeft+ganttWidth, height)
	fmt.Fprintf(&b, `<text x="4" y="14" font-weight="bold">%s</text>`+"\n", html.EscapeString(r.Policy))
	x := func(d time.Duration) float64 { return ganttLeft + ganttWidth*d.Seconds()/end.Seconds() }
	for i := range 13 {
		at := end * time.Duration(i) / 12
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%[1]f" y2="%[3]d" stroke="#ddd"/>`+
			`<text x="%.1[1]f" y="28" fill="#666" font-size="10">%[4]s</text>`+"\n",
			x(at), ganttHead-4, height, at.Round(time.Minute))
	}
	for i, row := range rows {
		fmt.Fprintf(&b, `<text x="4" y="%d">%s</text>`+"\n", ganttHead+i*ganttRow+14, html.EscapeString(row))
	}
	for i := range r.Spans {
		s := &r.Spans[i]
		to := min(s.To, end)
		if to <= s.From {
			continue
		}
		y := ganttHead + slices.Index(rows, r.row(s))*ganttRow
		title := fmt.Sprintf("%s %s #%d, %s from %s", s.Agent, s.Kind, s.Chain,
			(s.To - s.From).Round(time.Second), s.From.Round(time.Second))
		fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s</title></rect>`+"\n",
			x(s.From), y+2, max(0.5, x(to)-x(s.From)), ganttRow-5, ganttColours[s.Kind], html.EscapeString(title))
		if s.Reload > 0 {
			fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="5" fill="#e45756">`+
				`<title>context read again: %s</title></rect>`+"\n",
				x(s.From), y+2, max(0.5, x(min(end, s.From+s.Reload))-x(s.From)), s.Reload.Round(time.Second))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// rows returns the names of the rows, in order.
func (r *Report) rows() []string {
	var rows []string
	for i := range r.Spans {
		if row := r.row(&r.Spans[i]); !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	return rows
}

func (r *Report) row(s *Span) string {
	if r.bound[s.Thread] {
		return fmt.Sprintf("%s slot %d", s.Thread, s.Slot)
	}
	return s.Thread + " " + s.Agent
}
