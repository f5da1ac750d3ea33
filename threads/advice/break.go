package advice

import (
	"cmp"
	"slices"

	"codeberg.org/johba/disinto/threads/sim"
)

// Line is one variant that was played, and the difference that it makes.
type Line struct {
	What string `json:"what"`
	Kind string `json:"kind,omitempty"` // of change; empty for a harm
	Outcome
}

// Breakdown is the answer of Break.
type Breakdown struct {
	Plays int     `json:"plays"`
	Plain Outcome `json:"plain"` // when nothing goes wrong
	Harms []Line  `json:"harms"` // as differences from Plain, the worst first
	// Worst is the harm, or the pair of harms, that hurts most, as its difference from Plain; nil when none hurts. Week
	// is the outcome of that week. Helps has each change of the configuration as its difference from Week, the best
	// first.
	Worst *Line   `json:"worst,omitempty"`
	Week  Outcome `json:"week,omitzero"`
	Helps []Line  `json:"helps"`
}

const (
	worstOf  = 4                           // harms, which are also tried in pairs
	allPairs = worstOf * (worstOf - 1) / 2 // the number of these pairs
)

// Break searches for the week that hurts the factory most, and for the changes that would have helped. It returns nil
// if Play ended the search.
func (q *Question) Break() *Breakdown {
	changes, harms := more(q.Trial.Config), q.harms()
	s := q.search(len(harms) + allPairs + len(changes))
	if s.ended {
		return nil
	}
	var weeks []variant
	for _, h := range harms {
		weeks = append(weeks, variant{q.Trial.Config, []harm{h}})
	}
	b := &Breakdown{Plays: len(s.loads), Plain: outcomeOf(s.plain, nil), Harms: []Line{}, Helps: []Line{}}
	var list []tried
	for i, played := range s.run(weeks, s.plain) {
		if s.ended {
			return nil
		}
		list = append(list, tried{weeks[i], played, Line{What: harms[i].name, Outcome: outcomeOf(played, s.plain)}})
	}
	slices.SortStableFunc(list, worse)
	for i := range list {
		b.Harms = append(b.Harms, list[i].line)
	}
	if worst := s.worst(list); worst != nil {
		b.Worst, b.Week = &worst.line, outcomeOf(worst.played, nil)
		b.Helps = s.compare(changes, worst.variant, worst.played)
	}
	if s.ended {
		return nil
	}
	return b
}

// tried is a variant that was played.
type tried struct {
	variant
	played []sim.Report
	line   Line
}

// worst returns the week that hurts most: one of list, or a pair of harms that hurts more. Nil means that no harm
// hurts.
func (s *search) worst(list []tried) *tried {
	list = slices.DeleteFunc(slices.Clone(list), func(w tried) bool { return !w.line.hurts() })
	if len(list) == 0 {
		return nil
	}
	var pairs []variant
	apart := differing(list)
	for i := range apart[:min(len(apart), worstOf)] {
		for j := range i {
			pairs = append(pairs, variant{apart[i].config, slices.Concat(apart[j].harms, apart[i].harms)})
		}
	}
	var both []tried
	for i, played := range s.run(pairs, s.plain) {
		if s.ended {
			return nil
		}
		name := pairs[i].harms[0].name + ", and " + pairs[i].harms[1].name
		both = append(both, tried{pairs[i], played, Line{What: name, Outcome: outcomeOf(played, s.plain)}})
	}
	slices.SortStableFunc(both, worse)
	if s.whole(&list[0]); len(both) > 0 {
		s.whole(&both[0])
		if s.ended {
			return nil
		}
		if more := (Line{Outcome: outcomeOf(both[0].played, list[0].played)}); more.hurts() {
			return &both[0]
		}
	}
	return &list[0]
}

// differing returns the weeks, with only the first one of each absent agent.
func differing(list []tried) (apart []tried) {
	away := make(map[string]bool)
	for _, w := range list {
		if agent := w.harms[0].agent; agent == "" || !away[agent] {
			away[agent] = true
			apart = append(apart, w)
		}
	}
	return apart
}

// hurts reports whether fewer issues are done than without the harm, or issues are open longer.
func (l *Line) hurts() bool { return l.Undone.Low > 0 || l.Undone.High >= 0 && l.Open.Low > 0 }

// worse orders weeks: most undone issues first, then the longest open issues. Differences within chance count as 0.
func worse(a, b tried) int {
	return cmp.Or(
		cmp.Compare(b.line.Undone.certain(), a.line.Undone.certain()),
		cmp.Compare(b.line.Open.certain(), a.line.Open.certain()),
		cmp.Compare(b.line.Open.Mean, a.line.Open.Mean),
	)
}

// certain returns the mean of a difference that exceeds chance, and 0 for any other.
func (f Figure) certain() float64 {
	if f.Sure() {
		return f.Mean
	}
	return 0
}

// compare plays the week of a variant with each change, and returns the differences that they make: those with most
// more issues done first, then those with the shortest open issues.
func (s *search) compare(changes []change, in variant, without []sim.Report) []Line {
	var list []variant
	for _, c := range changes {
		list = append(list, variant{c.config, in.harms})
	}
	lines := []Line{}
	for i, played := range s.run(list, without) {
		if s.ended {
			return nil
		}
		lines = append(lines, Line{What: changes[i].name, Kind: changes[i].kind, Outcome: outcomeOf(played, without)})
	}
	slices.SortStableFunc(lines, func(a, b Line) int {
		return cmp.Or(
			cmp.Compare(b.Done.certain(), a.Done.certain()), cmp.Compare(a.Open.certain(), b.Open.certain()),
		)
	})
	return lines
}
