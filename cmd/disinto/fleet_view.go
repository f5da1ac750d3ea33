package main

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// fleet shows all agents of all hosts, then the looks, newest first, with what they moved.
func (v view) fleet(s *fleet.Status) string {
	p := &page{width: v.width, colour: v.colour}
	rows := [][]cell{{{"host", faint}, {"agent", faint}, {"role", faint}, {"idle", faint}, {"pending", faint}, {"state", faint}}}
	for i := range s.Hosts {
		rows = append(rows, v.host(&s.Hosts[i])...)
	}
	p.table(-1, rows)
	p.end()
	switch {
	case len(s.Cycles) == 0 && s.NextAt.IsZero():
		p.line("nobody has looked for what to move", faint)
	case len(s.Cycles) == 0:
		p.line("nobody has looked for what to move; the next look is in "+age(s.NextAt.Sub(v.now)), faint)
	case !s.NextAt.IsZero():
		p.line("next look in "+age(s.NextAt.Sub(v.now)), faint)
	}
	for _, c := range s.Cycles {
		more := len(c.Stays) - shownStays
		c.Stays = c.Stays[:min(len(c.Stays), shownStays)]
		p.text.WriteString(v.cycle(&c))
		if more > 0 {
			p.table(-1, [][]cell{{{}, {fmt.Sprintf("and %d more stay", more), faint}}})
		}
	}
	return p.text.String()
}

// shownStays is how many of the issues that did not move a status shows of each look; fleet rebalance shows all.
const shownStays = 3

// thisHost is what the host that answers is called in the table.
const thisHost = "(this)"

func (v view) host(h *fleet.HostStatus) [][]cell {
	name := h.Name
	if name == "" {
		name = thisHost
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
		state, look := string(a.State), plain
		switch {
		case a.Active != "":
			state += ": " + a.Active
		case a.StateWhy != "":
			state, look = state+": "+a.StateWhy, held
		}
		idle := ""
		if a.Idle && !a.IdleSince.IsZero() {
			idle = age(v.now.Sub(a.IdleSince))
		}
		rows = append(rows, []cell{{name, plain}, {a.Agent, bold}, {a.Role, plain}, {idle, plain}, {fmt.Sprint(a.PendingCount), plain}, {state, look}})
		if a.State == threads.LoadSick {
			rows[i][5].style = wrong
		}
	}
	return rows
}

// cycle shows one look: a line about it, and one for each issue that moved or might have.
func (v view) cycle(c *fleet.Cycle) string {
	p := &page{width: v.width, colour: v.colour}
	words := []string{
		c.At.Format(time.RFC3339), "idle " + names(c.Idle), "busy " + names(c.Busy),
		fmt.Sprintf("%s in %s, %s", count(c.Calls, "call"), time.Duration(c.TookMS)*time.Millisecond, count(len(c.Moves), "move")),
	}
	if c.DryRun {
		words = append(words, "dry run")
	}
	p.line(strings.Join(words, "; "), bold)
	var rows [][]cell
	for _, m := range c.Moves {
		state, look := string(m.State), good
		if m.State != fleet.MoveDone {
			look = held
		}
		why := m.Why
		if m.StateWhy != "" {
			why = m.StateWhy
		}
		rows = append(rows, []cell{{"  " + state, look}, {reference(m.Repo, m.Number), plain}, {m.From + " -> " + m.To, plain}, {why, plain}})
	}
	for _, s := range c.Stays {
		rows = append(rows, []cell{{"  stays", faint}, {reference(s.Repo, s.Number), plain}, {s.Agent, plain}, {s.Why, faint}})
	}
	if len(rows) > 0 {
		p.table(-1, rows)
	}
	for _, u := range c.Unknown {
		p.table(-1, [][]cell{{{}, {"unknown " + u, wrong}}})
	}
	return p.text.String()
}

func reference(repo string, number int64) string {
	return forge.Ref{Repo: repo, Number: number}.String()
}

func names(list []string) string {
	if len(list) == 0 {
		return "nobody"
	}
	return strings.Join(list, ", ")
}
