package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// usualDays is the number of days that are simulated if the query has none.
const usualDays = 7

// whatIf simulates the work of the last days with a changed factory. It simulates nothing until a person submits the
// form.
func (s *Site) whatIf(ctx context.Context, query url.Values) (*board, error) {
	c := s.Config()
	if c == nil {
		return nil, control.NotNow("not now: there is no valid configuration")
	}
	b := &board{Title: "What if", Sections: []section{wishes(c, query)}}
	if !query.Has("asked") {
		more, err := s.worths(ctx, query)
		b.Sections = append(b.Sections, more...)
		return b, err
	}
	ask, err := asked(c, query)
	var d control.Simulation
	if err == nil {
		err = s.API.Post(ctx, "/v1/simulate", ask, &d)
	}
	if no := (*control.Refusal)(nil); errors.As(err, &no) {
		refused := section{ID: "refused", Title: "Not simulated", Urgent: true}
		refused.Rows = append(refused.Rows, render("refused", "why", no.Words))
		b.Sections = append(b.Sections, refused)
		return b, nil
	} else if err != nil {
		return nil, err
	}
	b.Sections = append(b.Sections, says(&d), compared(&d))
	return b, nil
}

// wish is a thread in the form, with the values that the person entered.
type wish struct {
	Name, Noun, Slots, Hold string
	Overlap                 bool
	Agents                  []wishedAgent
}

// wishedAgent is an agent in the form.
type wishedAgent struct {
	Name, Roles string
	With        bool
}

// wishes is the form. It has the values of the query, or else those of the configuration.
func wishes(c *threads.Config, query url.Values) section {
	or := func(key, otherwise string) string {
		if query.Has(key) {
			return query.Get(key)
		}
		return otherwise
	}
	var list []wish
	for i := range c.Threads {
		t := &c.Threads[i]
		w := wish{Name: t.Name, Noun: "slots", Overlap: t.Overlap}
		if t.Overlap {
			w.Noun = "sessions at once"
		}
		w.Slots = or("slots."+t.Name, strconv.Itoa(t.MaxSessions))
		w.Hold = or("hold."+t.Name, t.Hold.String()) // parsed again when the form is submitted
		for _, name := range t.Agents {
			with := !query.Has("asked") || slices.Contains(query["with"], name)
			w.Agents = append(w.Agents, wishedAgent{name, strings.Join(c.Agent(name).Roles, ", "), with})
		}
		list = append(list, w)
	}
	sec := section{ID: "form", Title: "The factory", Note: "change it, and see what the last days would have been"}
	form := map[string]any{"Days": or("days", strconv.Itoa(usualDays)), "Threads": list}
	sec.Rows = append(sec.Rows, render("wishes", "form", form))
	return sec
}

// asked reads the form.
func asked(c *threads.Config, query url.Values) (ask control.SimulateRequest, err error) {
	ask = control.SimulateRequest{Days: usualDays, Slots: make(map[string]int), Hold: make(map[string]string)}
	if said := query.Get("days"); said != "" {
		if ask.Days, err = strconv.Atoi(said); err != nil {
			return ask, control.Invalid("cannot read %q as a number of days", said)
		}
	}
	for i := range c.Threads {
		name := c.Threads[i].Name
		if said := query.Get("slots." + name); said != "" {
			if ask.Slots[name], err = strconv.Atoi(said); err != nil {
				return ask, control.Invalid("cannot read %q as a number of slots of %s", said, name)
			}
		}
		if said := query.Get("hold." + name); said != "" {
			ask.Hold[name] = said
		}
	}
	for i := range c.Agents {
		if name := c.Agents[i].Name; !slices.Contains(query["with"], name) {
			ask.Without = append(ask.Without, name)
		}
	}
	return ask, nil
}

