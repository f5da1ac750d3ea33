package hindsight

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

const (
	// driftDays days are judged. The model no longer fits if misfits of them miss their bands in the same direction.
	driftDays = 3
	misfits   = 2
	// A day is not judged if it has fewer issues, or if the journal before it has fewer sessions.
	leastIssues   = 5
	leastSessions = 30
	// A wait is outside a band if it is beyond it by more than a fifth and a minute.
	tolerance       = 1.2
	leastMisfit     = time.Minute
	lowest, highest = 10, 90 // ends of a band, in percent of the runs
	foretoldRuns    = 20     // runs of each day
)

// Band is the predicted range of a wait: at most Low in one run of ten, Middle in five, High in nine.
type Band struct{ Low, Middle, High time.Duration }

// misses returns 1 if a time is longer than the band by more than the tolerance, -1 if it is shorter, else 0.
func (b Band) misses(real time.Duration) int {
	switch {
	case real > time.Duration(float64(b.High)*tolerance)+leastMisfit:
		return 1
	case real < time.Duration(float64(b.Low)/tolerance)-leastMisfit:
		return -1
	}
	return 0
}

// Foretold is a day, and the prediction of its waits from the journal before it.
type Foretold struct {
	Begin  time.Time
	Issues int // filed on that day
	Misses int // 1: the waits were longer than predicted, -1: shorter, 0: within the bands
	// Half is the predicted median of the waits, and Most their 95th percentile. RealHalf and RealMost are the real
	// ones.
	Half, Most         Band
	RealHalf, RealMost time.Duration
}

// Foretell predicts a day under the configuration that was in force, until enough returns true. It returns nil for a
// day that cannot be judged.
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

// Drift is the answer to whether the model of a factory still fits it.
type Drift struct {
	Days []*Foretold // the newest first
	// Misses is 1 if waits were longer than predicted on at least two of three days, -1 if they were shorter, else 0.
	Misses int
	// Changes lists what differs from the time before these days. The largest cost or gain comes first.
	Changes []Change
}

// Fits reports whether neither waits nor changes contradict the model.
func (d *Drift) Fits() bool { return d.Misses == 0 && len(d.Changes) == 0 }

// LookForDrift judges the last three days before today, in UTC. config returns the configuration in force at a time.
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
