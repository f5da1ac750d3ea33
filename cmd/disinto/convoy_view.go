package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// memberOrder is how the states of members are counted in a heading: what is over first.
var memberOrder = []threads.MemberState{
	threads.MemberDone, threads.MemberFailed, threads.MemberCancelled, threads.MemberRunning, threads.MemberReady, threads.MemberBlocked,
}

func renderConvoys(raw json.RawMessage, v view) (string, error) {
	var d control.Convoys
	if err := json.Unmarshal(raw, &d); err != nil {
		return "", err
	}
	p := &page{width: v.width, colour: v.colour}
	for i := range d.Convoys {
		if i > 0 {
			p.end()
		}
		v.convoy(p, &d.Convoys[i])
	}
	if len(d.Convoys) == 0 {
		p.line("no convoys", faint)
	}
	return v.crop(p.text.String()), nil
}

// convoy is one convoy: what it comes to, then its members by wave.
func (v view) convoy(p *page, c *threads.Convoy) {
	v.repo = c.Repo // of a member elsewhere it is shown
	p.table(2, [][]cell{{{"convoy", plain}, {forge.Ref{Repo: c.Repo, Number: c.Number}.String(), bold}, {c.Title, plain}}})
	p.line(convoyLine(c), convoyStyle(c))
	if len(c.Members) == 0 {
		return
	}
	p.end()
	rows := [][]cell{{{"WAVE", faint}, {"ISSUE", faint}, {"STATE", faint}, {"AGENT", faint}, {"TITLE", faint}, {"WHY", faint}}}
	for i := range c.Members {
		m := &c.Members[i]
		wave := ""
		if m.Wave > 0 {
			wave = strconv.Itoa(m.Wave)
		}
		rows = append(rows, []cell{
			{wave, plain},
			{v.short(m.Ref().String()), plain},
			{string(m.State), memberStyle(m.State)},
			{m.Agent, plain},
			{m.Title, plain},
			{v.short(m.Why), plain},
		})
	}
	p.table(4, rows)
}

// convoyLine is how far a convoy is, in numbers that add up.
func convoyLine(c *threads.Convoy) string {
	if !c.Known {
		return string(c.State) + ", its members are not read yet"
	}
	words := []string{fmt.Sprintf("%s, %s", c.State, count(len(c.Members), "member"))}
	var parts []string
	for _, s := range memberOrder {
		if n := c.Counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) > 0 {
		words = append(words, strings.Join(parts, ", "))
	}
	return strings.Join(words, ": ")
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
