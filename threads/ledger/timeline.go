package ledger

import (
	"iter"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// Timeline has the events other than sessions. Each list is sorted by time, the oldest first, and has at most
// PastLimit entries.
type Timeline struct {
	Merges []Merged `json:"merges,omitempty"`
	Free   []Free   `json:"free,omitempty"`
	Parks  []Parked `json:"parked,omitempty"`
}

// Since returns the part of a timeline that ended at or after a time.
func (t Timeline) Since(from time.Time) Timeline {
	return Timeline{
		Merges: after(t.Merges, func(m Merged) bool { return m.When.Before(from) }),
		Free:   after(t.Free, func(f Free) bool { return f.Until.Before(from) }),
		Parks:  after(t.Parks, func(p Parked) bool { return p.Until.Before(from) }),
	}
}

// after returns a copy of a list without the entries that are over.
func after[T any](list []T, over func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), over)
}

// Merged records that the supervisor merged a pull request.
type Merged struct {
	Ref   Ref       `json:"ref"`
	Chain Ref       `json:"chain"` // the issue that it was for, or else the pull request itself
	When  time.Time `json:"when"`
	// Agent opened it; the account's login if it is of no agent, and empty in older journals where that is unknown.
	Agent  string  `json:"agent,omitempty"`
	Credit *Credit `json:"credit,omitempty"` // nil in the event: the fold adds it
}

func (r *Merged) valid() bool { return r.Ref.Repo != "" && r.Chain.Repo != "" && !r.When.IsZero() }

func (r *Merged) apply(s *State, _ time.Time) {
	if len(s.Merges) == PastLimit {
		s.day(s.Merges[0].When).merge(&s.Merges[0])
	}
	s.Merges = bounded(s.Merges, s.credited(*r))
}

// Free is a period in which a slot was free although items waited, and the code that held the first of them.
type Free struct {
	Thread string       `json:"thread"`
	Slot   int          `json:"slot"`
	Code   threads.Code `json:"code"`
	From   time.Time    `json:"from"`
	Until  time.Time    `json:"until"`
}

func (r *Free) valid() bool {
	return r.Thread != "" && r.Slot >= 0 && r.Code != "" && r.Until.After(r.From)
}

func (r *Free) apply(s *State, _ time.Time) { s.Free = bounded(s.Free, *r) }

// Parked is a period in which a thread started nothing because of a usage limit, or because its breaker was open. Only
// compaction writes this record. Later parks follow from the ends of sessions.
type Parked struct {
	Thread string    `json:"thread"`
	Why    string    `json:"why"`
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"` // as far as known
}

func (r *Parked) valid() bool { return r.Thread != "" && !r.Until.Before(r.From) }

func (r *Parked) apply(s *State, _ time.Time) { s.Parks = bounded(s.Parks, *r) }

// bounded appends to a list that keeps the newest PastLimit entries. It cuts off the oldest by slicing: copying the
// list for each line of a long journal would take too long.
func bounded[T any](list []T, v T) []T { return append(list[max(0, len(list)-PastLimit+1):], v) }

// parked records how the end of a session changed its thread's park. was is the park's end before that. An extended
// park remains one entry.
func (s *State) parked(e *ended, was time.Time) {
	until := e.thread.ParkedUntil
	if until.Equal(was) || until.IsZero() {
		return
	}
	p := Parked{e.Thread, shortened(e.thread.ParkedWhy), e.at, until}
	if last := lastPark(s.Parks, e.Thread); last >= 0 && !s.Parks[last].Until.Before(e.at) {
		p.From = s.Parks[last].From
		s.Parks[last] = p
	} else {
		s.Parks = bounded(s.Parks, p)
	}
}

// lastPark returns the index of a thread's newest park; -1 without one.
func lastPark(parks []Parked, thread string) int {
	for i, p := range slices.Backward(parks) {
		if p.Thread == thread {
			return i
		}
	}
	return -1
}

func young(at, now time.Time) bool { return now.Sub(at) <= pastAge }

// compactTimeline is Compact for the last month of ended sessions, merges, free slots and parks.
func (s *State) compactTimeline(now time.Time) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for i := range s.Past {
			if p := &s.Past[i]; young(p.End, now) && !yield(Record{At: now, Past: p}) {
				return
			}
		}
		for i := range s.Merges {
			if m := &s.Merges[i]; young(m.When, now) && !yield(Record{At: now, Merged: m}) {
				return
			}
		}
		for i := range s.Free {
			if f := &s.Free[i]; young(f.Until, now) && !yield(Record{At: now, Free: f}) {
				return
			}
		}
		for i := range s.Parks {
			if p := &s.Parks[i]; young(p.Until, now) && !yield(Record{At: now, Parked: p}) {
				return
			}
		}
	}
}
