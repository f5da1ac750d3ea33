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

// Replay turns the sessions of the newest days into a trial of a configuration, with the policy left open. An issue
// is filed when it was first ready according to the journal. If the journal shows only its first session, that start
// is its filing, so more slots cannot do it sooner. Each session keeps its length and outcome. Sessions after an
// issue's last one are drawn from the model of the whole journal. Sessions without a length, or longer than any
// timeout, are left out. Backends fail when they did.
func Replay(j Journal, config *threads.Config, days time.Duration) Trial {
	past, from := recent(j.Past, days)
	took, cache := withoutReading(past, config)
	r := replay{
		config: config, from: from, at: make(map[forge.Ref]int), reviews: make(map[forge.Ref][]time.Duration),
		merged: mergedChains(j.Timeline.Merges),
	}
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
		Model: Learn(j), From: from, Outages: outagesOf(past, from),
	}
	for role, d := range scheduled {
		t.Scheduled[role] = spread(d).Mean
	}
	return t
}

func mergedChains(merges []ledger.Merged) map[forge.Ref]bool {
	set := make(map[forge.Ref]bool)
	for _, m := range merges {
		set[forge.Ref(m.Chain)] = true
	}
	return set
}

// meanUses returns the mean usage of sessions that reported it, by thread and kind.
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

// loaded completes and returns the load.
func (r *replay) loaded() Load {
	for chain, n := range r.at {
		w := &r.load[n]
		w.Pulls = len(w.Looks) > 0 || r.merged[chain] || len(w.Sessions) > 1
		var sum time.Duration
		for _, d := range r.reviews[chain] {
			sum += d
		}
		if len(r.reviews[chain]) > 0 {
			w.Review = sum / time.Duration(len(r.reviews[chain]))
		}
	}
	slices.SortStableFunc(r.load, func(a, b Work) int { return cmp.Compare(a.At, b.At) })
	return r.load
}

// recent returns the sessions of the newest days that can be replayed, sorted by start, and the start of the replay:
// when the first of their issues could be worked on, but not before these days. Issues that waited before then are
// there from the start.
func recent(past []ledger.Past, days time.Duration) (list []ledger.Past, from time.Time) {
	list = possible(past)
	if len(list) == 0 {
		return nil, from
	}
	newest := slices.MaxFunc(list, func(a, b ledger.Past) int { return a.End.Compare(b.End) }).End
	begin := newest.Add(-days)
	list = slices.DeleteFunc(list, func(s ledger.Past) bool { return s.Start.Before(begin) })
	from = newest
	for i := range list {
		from = earlier(from, filed(&list[i]))
	}
	return list, latest(from, begin)
}

// possible returns the sessions with plausible times, sorted by start.
func possible(past []ledger.Past) []ledger.Past {
	list := slices.DeleteFunc(slices.Clone(past), func(s ledger.Past) bool {
		took := s.End.Sub(s.Start) // wrong if the clock was set meanwhile
		return took <= 0 || took > longestReplayed
	})
	slices.SortStableFunc(list, func(a, b ledger.Past) int { return a.Start.Compare(b.Start) })
	return list
}

// longestReplayed is longer than any sensible timeout.
const longestReplayed = 7 * 24 * time.Hour

// replay is a load that is being built.
type replay struct {
	config  *threads.Config
	from    time.Time
	load    Load
	at      map[forge.Ref]int // place in the load, by chain
	reviews map[forge.Ref][]time.Duration
	merged  map[forge.Ref]bool
}

func (r *replay) add(s *ledger.Past, took time.Duration) {
	chain := forge.Ref(s.Chain)
	n, known := r.at[chain]
	if !known && s.Kind.Writes() {
		n, known = len(r.load), true
		r.at[chain] = n
		r.load = append(r.load, r.work(s))
	}
	if s.Kind == agents.KindReview {
		r.reviews[chain] = append(r.reviews[chain], took)
	}
	if !known || !byItself(s) && s.Outcome != agents.Lost && s.Outcome != agents.Cancelled {
		return // an outage ended it, and the trial has the outage
	}
	w := &r.load[n]
	step := stepOf(s, took)
	if s.Kind == agents.KindReview {
		w.Looks = append(w.Looks, step)
		w.judged = true
		return
	}
	if last := len(w.Steps) - 1; last >= 0 && w.Steps[last].Result == agents.Done && !w.judged {
		w.Steps[last].Red = true // or it has a conflict: it went back without a review
	}
	w.Steps, w.Sessions, w.judged = append(w.Steps, step), append(w.Sessions, took), false
}

// work returns an issue without its sessions.
func (r *replay) work(s *ledger.Past) Work {
	w := workOf(s)
	w.At = max(0, filed(s).Sub(r.from))
	w.fit(r.config)
	return w
}

// workOf returns the issue of a first session, without its filing time and its sessions.
func workOf(s *ledger.Past) Work {
	w := Work{Priority: s.Priority, Skills: s.Skills, Repo: s.Chain.Repo}
	if s.Pinned {
		w.Pin = s.Agent
	}
	return w
}

// fit removes from an issue of the past what a configuration does not have: its repository, and skills that no agent
// has.
func (w *Work) fit(config *threads.Config) {
	if w.Priority < 1 || w.Priority > 10 {
		w.Priority = forge.DefaultPriority
	}
	if !slices.Contains(config.Forge.Repos, w.Repo) {
		w.Repo = ""
	}
	able := func(a agents.Agent) bool {
		return !slices.ContainsFunc(w.Skills, func(skill string) bool { return !slices.Contains(a.Skills, skill) })
	}
	if !slices.ContainsFunc(config.Agents, able) {
		w.Skills = nil
	}
}

// halfSecond is the mean time between a change on the forge and the whole second to which the forge cuts its time.
const halfSecond = time.Second / 2

// filed returns when a session's item was first ready, according to the journal. A whole second is the forge's time,
// which is on average half a second early. Without that half a second a trial has the issue before it was there, and
// plans it with whatever happens in between: the median wait of a load with waits below a second came out as a half.
func filed(s *ledger.Past) time.Time {
	switch {
	case s.Ready.IsZero():
		return s.Start
	case s.Ready.Nanosecond() == 0 && s.Start.After(s.Ready):
		return earlier(s.Start, s.Ready.Add(halfSecond))
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
