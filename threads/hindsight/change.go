package hindsight

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

const (
	// leastBefore and leastNow are how many times something must have happened before the newest days and in them.
	leastBefore, leastNow = 10, 6
	// sure is how many standard deviations a change must be from chance. It is high because each day many places are
	// searched for changes.
	sure = 3.3
	// A time has changed if it is at least 1.5 times as long or at most 2/3 as long, and the difference is at least
	// leastChange. A share has changed if it differs by at least leastShare.
	much        = 1.5
	leastChange = 5.0 // seconds
	leastShare  = 0.1
	// shownChanges is how many changes are reported.
	shownChanges = 3
)

// Kind is the kind of a change.
type Kind string

// The kinds of changes.
const (
	Slower   Kind = "agent"    // sessions of an agent take more time, or less
	Checks   Kind = "checks"   // checks take more time, or less
	Forge    Kind = "forge"    // merges, or the time between two sessions, take more time, or less
	People   Kind = "people"   // people take more time, or less
	Failures Kind = "failures" // more sessions fail, or fewer
	Outages  Kind = "outages"  // more sessions meet no backend or a limit, or fewer
)

// Change is something that differs from earlier days.
type Change struct {
	Kind    Kind
	What    string  // such as "issue, dev-qwen" or "merge"; see sim.Model.Learnt
	Was, Is float64 // the median time in seconds, or the share
	Times   int     // how often it happened in the newest days
	cost    float64 // in seconds, summed over the newest days
}

// changes compares the journal since a moment with the journal before it.
func changes(j sim.Journal, since time.Time) (list []Change) {
	before, now := j.Before(since), j.After(since)
	old, times := sim.Learn(before).Times(), sim.Learn(now).Times()
	for _, what := range slices.Sorted(maps.Keys(times)) {
		if c, changed := slower(old[what], times[what]); changed {
			c.What, c.Kind = what, kindOf(what)
			list = append(list, c)
		}
	}
	for kind, is := range map[Kind]func(agents.Result) bool{
		Failures: agents.Result.BurnsAttempt,
		Outages:  func(r agents.Result) bool { return r == agents.BackendDown || r == agents.Limited },
	} {
		if c, changed := oftener(shareOf(before.Past, is), shareOf(now.Past, is)); changed {
			c.What, c.Kind = string(kind), kind
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(a.What, b.What))
	})
	return list[:min(len(list), shownChanges)]
}

// share counts the sessions of a kind among all, and the time that all of them took.
type share struct {
	yes, of int
	took    time.Duration
}

func (s share) part() float64 { return float64(s.yes) / float64(s.of) }

func shareOf(past []ledger.Past, is func(agents.Result) bool) (s share) {
	for i := range past {
		s.of++
		s.took += past[i].End.Sub(past[i].Start)
		if is(past[i].Outcome) {
			s.yes++
		}
	}
	return s
}

// kindOf returns the kind of change for a time that the model learns.
func kindOf(what string) Kind {
	switch sim.Delay(what) {
	case sim.Checks:
		return Checks
	case sim.People:
		return People
	case sim.Merging, sim.Handover, sim.Notice, sim.Claim:
		return Forge
	}
	return Slower
}

// slower compares two sorted lists of times by their ranks (Mann and Whitney), which assumes no distribution.
func slower(was, is []time.Duration) (c Change, changed bool) {
	n, m := float64(len(was)), float64(len(is))
	if len(was) < leastBefore || len(is) < leastNow {
		return c, false
	}
	above := 0.0
	for _, d := range is {
		low, _ := slices.BinarySearch(was, d)
		high, _ := slices.BinarySearch(was, d+1)
		above += float64(low+high) / 2
	}
	z := (above - n*m/2) / math.Sqrt(n*m*(n+m+1)/12)
	c = Change{Was: was[len(was)/2].Seconds(), Is: is[len(is)/2].Seconds(), Times: len(is)}
	by, ratio := c.Is-c.Was, (c.Is+1)/(c.Was+1)
	c.cost = math.Abs(by) * m
	far := math.Abs(by) >= leastChange && (ratio >= much || ratio <= 1/much)
	return c, far && math.Abs(z) >= sure && (z > 0) == (by > 0)
}

// oftener compares two shares of sessions. Its cost is the difference of the shares times the length of all sessions.
func oftener(was, is share) (c Change, changed bool) {
	if was.of < leastSessions || is.of < leastBefore {
		return c, false
	}
	c = Change{Was: was.part(), Is: is.part(), Times: is.of}
	all := share{yes: was.yes + is.yes, of: was.of + is.of}.part()
	sd := math.Sqrt(all * (1 - all) * (1/float64(was.of) + 1/float64(is.of)))
	by := math.Abs(c.Is - c.Was)
	c.cost = by * is.took.Seconds()
	return c, by >= leastShare && sd > 0 && by/sd >= sure
}
