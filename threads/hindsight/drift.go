package hindsight

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

const (
	// driftDays are judged, of which misfits make a model that no longer fits.
	driftDays = 3
	misfits   = 2
	// A day with fewer issues is not judged, nor one before which the journal had fewer sessions.
	leastIssues   = 5
	leastSessions = 30
	// A wait is outside of a band where it is a fifth and a minute beyond it.
	tolerance       = 1.2
	leastMisfit     = time.Minute
	lowest, highest = 10, 90 // ends of a band, in percent of the runs
	foretoldRuns    = 20     // of each day
)

// Band is how long something was to take: no longer than Low in one run of ten, Middle in five, High in nine.
type Band struct{ Low, Middle, High time.Duration }

// misses says whether a time is longer (1) or shorter (-1) than a band says, by more than chance.
func (b Band) misses(real time.Duration) int {
	switch {
	case real > time.Duration(float64(b.High)*tolerance)+leastMisfit:
		return 1
	case real < time.Duration(float64(b.Low)/tolerance)-leastMisfit:
		return -1
	}
	return 0
}

// Foretold is a day whose waits are predicted by what was known at its beginning.
type Foretold struct {
	Begin  time.Time
	Issues int // that were filed on that day
	Misses int // 1: they were longer than predicted, -1: shorter; 0 where chance explains it
	// Half and Most are the waits that half of the issues and 95 % of them were not to exceed, and those that they did
	// not.
	Half, Most         Band
	RealHalf, RealMost time.Duration
}

// Foretell predicts a day, in which a configuration was in force, and plays it until enough says so. It returns nil for
// a day that cannot be judged.
func Foretell(j sim.Journal, c *threads.Config, begin time.Time, enough func() bool) *Foretold {
	trial, real := sim.Foretell(j, c, begin, begin.Add(day))
	if real.N < leastIssues || len(j.Before(begin).Past) < leastSessions {
		return nil
	}
	var half, most []time.Duration
	trial.Enough = enough
	for trial.Seed = range uint64(foretoldRuns) {
		r := trial.Run()
		if enough() {
			break
		}
		half, most = append(half, r.First.P50), append(most, r.First.P95)
	}
	if len(half) < leastRuns {
		return nil
	}
	f := &Foretold{
		Begin: begin, Issues: real.N, Half: bandOf(half), Most: bandOf(most), RealHalf: real.P50, RealMost: real.P95,
	}
	f.Misses = cmp.Or(f.Half.misses(f.RealHalf), f.Most.misses(f.RealMost))
	return f
}

func bandOf(list []time.Duration) Band {
	slices.Sort(list)
	at := func(p int) time.Duration { return list[(len(list)-1)*p/100] }
	return Band{at(lowest), at(50), at(highest)}
}

// Drift says whether the model of a factory still fits it.
type Drift struct {
	Days []*Foretold // the newest first
	// Misses says that waits were longer (1) or shorter (-1) than predicted, on two days of three.
	Misses int
	// Changes tell what goes otherwise than before these days, the one that takes or saves most time first.
	Changes []Change
}

// Fits reports whether nothing speaks against the model.
func (d *Drift) Fits() bool { return d.Misses == 0 && len(d.Changes) == 0 }

// LookForDrift judges the days of UTC before now. config returns the configuration that was in force at a time.
func LookForDrift(j sim.Journal, now time.Time, config func(time.Time) *threads.Config, enough func() bool) Drift {
	d := Drift{}
	today, longer, shorter := now.UTC().Truncate(day), 0, 0
	for n := range driftDays {
		begin := today.Add(-time.Duration(n+1) * day)
		f := Foretell(j, config(begin.Add(day)), begin, enough)
		if f == nil {
			continue
		}
		d.Days = append(d.Days, f)
		switch f.Misses {
		case 1:
			longer++
		case -1:
			shorter++
		}
	}
	switch {
	case longer >= misfits:
		d.Misses = 1
	case shorter >= misfits:
		d.Misses = -1
	}
	d.Changes = changes(j, now.Add(-driftDays*day))
	return d
}
