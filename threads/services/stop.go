package services

import "time"

// killTime is how long the kernel may take to end a service's processes after their KILL.
const killTime = 100 * time.Millisecond

// Share is a service's part of the time in which a supervisor stops.
type Share struct {
	Turn time.Time // it is asked to end, even if a service that needs it still runs
	Kill time.Time // its grace ends
}

// Shares divides the time from now to the end of a stop among the levels of running services: first those that no
// other needs, last those that need none. Each level has an equal share, because a stubborn service used up the whole
// time, and the database below it was killed without a TERM. What a level leaves is of use to the next.
func Shares(s Snapshot, until time.Time) map[string]Share {
	levels, most := make(map[string]int), 1
	for i := range s.Services {
		if x := &s.Services[i]; x.Phase.runs() {
			most = max(most, s.level(x.Name, levels))
		}
	}
	until = until.Add(-killTime)
	each := until.Sub(s.Now) / time.Duration(most)
	shares := make(map[string]Share)
	for name, level := range levels {
		kill := until.Add(-time.Duration(level-1) * each)
		shares[name] = Share{Turn: kill.Add(min(killTime, each/10) - each), Kill: kill}
	}
	return shares
}

// level returns the length of the longest chain of running services from the named one along needs. Services in a
// circle, which a reload can make of running ones, count once.
func (s *Snapshot) level(name string, levels map[string]int) int {
	if known, ok := levels[name]; ok {
		return known
	}
	levels[name] = 1
	longest := 0
	for _, need := range s.needs(s.named(name)) {
		if x := s.named(need); x != nil && x.Phase.runs() {
			longest = max(longest, s.level(need, levels))
		}
	}
	levels[name] = 1 + longest
	return levels[name]
}

// Divide records the service's share of a stop.
func (s *State) Divide(share Share) { s.share = share }

// stop returns what to do with one service in a stop, and when time alone changes that.
func (s *Snapshot) stop(x *Service) (step Step, next time.Time) {
	switch {
	case !x.Phase.runs() || x.hurried:
		return step, next
	case !x.share.Kill.After(s.Now):
		return Step{Do: Kill}, next
	case x.Phase == Ending:
		return step, x.share.Kill
	case len(Dependants(*s, x.Name)) == 0 || !x.share.Turn.After(s.Now):
		return Step{Do: End, Why: "the supervisor stops"}, x.share.Kill
	}
	return step, x.share.Turn
}
