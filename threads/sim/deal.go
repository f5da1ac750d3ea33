package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// Dealt returns the load with its work dealt again: each issue gets the sessions of another issue with the same
// skills. The total work and the filing times stay the same. Seed 0 changes nothing. Equal seeds deal all loads of
// the same issues alike.
func (l Load) Dealt(seed uint64) Load {
	dealt := slices.Clone(l)
	if seed == 0 {
		return dealt
	}
	alike := make(map[string][]int)
	var groups []string
	for i := range l {
		if l[i].drawn {
			continue // the trial draws its work from the model
		}
		skills := strings.Join(l[i].Skills, " ")
		if alike[skills] == nil {
			groups = append(groups, skills)
		}
		alike[skills] = append(alike[skills], i)
	}
	rng := rand.New(rand.NewPCG(seed, 6))
	for _, skills := range groups {
		list := alike[skills]
		for i, from := range rng.Perm(len(list)) {
			to, has := &dealt[list[i]], &l[list[from]]
			to.Sessions, to.Review, to.Steps, to.Looks, to.Pulls = has.Sessions, has.Review, has.Steps, has.Looks, has.Pulls
		}
	}
	return dealt
}
