package screen

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// shownStays is the number of issues that did not move that Fleet shows for each cycle. Cycle shows all.
const shownStays = 3

// Fleet shows all agents of all hosts, then the cycles with their moves, newest first.
func (v View) Fleet(s *fleet.Status) string {
	p := v.page()
	rows := [][]cell{row(faint, "HOST", "AGENT", "ROLE", "IDLE", "PENDING", "STATE")}
	for i := range s.Hosts {
		rows = append(rows, v.host(&s.Hosts[i])...)
	}
	p.table(-1, rows)
	p.end()
	switch {
	case len(s.Cycles) == 0 && s.NextAt.IsZero():
		p.line("no rebalance yet", faint)
	case len(s.Cycles) == 0:
		rest := control.Age(s.NextAt.Sub(v.Now))
		p.line("no rebalance yet; the first is in "+rest, faint)
	case !s.NextAt.IsZero():
		p.line("next rebalance in "+control.Age(s.NextAt.Sub(v.Now)), faint)
	}
	for _, c := range s.Cycles {
		more := len(c.Stays) - shownStays
		c.Stays = c.Stays[:min(len(c.Stays), shownStays)]
		p.text.WriteString(v.Cycle(&c))
		if more > 0 {
			p.table(-1, [][]cell{row(faint, "", numbered(more, "more issue stays", "more issues stay"))})
		}
	}
	return p.text.String()
}

// host shows the agents of one host. The host whose supervisor answers has no name.
func (v View) host(h *fleet.HostStatus) [][]cell {
	name := h.Name
	if name == "" {
		name = "(this)"
	}
	if !h.Known {
		return [][]cell{{{name, plain}, {"?", wrong}, {}, {}, {}, {"unknown: " + h.Why, wrong}}}
	}
	if len(h.Agents) == 0 {
		return [][]cell{{{name, plain}, {"no agents", faint}, {}, {}, {}, {}}}
	}
	rows := make([][]cell, 0, len(h.Agents))
	for i := range h.Agents {
		a := &h.Agents[i]
		line := row(plain, name, a.Agent, a.Role, "", fmt.Sprint(a.PendingCount), string(a.State))
		line[1].style = bold
		if a.Idle {
			line[3].text = v.ago(a.IdleSince)
		}
		switch {
		case a.Active != "":
			line[5].text += ": " + a.Active
		case a.StateWhy != "":
			line[5] = cell{line[5].text + ": " + a.StateWhy, held}
		}
		if a.State == threads.LoadSick {
			line[5].style = wrong
		}
		rows = append(rows, line)
	}
	return rows
}

// Cycle shows one rebalance: a summary, and a line for each issue that moved or stayed.
func (v View) Cycle(c *fleet.Cycle) string {
	p := v.page()
	moves := 0
	for _, m := range c.Moves {
		if m.State != fleet.MoveStays {
			moves++
		}
	}
	took := time.Duration(c.TookMS) * time.Millisecond
	words := []string{
		c.At.Format(time.RFC3339), "idle " + names(c.Idle), "busy " + names(c.Busy),
		fmt.Sprintf("%s in %s, %s", control.Count(c.Calls, "call"), took, control.Count(moves, "move")),
	}
	if c.DryRun {
		words = append(words, "dry run")
	}
	p.line(strings.Join(words, "; "), bold)
	var rows [][]cell
	for _, m := range c.Moves {
		look, why := good, m.Why
		if m.State != fleet.MoveDone {
			look = held
		}
		if m.StateWhy != "" {
			why = m.StateWhy
		}
		line := row(plain, "  "+string(m.State), reference(m.Repo, m.Number), m.From+" -> "+m.To, why)
		line[0].style = look
		rows = append(rows, line)
	}
	for _, s := range c.Stays {
		line := row(faint, "  stays", reference(s.Repo, s.Number), s.Agent, s.Why)
		line[1].style, line[2].style = plain, plain
		rows = append(rows, line)
	}
	if len(rows) > 0 {
		p.table(-1, rows)
	}
	for _, u := range c.Unknown {
		p.table(-1, [][]cell{row(wrong, "", "unknown "+u)})
	}
	return p.text.String()
}

func reference(repo string, number int64) string {
	return forge.Ref{Repo: repo, Number: number}.String()
}

func names(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
