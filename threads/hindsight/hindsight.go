// Package hindsight looks back on days of a factory: what another factory.toml would have changed about the newest one
// (Yesterday), and how far the waits of a day were from those that the days before it let expect (Drift).
//
// Both play the past again with package sim, from nothing but the journal and a configuration.
package hindsight

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

const (
	day = 24 * time.Hour
	// leastRuns is how many runs have to differ to tell anything from chance, and surest is the share of them that has to
	// agree.
	leastRuns = 5
	surest    = 0.9
)

// The least differences that are told: less is none to a person.
const (
	leastMerged = 1
	leastWait   = time.Minute
	leastUSD    = 0.01
)

// Yesterday is the newest day of a journal, to be played under two configurations. Make one with NewYesterday. It may
// not be used by several goroutines at once.
type Yesterday struct {
	From, Until time.Time // a day, or less where the journal is younger
	was, is     sim.Trial
	wasRuns     []Day
	isRuns      []Day
	unknown     []string
}

// Day sums up a day.
type Day struct {
	Merged float64       // pull requests
	Wait   time.Duration // of an issue, to its first session, on average
	USD    float64       // as far as sessions told
}

// NewYesterday prepares the newest day of a journal, in which the first configuration was in force; nil means that it
// is not known which. The facts have the issues that wait since then. It returns nil where the journal tells of no work
// on an issue.
func NewYesterday(j sim.Journal, facts *forge.Facts, was, is *threads.Config) *Yesterday {
	y := &Yesterday{is: sim.Replay(j, is, day)}
	if len(y.is.Load) == 0 {
		return nil
	}
	y.From, y.Until = y.is.From, j.Newest()
	for _, m := range j.Timeline.Merges {
		if m.When.After(y.Until) {
			y.Until = m.When
		}
	}
	y.bound(j, facts, &y.is)
	if was == nil {
		y.wasRuns = []Day{lived(j, is, y.From)}
		return y
	}
	y.was = sim.Replay(j, was, day)
	y.bound(j, facts, &y.was)
	y.unknown = unknown(j, was, is)
	return y
}

// bound gives a trial all of the day's work, and ends it with the day.
func (y *Yesterday) bound(j sim.Journal, facts *forge.Facts, t *sim.Trial) {
	t.Await(j.Past, facts, y.Until)
	t.Policy, t.Quiet = sim.Ours, true
	t.Drain = max(time.Second, y.Until.Sub(y.From)-t.Load[len(t.Load)-1].At)
}

// lived is the newest day as it happened.
func lived(j sim.Journal, c *threads.Config, from time.Time) (d Day) {
	d.Wait = sim.Happened(j.Past, j.Timeline, c, day).First.Mean
	for _, m := range j.Timeline.Merges {
		if !m.When.Before(from) {
			d.Merged++
		}
	}
	for i := range j.Past {
		if p := &j.Past[i]; p.Usage != nil && !p.Start.Before(from) {
			d.USD += p.Usage.Bounded().CostUSD
		}
	}
	return d
}

// unknown are the agents of which the journal does not tell how they work now: new ones, and those with another model,
// role or program.
func unknown(j sim.Journal, was, is *threads.Config) (names []string) {
	for i := range is.Agents {
		now := &is.Agents[i]
		before := was.Agent(now.Name)
		worked := slices.ContainsFunc(j.Past, func(p ledger.Past) bool { return p.Agent == now.Name })
		if before == nil && !worked || before != nil && !sameWork(was, before, is, now) {
			names = append(names, now.Name)
		}
	}
	slices.Sort(names)
	return names
}

// sameWork reports whether an agent does its work as before.
func sameWork(was *threads.Config, a *agents.Agent, is *threads.Config, b *agents.Agent) bool {
	if a.Model != b.Model || a.BaseURL != b.BaseURL || !slices.Equal(a.Roles, b.Roles) {
		return false
	}
	return !slices.ContainsFunc(a.Roles, func(name string) bool {
		x, y := was.Role(name), is.Role(name)
		return x != nil && y != nil && (x.CLI != y.CLI || x.CLI == "" && !slices.Equal(x.Command, y.Command))
	})
}

// Run plays the day once under each configuration, with the same luck, until enough says so: then the run does not
// count. Seed 0 has the luck of that day; with others its issues have each other's sessions. It reports whether the day
// was played to its end.
func (y *Yesterday) Run(seed uint64, enough func() bool) bool {
	play := func(t sim.Trial) Day {
		t.Seed, t.Enough, t.Load = seed, enough, t.Load.Dealt(seed)
		r := t.Run()
		return Day{float64(r.Merged), r.First.Mean, r.CostUSD}
	}
	is := play(y.is)
	if enough() {
		return false
	}
	if y.was.Config != nil {
		was := play(y.was)
		if enough() {
			return false
		}
		y.wasRuns = append(y.wasRuns, was)
	}
	y.isRuns = append(y.isRuns, is)
	return true
}

// Difference is the result of the runs so far.
type Difference struct {
	From, Until time.Time
	Whole       bool // it is a whole day
	Runs        int
	Few         bool // too few of them to tell anything from chance
	Lived       bool // Was is counted from the journal, and not played
	Was, Is     Day  // on average
	// Merged, Wait and USD say whether that measure became more (1) or less (-1); 0 where chance would explain it.
	Merged, Wait, USD int
	Unknown           []string // agents of which no session tells how they work now
}

// Difference sums up the runs.
func (y *Yesterday) Difference() Difference {
	d := Difference{
		From: y.From, Until: y.Until, Whole: y.Until.Sub(y.From) > day-time.Hour, Runs: len(y.isRuns),
		Few:   len(y.isRuns) < leastRuns && y.was.Config != nil,
		Lived: y.was.Config == nil, Was: mean(y.wasRuns), Is: mean(y.isRuns), Unknown: y.unknown,
	}
	if !d.Lived {
		d.Merged = y.told(leastMerged, func(d Day) float64 { return d.Merged })
		d.Wait = y.told(leastWait.Seconds(), func(d Day) float64 { return d.Wait.Seconds() })
		d.USD = y.told(leastUSD, func(d Day) float64 { return d.USD })
	}
	return d
}

// told says which way a measure went, if nine of ten runs that differ agree on that, and on average it went as far as
// least.
func (y *Yesterday) told(least float64, of func(Day) float64) int {
	more, less, sum := 0, 0, 0.0
	for i := range y.isRuns {
		by := of(y.isRuns[i]) - of(y.wasRuns[i])
		sum += by
		if by > 0 {
			more++
		} else if by < 0 {
			less++
		}
	}
	differ, by := float64(more+less), sum/float64(len(y.isRuns))
	switch {
	case more+less < leastRuns:
	case float64(more) >= surest*differ && by >= least:
		return 1
	case float64(less) >= surest*differ && -by >= least:
		return -1
	}
	return 0
}

func mean(list []Day) (m Day) {
	n := float64(len(list))
	for _, d := range list {
		m.Merged += d.Merged / n
		m.Wait += time.Duration(float64(d.Wait) / n)
		m.USD += d.USD / n
	}
	return m
}
