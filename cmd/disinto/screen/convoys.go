package screen

import (
	"fmt"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// memberOrder is the order of the members' states in a heading: final states first.
var memberOrder = []threads.MemberState{
	threads.MemberDone, threads.MemberFailed, threads.MemberCancelled,
	threads.MemberRunning, threads.MemberReady, threads.MemberBlocked,
}

// Convoys shows convoys with their members.
func (v View) Convoys(d *control.Convoys) string {
	p := v.page()
	for i := range d.Convoys {
		if i > 0 {
			p.end()
		}
		v.convoy(p, &d.Convoys[i])
	}
	if len(d.Convoys) == 0 {
		p.line("no open convoys", faint)
	}
	return p.text.String()
}

// convoy shows the state of a convoy, then its members by wave.
func (v View) convoy(p *page, c *threads.Convoy) {
	v.repo = c.Repo // a member in another repository shows that one
	p.table(2, [][]cell{{{"convoy", plain}, {forge.Ref{Repo: c.Repo, Number: c.Number}.String(), bold}, {c.Title, plain}}})
	p.line(convoyLine(c), convoyStyle(c))
	rows := [][]cell{row(faint, "WAVE", "ISSUE", "STATE", "AGENT", "TITLE", "WHY")}
	for i := range c.Members {
		m := &c.Members[i]
		line := row(plain, "", v.short(m.Ref().String()), string(m.State), m.Agent, m.Title, v.short(m.Why))
		if m.Wave > 0 {
			line[0].text = strconv.Itoa(m.Wave)
		}
		line[2].style = memberStyle(m.State)
		rows = append(rows, line)
	}
	p.headed(4, rows)
}

// convoyLine returns the state of a convoy and the number of members in each state.
func convoyLine(c *threads.Convoy) string {
	if !c.Known {
		return string(c.State) + ", its members are not read yet"
	}
	line := fmt.Sprintf("%s, %s", c.State, control.Count(len(c.Members), "member"))
	var parts []string
	for _, s := range memberOrder {
		if n := c.Counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, ", ")
	}
	return line
}

func convoyStyle(c *threads.Convoy) style {
	switch {
	case c.Counts[threads.MemberFailed] > 0:
		return wrong
	case c.State == threads.ConvoyStaged || c.State == threads.ConvoyCancelled:
		return held
	}
	return good
}

func memberStyle(s threads.MemberState) style {
	switch s {
	case threads.MemberDone, threads.MemberRunning:
		return good
	case threads.MemberFailed:
		return wrong
	case threads.MemberBlocked:
		return held
	}
	return plain
}
