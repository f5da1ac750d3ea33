package ledger

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Compact returns the shortest journal that folds into this state. It leaves out rests that are over by now.
func (s *State) Compact(now time.Time) []Record { return slices.Collect(s.Compaction(now)) }

// Compaction yields the records of Compact one at a time: together, the records of 34,000 failed chains take 20 MB.
// The state must not change meanwhile.
func (s *State) Compaction(now time.Time) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, part := range []iter.Seq[Record]{
			s.compactOpen(now), s.compactItems(now), s.compactTolls(now), s.compactMaps(now),
			slices.Values(s.compactTells(now)), slices.Values(s.compactHeard(now)),
			s.compactDays(now), s.compactTimeline(now), s.compactReceipts(now), slices.Values(s.compactServices(now)),
			s.compactRecent(now),
		} {
			for r := range part {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// compactOpen is Compact for open sessions, steals and pauses.
func (s *State) compactOpen(now time.Time) iter.Seq[Record] {
	var list []Record
	for _, run := range slices.Sorted(maps.Keys(s.Open)) {
		o := s.Open[run]
		list = append(list, Record{At: o.At, Open: (*Reopened)(&o.Start)})
	}
	for _, r := range slices.SortedFunc(maps.Keys(s.Steals), forge.Ref.Compare) {
		steal := s.Steals[r]
		list = append(list, Record{At: now, Steal: &steal})
	}
	for _, p := range slices.SortedFunc(maps.Keys(s.Paused), threads.Pause.Compare) {
		list = append(list, Record{
			At: s.Paused[p].PausedAt,
			Pause: &Pause{
				Pause: p, By: s.Paused[p].PausedBy, Why: s.Paused[p].PausedWhy, Stop: s.Paused[p].ThenStop,
			},
		})
	}
	return slices.Values(list)
}

// compactItems is Compact for chains and items. It leaves out empty entries.
func (s *State) compactItems(now time.Time) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, r := range slices.SortedFunc(maps.Keys(s.Chains), forge.Ref.Compare) {
			if c := s.Chains[r]; !isZero(*c) && !yield(Record{At: now, Chain: &Chain{Ref(r), *c}}) {
				return
			}
		}
		for _, k := range slices.SortedFunc(maps.Keys(s.Items), threads.Key.Compare) {
			rested := *s.Items[k]
			if !rested.CoolDown.After(now) {
				rested.Rest(time.Time{}, "")
			}
			if !rested.Behind.After(now) && !rested.FailedAt.Add(threads.ReworkWait).After(now) {
				rested.FailedBy, rested.FailedAt, rested.Behind = "", time.Time{}, time.Time{}
			}
			if !isZero(rested) && !yield(Record{At: now, Item: &Item{KeyOf(k), *s.Items[k]}}) {
				return
			}
		}
	}
}

// compactTolls is Compact for the tolls of chains. They stay for ever: 100,000 issues take 8 MB.
func (s *State) compactTolls(now time.Time) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, r := range slices.SortedFunc(maps.Keys(s.Tolls), forge.Ref.Compare) {
			if t := s.Tolls[r]; !isZero(*t) && !yield(Record{At: now, Toll: &Toll{Ref(r), *t}}) {
				return
			}
		}
	}
}

// compactMaps is Compact for agents, threads, authors, the day's openers, failures in a row, repositories and slots. It
// leaves out empty entries.
func (s *State) compactMaps(now time.Time) iter.Seq[Record] {
	var list []Record
	for _, name := range slices.Sorted(maps.Keys(s.Agents)) {
		a := *s.Agents[name]
		if !a.HeldUntil.After(now) {
			a.Hold(time.Time{}, "")
		}
		if a.Spent = a.Spent.Today(now); !isZero(a) {
			list = append(list, Record{At: now, Agent: &Agent{name, a}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Threads)) {
		t := *s.Threads[name]
		t.Uses = t.UsesSince(now)
		if t.Spent = t.Spent.Today(now); !isZero(t) {
			list = append(list, Record{At: now, Thread: &Thread{name, t}})
		}
	}
	s.forgetReviews(now)
	for _, login := range slices.Sorted(maps.Keys(s.Authors)) {
		list = append(list, Record{At: now, Author: &Author{login, *s.Authors[login]}})
	}
	for _, login := range slices.Sorted(maps.Keys(s.Opened)) {
		if o := *s.Opened[login]; !o.Day.Before(threads.Day(now)) {
			list = append(list, Record{At: now, Opened: &Opened{login, o}})
		}
	}
	for _, c := range slices.SortedFunc(maps.Keys(s.Failing), threads.Crew.Compare) {
		list = append(list, Record{At: now, Failing: &Failing{c, *s.Failing[c]}})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Repos)) {
		h := *s.Repos[name]
		h.Spent, h.Barred = h.Spent.Today(now), maps.Clone(h.Barred)
		maps.DeleteFunc(h.Barred, func(_ string, b threads.Bar) bool { return !b.Until.After(now) })
		if len(h.Barred) == 0 {
			h.Barred = nil
		}
		if !isZero(h) {
			list = append(list, Record{At: now, Repo: &Repo{name, h}})
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.Slots), threads.SlotKey.Compare) {
		w := s.Slots[k]
		list = append(list, Record{At: now, Slot: &Slot{k, w.Agent, Ref(w.Chain), w.Left}})
	}
	return slices.Values(list)
}

// compactRecent is Compact for the newest sessions of the status, the oldest first.
func (s *State) compactRecent(now time.Time) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for i := range slices.Backward(s.Recent) {
			if !yield(Record{At: now, Recent: &s.Recent[i]}) {
				return
			}
		}
	}
}

// isZero reports whether an entry is empty. It uses reflection, so that no new field can be forgotten.
func isZero[T any](v T) bool { return reflect.ValueOf(v).IsZero() }
