package web

import (
	"fmt"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// The measures of a graph, in pixels. A wave with more than tallest members takes several columns: 200 members
// without dependencies then fill about three screens in place of one tall column.
const (
	boxWidth, boxHeight = 190, 44
	gapX, gapY          = 40, 10
	graphTop            = 24 // where the first boxes start, below the headings
	tallest             = 16
	boxText             = 26 // the characters that fit into a box
)

// graph shows issues as boxes in columns, with a line from each issue to those that depend on it.
type graph struct {
	Label         string
	Width, Height int
	Heads         []label
	Lines         []string // as the data of SVG paths
	Boxes         []box
}

// label is a text at a horizontal position.
type label struct {
	X    int
	Text string
}

// box is an issue in a graph. X and Y are its top left corner.
type box struct {
	X, Y        int
	Href        string
	Name, Title string // cut to the width of the box
	Words       string // the full text, for tooltips and screen readers
	State       threads.MemberState
	Here        bool // the page is about this issue
	ref         forge.Ref
	dependsOn   []string
	wave        int
}

// stage is a group of issues with a heading, drawn as one or more columns.
type stage struct {
	Title   string
	Members []threads.Member
	Here    bool
}

// draw places the members of stages from left to right.
func draw(about string, stages []stage) *graph {
	g := &graph{Label: about}
	x, height := 0, 0
	for wave, st := range stages {
		if len(st.Members) == 0 {
			continue
		}
		g.Heads = append(g.Heads, label{x, st.Title})
		for i := range st.Members {
			m := &st.Members[i]
			column, place := i/tallest, i%tallest
			b := boxOf(m)
			b.X, b.Y = x+column*(boxWidth+gapX/2), graphTop+place*(boxHeight+gapY)
			b.wave, b.Here = wave, st.Here
			g.Boxes = append(g.Boxes, b)
			height = max(height, b.Y+boxHeight)
		}
		g.Width = g.Boxes[len(g.Boxes)-1].X + boxWidth
		if len(st.Members) > tallest {
			g.Width = max(g.Width, x+(len(st.Members)-1)/tallest*(boxWidth+gapX/2)+boxWidth)
		}
		x = g.Width + gapX
	}
	g.Width, g.Height = g.Width+2, height+2
	g.connect()
	return g
}

func boxOf(m *threads.Member) box {
	name := m.Ref().Short() + " " + string(m.State)
	if m.Agent != "" {
		name = m.Ref().Short() + " " + m.Agent
	}
	words := fmt.Sprintf("%s %s: %s", m.Ref(), m.Title, m.State)
	for _, more := range []string{m.Agent, m.Why} {
		if more != "" {
			words += ", " + more
		}
	}
	return box{
		Href: refOf(m.Repo, m.Number).Href, Name: threads.Clip(name, boxText), Title: threads.Clip(m.Title, boxText),
		Words: words, State: m.State, ref: m.Ref(), dependsOn: m.DependsOn,
	}
}

// connect draws a line from each box to those on its right that depend on it.
func (g *graph) connect() {
	by := make(map[string]*box, len(g.Boxes))
	for i := range g.Boxes {
		by[g.Boxes[i].ref.String()] = &g.Boxes[i]
	}
	for i := range g.Boxes {
		to := &g.Boxes[i]
		for _, name := range to.dependsOn {
			if from := by[name]; from != nil && from.wave < to.wave {
				g.Lines = append(g.Lines, curve(from.X+boxWidth, from.Y+boxHeight/2, to.X, to.Y+boxHeight/2))
			}
		}
	}
}

// curve returns an SVG path that leaves and arrives horizontally.
func curve(x, y, toX, toY int) string {
	half := (x + toX) / 2
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, y, half, y, half, toY, toX, toY)
}

// portion is a part of a progress bar, in percent of the bar's width.
type portion struct {
	State       threads.MemberState
	Count       int
	From, Width float64
}

// states are the states of members, in the order of a progress bar.
var states = []threads.MemberState{
	threads.MemberDone, threads.MemberRunning, threads.MemberReady, threads.MemberBlocked, threads.MemberFailed,
	threads.MemberCancelled,
}

// portions returns the parts of a progress bar that are not empty.
func portions(counts map[threads.MemberState]int) (list []portion) {
	total := 0
	for _, n := range counts {
		total += n
	}
	from := 0.0
	for _, state := range states {
		if n := counts[state]; n > 0 {
			width := 100 * float64(n) / float64(total)
			list = append(list, portion{state, n, from, width})
			from += width
		}
	}
	return list
}
