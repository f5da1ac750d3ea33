package advice

import "slices"

// Advice is the answer of Advise.
type Advice struct {
	Plays int     `json:"plays"`
	Now   Outcome `json:"now"`  // of the unchanged factory
	More  []Line  `json:"more"` // each addition, as its difference from Now, the best first
	Less  []Line  `json:"less"` // each removal, as its difference from Now, the costliest first
}

// Advise measures the worth of one more slot, agent or dollar, and the cost of one slot or agent less. It returns nil
// if Play ended the search.
func (q *Question) Advise() *Advice {
	up, down := more(q.Trial.Config), fewer(q.Trial.Config)
	s := q.search(len(up) + len(down))
	if s.ended {
		return nil
	}
	now := variant{config: q.Trial.Config}
	a := &Advice{Plays: len(s.loads), Now: outcomeOf(s.plain, nil), More: s.compare(up, now, s.plain)}
	a.Less = s.compare(down, now, s.plain)
	slices.Reverse(a.Less)
	if s.ended {
		return nil
	}
	return a
}
