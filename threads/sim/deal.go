package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// Dealt is the load with other luck: each issue has the sessions of another one with the same skills. All of the work
// together is the same, and so are the times at which it is filed. Seed 0 leaves it as it is, and the same seed deals
// every load of the same issues alike.
func (l Load) Dealt(seed uint64) Load {
	dealt := slices.Clone(l)
	if seed == 0 {
		return dealt
	}
	alike := make(map[string][]int)
	var groups []string
	for i := range l {
		if l[i].drawn {
			continue // from the model, by the trial's seed
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