// says describes the result in a few sentences.
func says(d *control.Simulation) section {
	sec := section{ID: "says", Title: "In short"}
	add := func(format string, args ...any) {
		sec.Rows = append(sec.Rows, render("says", strconv.Itoa(len(sec.Rows)), fmt.Sprintf(format, args...)))
	}
	if is := d.Changed; is != nil {
		add("With these changes (%s) an issue would take %s on average instead of %s, and wait %s for its "+
			"first session instead of %s.", strings.Join(d.Changes, ", "), spell(is.MeanTurn), spell(d.Now.MeanTurn),
			spell(is.MeanWait), spell(d.Now.MeanWait))
		if left := is.Issues - is.Done; left > 0 {
			add("%s would still be open after %s.", control.Count(left, "issue"), control.Count(d.Days, "day"))
		}
	}
	switch off := math.Abs(d.Now.MeanTurn - d.Happened.MeanTurn); {
	case d.Happened.Done == 0 || d.Now.Done == 0:
		add("No issue was done in these days, so the simulation cannot be compared with what happened.")
	case off <= d.Happened.MeanTurn/4:
		add("The simulation of the current factory comes close to what happened.")
	default:
		add("The simulation of the current factory, %s for an issue, is far from what happened, %s: it knows no "+
			"stops, no failures and no people who take their time. Their difference shows only a direction.",
			spell(d.Now.MeanTurn), spell(d.Happened.MeanTurn))
	}
	return sec
}

// measure is a row of the comparison.
type measure struct {
	name, says string
	of         func(*control.Played) float64
	text       func(float64) string
	better     int // 1 if more is better, -1 if less is, else 0
}

var measures = []measure{
	{
		"Issues done", "", func(p *control.Played) float64 { return float64(p.Done) },
		func(v float64) string { return strconv.Itoa(int(v)) }, 1,
	},
	{
		"Last one done after", "from the beginning of these days",
		func(p *control.Played) float64 { return p.LastDone }, spell, -1,
	},
	{
		"An issue takes", "from the moment it could be worked on until it is done, on average",
		func(p *control.Played) float64 { return p.MeanTurn }, spell, -1,
	},
	{
		"It waits", "for its first session, on average",
		func(p *control.Played) float64 { return p.MeanWait }, spell, -1,
	},
	{
		"Worst wait", "of any issue for its first session",
		func(p *control.Played) float64 { return p.MaxWait }, spell, -1,
	},
	{
		"Idle beside work", "time that slots stood free beside work for them, together",
		func(p *control.Played) float64 { return p.Idle }, spell, -1,
	},
	{
		"Busy", "share of the agents' time in sessions until the last issue was done",
		func(p *control.Played) float64 { return p.Busy },
		func(v float64) string { return strconv.Itoa(int(math.Round(100*v))) + " %" }, 0,
	},
	{
		"Switches", "sessions that a local slot began with another agent's or issue's context in its cache",
		func(p *control.Played) float64 { return float64(p.Switches) },
		func(v float64) string { return strconv.Itoa(int(v)) }, -1,
	},
}

// figure is a cell of the comparison.
type figure struct{ Of, Text, Differs, Class string }

// compared shows what happened beside the simulations.
func compared(d *control.Simulation) section {
	sec := section{
		ID: "compared", Title: "The last " + control.Count(d.Days, "day"),
		Note: fmt.Sprintf("%s, %s", control.Count(d.Happened.Issues, "issue"), control.Count(d.Sessions, "session")),
		Head: []string{"Measure", "What happened", "Simulated without changes"},
	}
	if d.Changed != nil {
		sec.Head = append(sec.Head, "Simulated with the changes")
	}
	for i := range measures {
		m := &measures[i]
		cells := []figure{
			{Of: "happened", Text: m.text(m.of(&d.Happened))}, {Of: "without changes", Text: m.text(m.of(&d.Now))},
		}
		if d.Changed != nil {
			cells = append(cells, m.changed(&d.Now, d.Changed))
		}
		data := map[string]any{"Name": m.name, "Says": m.says, "Cells": cells}
		sec.Rows = append(sec.Rows, render("measure", "measure-"+strconv.Itoa(i), data))
	}
	return sec
}

// changed returns the cell of the changed factory, with the difference unless it is below one percent.
func (m *measure) changed(now, is *control.Played) figure {
	was, v := m.of(now), m.of(is)
	f := figure{Of: "with the changes", Text: m.text(v)}
	if by := v - was; m.better != 0 && math.Abs(by) > math.Abs(was)/100 && m.text(math.Abs(by)) != m.text(0) {
		f.Differs = m.text(math.Abs(by)) + map[bool]string{true: " more", false: " less"}[by > 0]
		switch better := by * float64(m.better); {
		case better > 0:
			f.Class = "yes"
		case better < 0:
			f.Class = "no"
		}
	}
	return f
}

// spell writes seconds as a duration of at most 31 years.
func spell(seconds float64) string {
	return control.Age(time.Duration(max(0, min(seconds, 1e9)) * float64(time.Second)))
}
