package advice

import "slices"

// Advice is the answer of Advise.
type Advice struct {
	Plays int     `json:"plays"`
	Now   Outcome `json:"now"`  // of the factory as it is
	More  []Line  `json:"more"` // what more of something would have brought beside that, the best first
	Less  []Line  `json:"less"` // what less of it would have cost, the dearest first
}

// Advise says what one more slot, agent or dollar would have been worth, and one less. Nil means that it was told to
// stop.
func (q *Question) Advise() *Advice {
	up, down := more(q.Trial.Config), fewer(q.Trial.Config)
	s := q.search(1 + len(up) + len(down))
	now := variant{config: q.Trial.Config}
	was := s.run([]variant{now})[0]
	if s.ended {
		return nil
	}
	a := &Advice{Plays: len(s.loads), Now: outcomeOf(was, nil), More: s.compare(up, now, was)}
	a.Less = s.compare(down, now, was)
	slices.Reverse(a.Less)
	if s.ended {
		return nil
	}
	return a
}
