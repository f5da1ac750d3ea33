// Package hindsight looks back on days of a factory. Yesterday compares the newest day under another factory.toml.
// Drift compares the waits of a day with those predicted from the days before it.
//
// Both replay the journal under a configuration with package sim; they need no other input than open issues.
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
	// leastRuns is the fewest runs that must differ before a difference counts, and surest the share of them that must
	// agree.
	leastRuns = 5
	surest    = 0.9
)

// The smallest differences that are reported.
const (
	leastMerged = 1
	leastWait   = time.Minute
	leastUSD    = 0.01
)

// Yesterday is the newest day of a journal, for play under two configurations. NewYesterday makes one. It is not safe
// for concurrent use.
type Yesterday struct {
	From, Until time.Time // a day, or less if the journal is younger
	was, is     sim.Trial
	wasRuns     []Day
	isRuns      []Day
	unknown     []string
}

// Day sums up a day.
type Day struct {
	Merged float64       // pull requests
	Wait   time.Duration // an issue's mean wait for its first session
	USD    float64       // as far as sessions reported it
}

// NewYesterday prepares the newest day of a journal. was is the configuration of that day, or nil if it is unknown;
// is is the other one. The facts have the issues that still wait. It returns nil if the journal has no work on an
// issue.
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

// bound adds the issues that were not worked on to a trial, and ends it with the day.
func (y *Yesterday) bound(j sim.Journal, facts *forge.Facts, t *sim.Trial) {
	t.Await(j.Past, facts, y.Until)
	t.Policy, t.Quiet = sim.Ours, true
	t.Drain = max(time.Second, y.Until.Sub(y.From)-t.Load[len(t.Load)-1].At)
}

// lived returns the newest day as it happened.
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

// unknown returns the agents whose speed the journal does not show: new ones, and those with another model, role or
// program.
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

// sameWork reports whether an agent has the same model, roles and programs in both configurations.
func sameWork(was *threads.Config, a *agents.Agent, is *threads.Config, b *agents.Agent) bool {
	if a.Model != b.Model || a.BaseURL != b.BaseURL || !slices.Equal(a.Roles, b.Roles) {
		return false
	}
	return !slices.ContainsFunc(a.Roles, func(name string) bool {
		x, y := was.Role(name), is.Role(name)
		return x != nil && y != nil && (x.CLI != y.CLI || x.CLI == "" && !slices.Equal(x.Command, y.Command))
	})
}

// Run plays the day once under each configuration, with the same seed. Seed 0 plays the day's own work; with others
// the issues swap their sessions. When enough returns true, Run stops, returns false and records nothing.
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
	Whole       bool // From and Until are about a day apart
	Runs        int
	Few         bool // too few runs to exceed chance
	Lived       bool // Was is counted from the journal, not played
	Was, Is     Day  // on average
	// Merged, Wait and USD are 1 if the measure rose, -1 if it fell, and 0 if chance explains the difference.
	Merged, Wait, USD int
	Unknown           []string // agents without a session under the new configuration
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

// told returns the direction of a measure if nine of ten differing runs agree on it, and the mean difference is at
// least least. Otherwise it returns 0.
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
