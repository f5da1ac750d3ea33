package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// harm is something that goes wrong in a week.
type harm struct {
	name string
	// befall has it happen in a trial of a length, whose load and outages are not the trial's own.
	befall func(t *sim.Trial, length time.Duration)
}

const (
	day      = 24 * time.Hour
	week     = 7 * day
	burst    = 40 // issues at once
	mondayAt = 9 * time.Hour
	// mostHarms is how many things that may go wrong are tried by themselves.
	mostHarms = 24
)

// harms are the things that may go wrong in a factory. Of agents that are alike one is away. An outage that lasts for a
// part of the time begins when the most work comes.
func (s *search) harms() (list []harm) {
	c := s.Trial.Config
	for _, a := range alike(c) {
		list = append(list, s.outage(a.Name+" away ", week, sim.Outage{Agent: a.Name}))
	}
	for i := range c.Threads {
		t := &c.Threads[i]
		gone := sim.Outage{Thread: t.Name, Result: agents.BackendDown, After: 10 * time.Second}
		name := "the server of " + t.Name + " gone "
		if t.Backend != threads.Local {
			gone.Result, name = agents.Limited, t.Name+" at its usage limit "
		}
		list = append(list, s.outage(name, day, gone), harm{
			name: "every third session on " + t.Name + " fails",
			befall: func(tr *sim.Trial, length time.Duration) {
				add(tr, sim.Outage{Thread: t.Name, Until: length, Result: agents.Failed, After: length, OneIn: 3})
			},
		})
	}
	name, at := monday(s.Trial.From, s.Length)
	list = append(
		list, s.outage("the forge down ", time.Hour, sim.Outage{}),
		harm{name, func(t *sim.Trial, _ time.Duration) { t.Load = crowd(t.Load, at, t.Seed) }},
	)
	if slower := s.Trial.Model.Slower(sim.Checks, 2); slower != nil {
		list = append(list, harm{
			"checks that take twice as long", func(t *sim.Trial, _ time.Duration) { t.Model = slower },
		})
	}
	return list[:min(len(list), mostHarms)]
}

// outage is an outage of a length, from when the most work comes.
func (s *search) outage(name string, lasts time.Duration, o sim.Outage) harm {
	words := map[time.Duration]string{week: "for a week", day: "for a day", time.Hour: "for an hour"}[lasts]
	if lasts > s.Length {
		if lasts > s.Length+s.Length/8 { // a week of a journal begins with its first issue
			words = "all the time"
		}
		lasts = s.Length
	}
	return harm{name + words, func(t *sim.Trial, length time.Duration) {
		o := o
		o.From = min(busiest(t.Load, lasts), length-lasts)
		o.Until = o.From + lasts
		add(t, o)
	}}
}

// add adds an outage to those of a trial, whose list it shares with other trials.
func add(t *sim.Trial, o sim.Outage) { t.Outages = append(slices.Clone(t.Outages), o) }

// busiest is the moment after which the most issues are filed within a time.
func busiest(load sim.Load, within time.Duration) (at time.Duration) {
	most, end := 0, 0
	for i := range load {
		for end < len(load) && load[end].At < load[i].At+within {
			end++
		}
		if end-i > most {
			most, at = end-i, load[i].At
		}
	}
	return at
}

// monday is when many issues come at once: on the first Monday at nine, or in a time without one after nine hours.
// Nothing is known of the days of a load that no journal tells of: it begins on a Monday.
func monday(from time.Time, length time.Duration) (name string, at time.Duration) {
	if !from.IsZero() {
		midnight := from.UTC().Truncate(day)
		for !midnight.Add(mondayAt).After(from) || midnight.Weekday() != time.Monday {
			midnight = midnight.Add(day)
		}
		at = midnight.Add(mondayAt).Sub(from)
	} else {
		at = mondayAt
	}
	if at >= length {
		return fmt.Sprintf("%d issues at once", burst), length / 3
	}
	return fmt.Sprintf("%d issues at once on Monday", burst), at
}

// crowd adds issues that are filed at one moment: copies of issues of the load, which belong to no agent.
func crowd(load sim.Load, at time.Duration, seed uint64) sim.Load {
	more := slices.Clone(load)
	drawn := load.Dealt(seed)
	for i := range burst {
		w := drawn[i%len(drawn)]
		w.At, w.Pin, w.Priority = at, "", forge.DefaultPriority
		more = append(more, w)
	}
	slices.SortStableFunc(more, func(a, b sim.Work) int { return cmp.Compare(a.At, b.At) })
	return more
}

// alike has one agent of each group that differs in nothing that matters for who takes what.
func alike(c *threads.Config) (list []*agents.Agent) {
	known := make(map[string]bool)
	for i := range c.Agents {
		a := &c.Agents[i]
		works := slices.ContainsFunc(a.Roles, func(name string) bool {
			r := c.Role(name)
			return r != nil && r.On != agents.OnSchedule
		})
		key := strings.Join(a.Roles, ",") + "|" + a.Thread + "|" + strings.Join(a.Skills, ",")
		if works && !known[key] {
			known[key] = true
			list = append(list, a)
		}
	}
	return list
}
