package sim

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// Measures of a chart in pixels.
const (
	ganttWidth = 1200 // for two days or less
	ganttDay   = 600  // for each day of a longer chart
	ganttMost  = 24000
	ganttTick  = 90 // smallest distance of two labels
	ganttLeft  = 170
	ganttRow   = 22
	ganttHead  = 52
	ganttWord  = 160 // for each entry of the legend
)

// ganttKinds are the colours and legends of the kinds of work. The time of reading a context again is drawn on top.
var ganttKinds = []struct{ kind, colour, words string }{
	{"issue", "#4c78a8", "issue"},
	{"rework", "#f58518", "rework"},
	{"review", "#54a24b", "review"},
	{"schedule", "#b79a20", "scheduled role"},
	{"", ganttReload, "context read again"},
}

const ganttReload = "#e45756"

// Gantt draws a report as an SVG picture: one row for each slot of a sticky thread, and one for each agent of any
// other thread. The picture covers all sessions, and at least the requested time.
func (r *Report) Gantt(asked time.Duration) string {
	g := gantt{end: max(r.end(), asked), rows: r.rows()}
	if g.end == 0 {
		g.end = time.Hour
	}
	g.width = min(max(ganttWidth, int(ganttDay*g.end.Hours()/24)), ganttMost)
	g.height = ganttHead + len(g.rows)*ganttRow + 8
	fmt.Fprintf(&g.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`font-family="sans-serif" font-size="12">`+"\n", ganttLeft+g.width+60, g.height)
	g.text(4, 14, `font-weight="bold"`, r.Policy)
	for i, k := range ganttKinds {
		x := ganttLeft + i*ganttWord
		fmt.Fprintf(&g.b, `<rect x="%d" y="5" width="10" height="10" fill="%s"/>`, x, k.colour)
		g.text(float64(x+15), 14, "", k.words)
	}
	g.axis()
	for i, row := range g.rows {
		g.text(4, ganttHead+i*ganttRow+14, "", row)
	}
	for i := range r.Spans {
		g.session(&r.Spans[i], slices.Index(g.rows, r.row(&r.Spans[i])))
	}
	g.b.WriteString("</svg>\n")
	return g.b.String()
}

// gantt is a chart that is being drawn.
type gantt struct {
	b             strings.Builder
	end           time.Duration
	width, height int
	rows          []string
}

func (g *gantt) x(d time.Duration) float64 {
	return ganttLeft + float64(g.width)*d.Seconds()/g.end.Seconds()
}

func (g *gantt) text(x float64, y int, style, text string) {
	fmt.Fprintf(&g.b, `<text x="%.1f" y="%d" %s>%s</text>`+"\n", x, y, style, html.EscapeString(text))
}

// axis draws a line and a label at round times.
func (g *gantt) axis() {
	step := axisStep(g.end, g.width/ganttTick)
	for at := time.Duration(0); at <= g.end; at += step {
		fmt.Fprintf(&g.b, `<line x1="%.1f" y1="%d" x2="%[1]f" y2="%[3]d" stroke="#ddd"/>`, g.x(at), ganttHead-6, g.height)
		g.text(g.x(at), ganttHead-10, `fill="#666" font-size="10"`, axisLabel(at))
	}
}

// axisStep returns the smallest round step that divides the whole into at most n parts.
func axisStep(whole time.Duration, n int) time.Duration {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{
		time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day,
	} {
		if whole <= step*time.Duration(n) {
			return step
		}
	}
	return 7 * day
}

// axisLabel formats a time in days, hours and minutes, such as 2d 6h.
func axisLabel(at time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if n := at / unit.length; n > 0 {
			parts = append(parts, fmt.Sprintf("%d%s", n, unit.name))
			at -= n * unit.length
		}
	}
	return cmp.Or(strings.Join(parts, " "), "0")
}

// session draws a session.
func (g *gantt) session(s *Span, row int) {
	y := ganttHead + row*ganttRow + 2
	colour := "#999"
	for _, k := range ganttKinds {
		if k.kind == s.Kind {
			colour = k.colour
		}
	}
	title := fmt.Sprintf("%s %s #%d, %s from %s", s.Agent, s.Kind, s.Chain,
		(s.To - s.From).Round(time.Second), axisLabel(s.From))
	fmt.Fprintf(&g.b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s</title></rect>`+"\n",
		g.x(s.From), y, max(0.5, g.x(s.To)-g.x(s.From)), ganttRow-5, colour, html.EscapeString(title))
	if s.Reload > 0 {
		fmt.Fprintf(&g.b, `<rect x="%.1f" y="%d" width="%.1f" height="5" fill="%s">`+
			`<title>context read again: %s</title></rect>`+"\n",
			g.x(s.From), y, max(0.5, g.x(s.From+s.Reload)-g.x(s.From)), ganttReload, s.Reload.Round(time.Second))
	}
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
