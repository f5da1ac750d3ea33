package sim

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Band is when something happens: before Low in one run of ten, before Middle in five, before High in nine. A time is
// zero where it does not happen in so many runs.
type Band struct{ Low, Middle, High time.Time }

// Expected is what several runs of a forecast say of one item.
type Expected struct {
	Ref           forge.Ref
	Code          threads.Code // why it waits now; empty when it does not
	Start, Merged Band
}

// Expect sums up runs of one forecast for the items that were asked for. Items that were not open are left out.
func Expect(runs []Outcome, refs []forge.Ref) []Expected {
	var list []Expected
	for _, ref := range refs {
		var starts, merges []time.Time
		e := Expected{Ref: ref}
		for i := range runs {
			if fate := runs[i].Fate(ref); fate != nil {
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

// bandOf has eight tenths of the probability between its ends: of n draws, n+1 gaps are equally likely.
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

// Front returns the first items of the queue, and before them what runs.
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

// nearby is how many items behind the last one that is asked for a forecast keeps besides as many as stand before it.
const nearby = 50

// Near returns a forecast of what matters to some items: what stands before them in the queue, about as much behind
// them, which fills the slots meanwhile, what runs and what is on its way to a merge, and all that any of these waits
// for. Of 1,000 issues it keeps 52 for the first one, and a run takes a fifteenth of the time.
func (f *Forecast) Near(refs []forge.Ref) *Forecast {
	last := 2*f.lastOf(refs) + nearby
	if last >= len(f.queue) {
		return f
	}
	keep := make(map[forge.Ref]bool)
	for _, ref := range slices.Concat(refs, f.queue[:last]) {
		keep[ref] = true
	}
	for i := range f.start.Sessions {
		keep[f.start.Sessions[i].Item.Chain] = true
	}
	near := *f
	near.issues, near.waiters = nil, make(map[forge.Ref][]int)
	needed := f.needed(func(t *trialIssue) bool { return keep[t.Issue.Ref] || t.pull != nil })
	for i := range f.issues {
		if needed[i] {
			t := f.issues[i]
			t.blocked, t.stuck = 0, false
			near.issues = append(near.issues, t)
			near.index(len(near.issues) - 1)
		}
	}
	return &near
}

// lastOf is the place in the queue, from 1, of the last of some items and of all that they wait for.
func (f *Forecast) lastOf(refs []forge.Ref) (last int) {
	needed := f.needed(func(t *trialIssue) bool { return slices.Contains(refs, t.Issue.Ref) })
	for i := range f.issues {
		t := &f.issues[i]
		at := slices.Index(f.queue, t.Issue.Ref)
		switch {
		case !needed[i]:
		case at >= 0:
			last = max(last, at+1)
		case t.stuck: // once people let it go on, it is behind all others
			return len(f.queue)
		}
	}
	return last
}

// needed marks the issues that are wanted, and all that they wait for.
func (f *Forecast) needed(wanted func(*trialIssue) bool) []bool {
	needed, at := make([]bool, len(f.issues)), make(map[forge.Ref]int, len(f.issues))
	for i := range f.issues {
		at[f.issues[i].Issue.Ref] = i
	}
	var need func(i int)
	need = func(i int) {
		if needed[i] {
			return
		}
		needed[i] = true
		for _, b := range f.issues[i].Blockers {
			if on, known := at[b.Ref]; known {
				need(on)
			}
		}
	}
	for i := range f.issues {
		if wanted(&f.issues[i]) {
			need(i)
		}
	}
	return needed
}
