package ledger

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Sums are what is left of a day (UTC) whose sessions and merges are forgotten: for each way to group them but by issue
// and by day, a sum for each group. The zero SumKey has the sum of all.
type Sums map[SumKey]*Work

// SumKey names a group.
type SumKey struct {
	By  By     `json:"by,omitempty"`
	Key string `json:"key,omitempty"`
}

// sumsAge is how long the sums of a day are kept: a quarter. With 400 sessions a day, a day takes 12 kB.
const sumsAge = 92 * 24 * time.Hour

// sumsMost bounds the groups of a day for each way to group, because people and agents choose labels and causes. Others
// has the rest.
const (
	sumsMost = 50
	Others   = "(others)"
)

// summed are the ways to group that the sums of a day have.
var summed = []By{byAll, ByRepo, ByLabel, ByAgent, ByModel, ByRole, ByThread, ByOutcome, ByCause, ByRefused}

// of returns the sum of a group for writing.
func (s Sums) of(k SumKey) *Work {
	if s[k] == nil && k.By != byAll {
		n := 0
		for other := range s {
			if other.By == k.By {
				n++
			}
		}
		if n >= sumsMost {
			k.Key = Others
		}
	}
	return Entry(s, k)
}

func (s Sums) session(p *Past) {
	for _, by := range summed {
		for _, key := range by.keys(p) {
			s.of(SumKey{by, key}).session(p, by)
		}
	}
}

func (s Sums) merge(m *Merged) {
	for _, by := range summed {
		for _, key := range by.mergeKeys(m) {
			s.of(SumKey{by, key}).merge(m)
		}
	}
}

// rename adds the sum of one key to that of another.
func (s Sums) rename(by By, from, to string) {
	if w := s[SumKey{by, from}]; w != nil {
		delete(s, SumKey{by, from})
		s.of(SumKey{by, to}).plus(w)
	}
}

func (s Sums) clone() Sums {
	c := make(Sums, len(s))
	for k, w := range s {
		sum := *w // plus changes no list and no number in place, and a new name of an agent only that list:
		sum.Failed.FailedBy = slices.Clone(w.Failed.FailedBy)
		c[k] = &sum
	}
	return c
}

// day returns the sums of a day for writing.
func (s *State) day(at time.Time) Sums {
	day := dayOf(at)
	if s.Days[day] == nil {
		s.Days[day] = make(Sums)
	}
	return s.Days[day]
}

// Day is the sums of a day. Only compaction writes this record.
type Day struct {
	Day  string `json:"day"`
	Sums []Sum  `json:"sums"` // by key
}

// Sum is the sum of one group.
type Sum struct {
	SumKey
	Work
}

func (r *Day) valid() bool {
	_, err := time.Parse(time.DateOnly, r.Day)
	return err == nil
}

func (r *Day) apply(s *State, _ time.Time) {
	sums := make(Sums, len(r.Sums))
	for i := range r.Sums {
		sums[r.Sums[i].SumKey] = &r.Sums[i].Work
	}
	s.Days[r.Day] = sums
}

// compactDays is Compact for the sums of days. They include the sessions and merges that compactTimeline leaves out.
func (s *State) compactDays(now time.Time) iter.Seq[Record] {
	left := State{Days: make(map[string]Sums, len(s.Days))}
	for day, sums := range s.Days {
		left.Days[day] = sums.clone()
	}
	for i := range s.Past {
		if p := &s.Past[i]; !young(p.End, now) {
			left.day(p.End).session(p)
		}
	}
	for i := range s.Merges {
		if m := &s.Merges[i]; !young(m.When, now) {
			left.day(m.When).merge(m)
		}
	}
	return func(yield func(Record) bool) {
		for _, day := range slices.Sorted(maps.Keys(left.Days)) {
			if day < dayOf(now.Add(-sumsAge)) {
				continue
			}
			r := &Day{Day: day}
			for k, w := range left.Days[day] {
				r.Sums = append(r.Sums, Sum{k, *w})
			}
			slices.SortFunc(r.Sums, func(a, b Sum) int {
				return cmp.Or(strings.Compare(string(a.By), string(b.By)), strings.Compare(a.Key, b.Key))
			})
			if !yield(Record{At: now, Day: r}) {
				return
			}
		}
	}
}

// Credit is the work behind a merged pull request.
type Credit struct {
	// Role, Model, Thread, Labels and Outcome are those of the newest writing session of the agent that opened the pull
	// request; empty if there is none, as for a pull request of a person.
	Role    string        `json:"role,omitempty"`
	Model   string        `json:"model,omitempty"`
	Thread  string        `json:"thread,omitempty"`
	Labels  []string      `json:"labels,omitempty"`
	Outcome agents.Result `json:"outcome,omitempty"`

	Reviews  int  `json:"reviews,omitempty"`  // with a verdict
	Rounds   int  `json:"rounds,omitempty"`   // of these, that requested changes
	Rejected bool `json:"rejected,omitempty"` // the first of these requested changes
}

// credited finds out who opened a merged pull request and what it took, while its sessions are known.
func (s *State) credited(m Merged) Merged {
	if m.Credit != nil {
		return m
	}
	var c Credit
	var opener *Past
	for i := range s.Past {
		p := &s.Past[len(s.Past)-1-i]                                         // slices.Backward would copy each
		if p.Chain.Number != m.Chain.Number || p.Chain.Repo != m.Chain.Repo { // in this order, because most differ
			continue
		}
		if p.Verdict != "" {
			c.Reviews++
			if c.Rejected = p.Verdict == ChangesRequested; c.Rejected {
				c.Rounds++
			}
		}
		wrote := p.Kind.Writes() && p.Outcome == agents.Done
		switch {
		case m.Agent == p.Agent && p.Kind.Writes() && (opener == nil || wrote && opener.Outcome != agents.Done):
			opener = p
		case m.Agent == "" && wrote: // older journals do not have who opened it: the first that finished
			opener = p
		}
	}
	if opener != nil {
		m.Agent = opener.Agent
		c.Role, c.Model, c.Thread, c.Labels = opener.Role, opener.Model, opener.Thread, opener.AllLabels()
		c.Outcome = opener.Outcome
	}
	m.Credit = &c
	return m
}

// like returns the groups of a merged pull request, as those of a session.
func (m *Merged) like() *Past {
	p := &Past{Agent: m.Agent, Ref: m.Ref, Chain: m.Chain, End: m.When}
	if c := m.Credit; c != nil {
		p.Role, p.Model, p.Thread, p.Labels, p.Outcome = c.Role, c.Model, c.Thread, c.Labels, c.Outcome
	}
	return p
}

// mergeKeys returns the groups of a merged pull request. It has no cause.
func (by By) mergeKeys(m *Merged) []string {
	if by == ByCause || by == ByRefused {
		return nil
	}
	return by.keys(m.like())
}
