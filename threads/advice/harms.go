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

// harm is a fault of a week: an absent agent, a failing server, a burst of issues.
type harm struct {
	name  string
	agent string // the absent agent
	// befall adds the harm to a trial of the given length. The trial shares its load and outages with others, so befall
	// copies before it writes.
	befall func(t *sim.Trial, length time.Duration)
}

const (
	day      = 24 * time.Hour
	week     = 7 * day
	burst    = 40 // issues at once
	mondayAt = 9 * time.Hour
	// mostHarms limits how many harms are tried.
	mostHarms = 24
)

// harms returns the harms that are tried. Of agents that are alike, only one is away. An outage shorter than the
// trial starts when most issues are filed.
func (q *Question) harms() (list []harm) {
	c := q.Trial.Config
	for _, a := range alike(c) {
		list = append(list, q.outage(a.Name+" away ", week, sim.Outage{Agent: a.Name}))
	}
	for i := range c.Threads {
		t := &c.Threads[i]
		gone := sim.Outage{Thread: t.Name, Result: agents.BackendDown, After: 10 * time.Second}
		name := "the server of " + t.Name + " gone "
		if t.Backend != threads.Local {
			gone.Result, name = agents.Limited, t.Name+" at its usage limit "
		}
		list = append(list, q.outage(name, day, gone), harm{
			name: "every third session on " + t.Name + " fails",
			befall: func(tr *sim.Trial, length time.Duration) {
				add(tr, sim.Outage{Thread: t.Name, Until: length, Result: agents.Failed, After: length, OneIn: 3})
			},
		})
	}
	name, at := monday(q.Trial.From, q.Length)
	list = append(
		list, q.outage("the forge down ", time.Hour, sim.Outage{}),
		harm{name: name, befall: func(t *sim.Trial, _ time.Duration) { t.Load = crowd(t.Load, at, t.Seed) }},
	)
	if slower := q.Trial.Model.Slower(sim.Checks, 2); slower != nil {
		list = append(list, harm{
			name: "checks that take twice as long", befall: func(t *sim.Trial, _ time.Duration) { t.Model = slower },
		})
	}
	for _, a := range alike(c) {
		if q.Length > day+day/8 {
			list = append(list, q.outage(a.Name+" away ", day, sim.Outage{Agent: a.Name}))
		}
	}
	return list[:min(len(list), mostHarms)]
}

// outage returns an outage that starts when most issues are filed within its length.
func (q *Question) outage(name string, lasts time.Duration, o sim.Outage) harm {
	words := map[time.Duration]string{week: "for a week", day: "for a day", time.Hour: "for an hour"}[lasts]
	if lasts > q.Length {
		if lasts > q.Length+q.Length/8 { // a replayed week starts at its first issue, so it is a little shorter
			words = "all the time"
		}
		lasts = q.Length
	}
	return harm{name + words, o.Agent, func(t *sim.Trial, length time.Duration) {
		o := o
		o.From = min(busiest(t.Load, lasts), length-lasts)
		o.Until = o.From + lasts
		add(t, o)
	}}
}

// add adds an outage to a copy of the trial's list, which other trials share.
func add(t *sim.Trial, o sim.Outage) { t.Outages = append(slices.Clone(t.Outages), o) }

// busiest returns the start of the window in which most issues are filed.
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

// monday returns the time of a burst and its name: the first Monday at nine, or a third into a trial that ends before
// that. A load without a journal has no dates; it starts on a Monday at midnight.
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

// crowd adds a burst of issues: copies of the load's issues, without pin and with the default priority.
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

// alike returns one agent of each group with the same roles, thread and skills. Agents with scheduled roles only are
// left out.
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
