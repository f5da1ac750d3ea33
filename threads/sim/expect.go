package sim

import (
	"math"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Band is the range of times of an event: before Low in one run of ten, before Middle in five, before High in nine. A
// time is zero if too few runs have the event.
type Band struct{ Low, Middle, High time.Time }

// Expected sums up the runs of a forecast for one item.
type Expected struct {
	Ref           forge.Ref
	Code          threads.Code // why it waits now; empty if it does not
	Start, Merged Band
}

// Outlook is the part of a forecast that matters to some items. Forecast.Near makes one.
type Outlook struct {
	near *Forecast
	refs []forge.Ref
	far  map[forge.Ref]int // items too far behind to be played, with their place in the queue
	ask  Ask
}

const (
	// nearby is a number of items: for n items up to the last requested one, an outlook keeps n + nearby behind it.
	nearby = 50
	// reach is the last place in the queue that is played. Items further behind are extrapolated from the first reach
	// items: playing 900 issues takes seconds, and their order changes before they start.
	reach = 60
	// runPlans limits the plans of a run. An item that waits for a person would otherwise keep the run going to the
	// horizon, for a second of computing. The sixtieth item is merged after about 350 plans.
	runPlans = 500
)

// Near returns the part that matters to some items: the queue before them, about as many items behind them (which
// fill the slots meanwhile), running sessions, open pull requests, and everything that any of these waits for. Of
// 1,000 issues it keeps 52 for the first one, and a run takes a fifteenth of the time.
func (f *Forecast) Near(refs []forge.Ref) *Outlook {
	o := &Outlook{near: f, refs: refs, far: make(map[forge.Ref]int), ask: Ask{Decisions: runPlans}}
	var played []forge.Ref
	last := 0
	for _, ref := range refs {
		if at := f.lastOf(ref); at > reach {
			o.far[ref], last, o.ask.Starts = at, reach, reach
		} else {
			played, last = append(played, ref), max(last, at)
		}
	}
	o.ask.Refs = played
	if last = 2*last + nearby; last < len(f.queue) {
		o.near = f.only(played, f.queue[:last])
	}
	return o
}

// Run plays the outlook once; see Forecast.Run.
func (o *Outlook) Run(seed uint64) Outcome { return o.near.Run(seed, o.ask) }

// Until returns the end of the shortest run that ended before all items were merged, or zero if there is none.
func (o *Outlook) Until(runs []Outcome) (until time.Time) {
	for i := range runs {
		open := func(ref forge.Ref) bool {
			fate := runs[i].Fate(o.near.chain(ref))
			return fate != nil && fate.Merged.IsZero()
		}
		if slices.ContainsFunc(o.ask.Refs, open) && (until.IsZero() || runs[i].Until.Before(until)) {
			until = runs[i].Until
		}
	}
	return until
}

// Expect sums up runs for the requested items. It leaves out items that are not open.
func (o *Outlook) Expect(runs []Outcome) []Expected {
	var list []Expected
	for _, ref := range o.refs {
		if at := o.far[ref]; at > 0 {
			list = append(list, o.behind(runs, ref, at))
			continue
		}
		var starts, merges []time.Time
		e := Expected{Ref: ref}
		for i := range runs {
			if fate := runs[i].Fate(o.near.chain(ref)); fate != nil {
				e.Code = fate.Code
				starts, merges = append(starts, fate.Start), append(merges, fate.Merged)
			}
		}
		if len(starts) > 0 {
			e.Start, e.Merged = bandOf(starts), bandOf(merges)
			list = append(list, e)
		}
	}
	return list
}

// behind extrapolates an item far behind from the pace of the queue before it. Random differences of the items
// between them even out, so the width of its band grows with the square root of the distance.
func (o *Outlook) behind(runs []Outcome, ref forge.Ref, at int) Expected {
	e := Expected{Ref: ref, Code: o.near.code(ref)}
	now := o.near.start.Now
	var first, lasts []float64 // seconds to the start at place reach, and from a start to its merge
	share := math.Inf(1)
	for i := range runs {
		if n := len(runs[i].Starts); n > 0 {
			first = append(first, runs[i].Starts[n-1].Sub(now).Seconds()*float64(reach)/float64(n))
			lasts = append(lasts, runs[i].merging())
			share = float64(at) / reach
		}
	}
	if len(first) == 0 {
		return e
	}
	mean := meanOf(first)
	var starts, merges []time.Time
	for i := range first {
		start := now.Add(seconds(max(0, mean*share+(first[i]-mean)*math.Sqrt(share))))
		starts, merges = append(starts, start), append(merges, start.Add(seconds(lasts[i])))
	}
	e.Start, e.Merged = bandOf(starts), bandOf(merges)
	return e
}

// merging returns the median seconds from an issue's start to its merge.
func (o *Outcome) merging() float64 {
	var took []float64
	for _, f := range o.Fates {
		if !f.Start.IsZero() && !f.Merged.IsZero() {
			took = append(took, f.Merged.Sub(f.Start).Seconds())
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func meanOf(list []float64) (mean float64) {
	for _, x := range list {
		mean += x / float64(len(list))
	}
	return mean
}

// bandOf returns a band with eight tenths of the probability: n draws leave n+1 gaps of equal probability.
func bandOf(times []time.Time) Band {
	slices.SortFunc(times, func(a, b time.Time) int {
		switch {
		case a.IsZero() == b.IsZero():
			return a.Compare(b)
		case a.IsZero(): // never
			return 1
		}
		return -1
	})
	low := max(0, (len(times)+1)/10-1)
	return Band{Low: times[low], Middle: times[len(times)/2], High: times[len(times)-1-low]}
}

// Front returns the items of running sessions, then the first items of the queue.
func (f *Forecast) Front(items int) (refs []forge.Ref) {
	add := func(ref forge.Ref) {
		if ref.Number > 0 && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	for i := range f.start.Sessions {
		add(f.start.Sessions[i].Item.Ref)
	}
	for _, ref := range f.queue[:min(items, len(f.queue))] {
		add(ref)
	}
	return refs
}

// only returns a forecast of some items, of those with a session or a pull request, and of everything that these wait
// for.
func (f *Forecast) only(refs, more []forge.Ref) *Forecast {
	keep := make(map[forge.Ref]bool)
	for _, ref := range slices.Concat(refs, more) {
		keep[ref] = true
	}
	for i := range f.start.Sessions {
		keep[f.start.Sessions[i].Item.Chain] = true
	}
	part := *f
	part.issues, part.waiters, part.at = nil, make(map[forge.Ref][]int), make(map[forge.Ref]int)
	needed := make(map[int]bool)
	for i := range f.issues {
		if t := &f.issues[i]; keep[t.Issue.Ref] || t.pull != nil {
			f.need(i, needed)
		}
	}
	for i := range f.issues {
		if needed[i] {
			t := f.issues[i]
			t.blocked, t.stuck = 0, false
			part.issues = append(part.issues, t)
			part.index(len(part.issues) - 1)
		}
	}
	return &part
}

// lastOf returns the last place in the queue, from 1, of an item and everything that it waits for, or 0 if none of
// them is in the queue.
func (f *Forecast) lastOf(ref forge.Ref) (last int) {
	i, known := f.at[ref]
	if !known {
		return 0
	}
	needed := make(map[int]bool)
	f.need(i, needed)
	for i := range needed {
		t := &f.issues[i]
		if last = max(last, f.places[t.Issue.Ref]); t.pull != nil {
			last = max(last, f.places[t.pull.Ref])
		}
	}
	return last
}

// need adds an issue, and everything that it waits for.
func (f *Forecast) need(i int, needed map[int]bool) {
	if needed[i] {
		return
	}
	needed[i] = true
	for _, b := range f.issues[i].Blockers {
		if on, known := f.at[b.Ref]; known {
			f.need(on, needed)
		}
	}
}
