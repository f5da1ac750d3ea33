package sim

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Replay turns the sessions of the newest days into a trial of a configuration; the policy is left open. An issue is
// filed when, by the journal, it could first be worked on: filed when its first session began, it could not be done
// sooner by more slots. Sessions that took no time, or longer than any timeout, are left out.
func Replay(past []ledger.Past, config *threads.Config, days time.Duration) Trial {
	past, from := recent(past, days)
	took, cache := withoutReading(past, config)
	r := replay{config: config, from: from, at: make(map[forge.Ref]int), reviews: make(map[forge.Ref][]time.Duration)}
	scheduled := make(map[string][]time.Duration)
	for i := range past {
		if s := &past[i]; s.Kind == agents.KindSchedule {
			scheduled[s.Role] = append(scheduled[s.Role], took[i])
		} else {
			r.add(s, took[i])
		}
	}
	t := Trial{
		Config: config, Load: r.loaded(), Cache: cache, Uses: meanUses(past), Scheduled: make(map[string]time.Duration),
	}
	for role, d := range scheduled {
		t.Scheduled[role] = spread(d).Mean
	}
	return t
}

// meanUses returns what the sessions of each thread and kind used on average. Those that did not tell do not count.
func meanUses(past []ledger.Past) map[Line]agents.Usage {
	uses, n := make(map[Line]agents.Usage), make(map[Line]int64)
	for i := range past {
		s := &past[i]
		if s.Usage == nil {
			continue
		}
		u, more := uses[Line{s.Thread, s.Kind}], s.Usage.Bounded()
		u.InputTokens += more.InputTokens
		u.OutputTokens += more.OutputTokens
		u.CostUSD += more.CostUSD
		uses[Line{s.Thread, s.Kind}] = u
		n[Line{s.Thread, s.Kind}]++
	}
	for at, u := range uses {
		u.InputTokens, u.OutputTokens, u.CostUSD = u.InputTokens/n[at], u.OutputTokens/n[at], u.CostUSD/float64(n[at])
		uses[at] = u
	}
	return uses
}

// loaded completes the load.
func (r *replay) loaded() Load {
	for chain, n := range r.at {
		var sum time.Duration
		for _, d := range r.reviews[chain] {
			sum += d
		}
		if len(r.reviews[chain]) > 0 {
			r.load[n].Review = sum / time.Duration(len(r.reviews[chain]))
		}
	}
	slices.SortStableFunc(r.load, func(a, b Work) int { return cmp.Compare(a.At, b.At) })
	return r.load
}

// recent returns the sessions of the newest days that can be replayed, sorted by their start, and when the replay
// begins: when the first of their issues could be worked on, but no earlier than these days. Issues that waited before
// that are there from the beginning.
func recent(past []ledger.Past, days time.Duration) (list []ledger.Past, from time.Time) {
	list = slices.DeleteFunc(slices.Clone(past), func(s ledger.Past) bool {
		took := s.End.Sub(s.Start) // nonsense where the clock was set meanwhile
		return took <= 0 || took > longestReplayed
	})
	if len(list) == 0 {
		return nil, from
	}
	newest := slices.MaxFunc(list, func(a, b ledger.Past) int { return a.End.Compare(b.End) }).End
	begin := newest.Add(-days)
	list = slices.DeleteFunc(list, func(s ledger.Past) bool { return s.Start.Before(begin) })
	slices.SortStableFunc(list, func(a, b ledger.Past) int { return a.Start.Compare(b.Start) })
	from = newest
	for i := range list {
		from = earlier(from, filed(&list[i]))
	}
	return list, latest(from, begin)
}

// longestReplayed is longer than any sensible timeout.
const longestReplayed = 7 * 24 * time.Hour

// replay is a load in the making.
type replay struct {
	config  *threads.Config
	from    time.Time
	load    Load
	at      map[forge.Ref]int // place in the load, by chain
	reviews map[forge.Ref][]time.Duration
}

func (r *replay) add(s *ledger.Past, took time.Duration) {
	switch {
	case s.Kind == agents.KindReview:
		r.reviews[forge.Ref(s.Chain)] = append(r.reviews[forge.Ref(s.Chain)], took)
	case s.Kind.Writes():
		n, known := r.at[forge.Ref(s.Chain)]
		if !known {
			n = len(r.load)
			r.at[forge.Ref(s.Chain)] = n
			r.load = append(r.load, r.work(s))
		}
		r.load[n].Sessions = append(r.load[n].Sessions, took)
	}
}

// work is an issue without its sessions.
func (r *replay) work(s *ledger.Past) Work {
	w := Work{At: max(0, filed(s).Sub(r.from)), Priority: s.Priority}
	if w.Priority < 1 || w.Priority > 10 {
		w.Priority = forge.DefaultPriority
	}
	if slices.Contains(r.config.Forge.Repos, s.Chain.Repo) {
		w.Repo = s.Chain.Repo
	}
	able := func(a agents.Agent) bool {
		return !slices.ContainsFunc(s.Skills, func(skill string) bool { return !slices.Contains(a.Skills, skill) })
	}
	if slices.ContainsFunc(r.config.Agents, able) { // else the skills are left out: somewhere it was done
		w.Skills = s.Skills
	}
	return w
}

// filed is when, by the journal, a session could have begun.
func filed(s *ledger.Past) time.Time {
	if s.Ready.IsZero() {
		return s.Start
	}
	return earlier(s.Start, s.Ready)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
