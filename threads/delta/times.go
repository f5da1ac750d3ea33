package delta

import (
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// times has the times at which the facts of a repository were requested. Each scan confirms nearly all facts, so most
// have the same time. If each fact had its time, every scan would change all of them.
type times struct {
	Repo   string
	Most   time.Time
	Others []asked `json:",omitempty"` // facts with another time, by number
}

// asked is when a fact was requested. Issues and pull requests share one sequence of numbers.
type asked struct {
	Number int64
	AsOf   time.Time
}

// timesOf returns the times of all facts, sorted by repository.
func timesOf(f *forge.Facts) (list []times) {
	byRepo := make(map[string][]asked)
	for i := range f.Issues {
		is := &f.Issues[i]
		byRepo[is.Repo] = append(byRepo[is.Repo], asked{is.Number, is.AsOf})
	}
	for i := range f.Pulls {
		p := &f.Pulls[i]
		byRepo[p.Repo] = append(byRepo[p.Repo], asked{p.Number, p.AsOf})
	}
	for repo, all := range byRepo {
		t := times{Repo: repo, Most: most(all)}
		t.Others = slices.DeleteFunc(all, func(a asked) bool { return a.AsOf.Equal(t.Most) })
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b times) int { return strings.Compare(a.Repo, b.Repo) })
	return list
}

// most returns the time that most facts have; of equally frequent times the latest.
func most(all []asked) (at time.Time) {
	n := make(map[int64]int)
	best := 0
	for _, a := range all {
		k := a.AsOf.UnixNano()
		n[k]++
		if n[k] > best || n[k] == best && a.AsOf.After(at) {
			best, at = n[k], a.AsOf
		}
	}
	return at
}

// setTimes sets the times of facts.
func setTimes(f *forge.Facts, list []times) {
	most, at := make(map[string]time.Time), make(map[forge.Ref]time.Time)
	for _, t := range list {
		most[t.Repo] = t.Most
		for _, o := range t.Others {
			at[forge.Ref{Repo: t.Repo, Number: o.Number}] = o.AsOf
		}
	}
	of := func(ref forge.Ref) time.Time {
		if own, other := at[ref]; other {
			return own
		}
		return most[ref.Repo]
	}
	for i := range f.Issues {
		f.Issues[i].AsOf = of(f.Issues[i].Ref)
	}
	for i := range f.Pulls {
		f.Pulls[i].AsOf = of(f.Pulls[i].Ref)
	}
}
