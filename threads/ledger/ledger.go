// Package ledger is the memory of a factory: the journal's records, what they add up to, and what follows from the
// way a session ended. It is pure, so the supervisor, which writes the records to a file, and the simulator, which
// does not, remember the same.
//
//	record.go   a line of the journal
//	ledger.go   State, and what each record changes in it
//	outcome.go  the table of outcomes: design section 7
//	compact.go  State -> the shortest journal that folds into it
//	clock.go    what to do about a clock that was ahead
package ledger

import (
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// State is the fold of the journal's records. All times in it come from the records, so that a replay gives the same
// state. It is not safe for concurrent use.
type State struct {
	threads.History

	Open   map[string]Open     // sessions that began and have not ended, by run id
	Steals map[forge.Ref]Steal // issues that are to change hands
	Recent []Recent            // newest first, at most RecentLimit
	Past   []Past              // every session that ran, oldest first, at most PastLimit
}

// Open is a session that began and has not ended.
type Open struct {
	Start
	At time.Time
}

// New returns the state before the first record.
func New() *State {
	return &State{History: threads.NewHistory(), Open: make(map[string]Open), Steals: make(map[forge.Ref]Steal)}
}

// Fold returns the state after some records.
func Fold(records []Record) *State {
	s := New()
	for i := range records {
		s.Apply(records[i])
	}
	return s
}

// Apply makes a record true.
func (s *State) Apply(r Record) {
	switch {
	case r.Start != nil:
		s.start(r.At, r.Start)
	case r.End != nil:
		s.end(r.At, r.End)
	case r.Released != nil:
		s.Drop(forge.Ref(r.Released.Ref))
	case r.Blocked != nil:
		s.blocked(r.Blocked)
	case r.Handed != nil:
		s.handed(r.Handed)
	case r.Told != nil:
		s.chain(r.Told.Ref).Told = r.Told.Key
	case r.Steal != nil:
		s.steal(r.Steal)
	case r.Forget != nil:
		s.forget(forge.Ref(r.Forget.Ref))
	case r.Pause != nil:
		s.pause(r.At, r.Pause)
	case r.Cancel != nil:
		s.cancel(r.Cancel)
	case r.Retry != nil:
		s.retry(r.At, r.Retry)
	default:
		s.restore(r)
	}
}

func (s *State) chain(r Ref) *threads.ChainHistory { return Entry(s.Chains, forge.Ref(r)) }
func (s *State) item(k Key) *threads.ItemHistory   { return Entry(s.Items, k.Of()) }

// Entry returns the entry of a key for writing, and adds it when it is missing.
func Entry[K comparable, V any](m map[K]*V, k K) *V {
	e := m[k]
	if e == nil {
		e = new(V)
		m[k] = e
	}
	return e
}

// restore reads back what Compact wrote.
func (s *State) restore(r Record) {
	switch {
	case r.Open != nil:
		s.Open[r.Open.Run] = Open{*r.Open, r.At}
	case r.Chain != nil:
		c := s.chain(r.Chain.Ref)
		*c = r.Chain.ChainHistory
		c.Writers, c.Attempts = slices.Clone(c.Writers), slices.Clone(c.Attempts)
	case r.Item != nil:
		*s.item(r.Item.Key) = r.Item.ItemHistory
	case r.Agent != nil:
		*Entry(s.Agents, r.Agent.Name) = r.Agent.AgentHistory
	case r.Thread != nil:
		*Entry(s.Threads, r.Thread.Name) = r.Thread.ThreadHistory
	case r.Slot != nil:
		s.Slots[threads.SlotKey{Thread: r.Slot.Thread, Slot: r.Slot.Slot}] = threads.Warm{
			Agent: r.Slot.Agent, Chain: forge.Ref(r.Slot.Chain), Left: r.Slot.Left,
		}
	case r.Past != nil:
		s.bury(*r.Past)
	case r.Recent != nil:
		s.remember(*r.Recent)
	}
}

// start is a session that is about to claim its item.
func (s *State) start(at time.Time, r *Start) {
	opened := Open{*r, at}
	if r.Item.Kind != agents.KindSchedule {
		c := s.chain(r.Item.Ref)
		c.Claimed, c.Login = r.Agent, r.Login
	}
	if r.Item.Kind.Writes() && !slices.Contains(s.Chain(forge.Ref(r.Chain)).Writers, r.Agent) {
		opened.NewWriter = true
		c := s.chain(r.Chain)
		c.Writers = append(c.Writers, r.Agent)
	}
	if r.Cause == threads.CauseCI {
		s.chain(r.Item.Ref).CIFixes++
	}
	s.Open[r.Run] = opened
	it := s.item(r.Item)
	it.PassedOver, it.CoolDown = 0, time.Time{}
	if r.PassedOver != (Key{}) {
		s.item(r.PassedOver).PassedOver++
	}
}

// Drop forgets a claim, because the forge does not show it.
func (s *State) Drop(item forge.Ref) {
	c := Entry(s.Chains, item)
	c.Claimed, c.Login = "", ""
}

func (s *State) pause(at time.Time, r *Pause) {
	p := threads.Pause{Thread: r.Thread, Agent: r.Agent}
	if r.Off {
		delete(s.Paused, p)
	} else {
		s.Paused[p] = at
	}
}

func (s *State) steal(r *Steal) {
	if r.Done {
		delete(s.Steals, forge.Ref(r.Ref))
	} else {
		s.Steals[forge.Ref(r.Ref)] = *r
	}
}

func (s *State) cancel(r *Cancel) {
	for _, item := range r.Refs {
		c := s.chain(item)
		c.Cancel = !r.Done
		c.Close = c.Cancel && (c.Close || r.Close)
	}
}

// retry lets an issue and its pull requests begin anew. Its writers stay, because the pairing rule is about them.
func (s *State) retry(at time.Time, r *Retry) {
	for _, item := range r.Refs {
		s.forgive(forge.Ref(item))
		s.chain(item).Retried = at
	}
}

func (s *State) blocked(r *Blocked) {
	c := s.chain(r.Chain)
	if a := c.Attempt(r.Kind); a.Count > 0 {
		c.SetAttempt(threads.Attempt{Kind: r.Kind, Count: a.Count, Until: a.Until, Marked: true})
	}
}

func (s *State) handed(r *Handed) {
	c := s.chain(r.Ref)
	c.Refused, c.RefusedAt = "", time.Time{}
	c.Asked += r.Rounds
	if r.Fixes {
		c.CIFixes = 0
	}
}

// forget drops everything about an issue or pull request but a claim, which is released first.
func (s *State) forget(item forge.Ref) {
	c := s.Chain(item)
	if delete(s.Chains, item); c.Claimed != "" {
		s.Chains[item] = &threads.ChainHistory{Claimed: c.Claimed, Login: c.Login}
	}
	for _, k := range Keys(item) {
		delete(s.Items, k)
	}
}

// forgive drops what keeps an issue or pull request from being worked on.
func (s *State) forgive(item forge.Ref) {
	c := Entry(s.Chains, item)
	*c = threads.ChainHistory{
		Claimed: c.Claimed, Login: c.Login, Writers: c.Writers, Told: c.Told, Retried: c.Retried,
		Written: c.Written, WrittenOn: c.WrittenOn,
	}
	for _, k := range Keys(item) {
		if it := s.Items[k]; it != nil {
			it.CoolDown, it.Remarks = time.Time{}, 0
		}
	}
}

// Keys returns the keys of the pieces of work on an issue or pull request, its merge included.
func Keys(item forge.Ref) []threads.Key {
	return []threads.Key{
		{Kind: agents.KindIssue, Ref: item},
		{Kind: agents.KindReview, Ref: item},
		{Kind: agents.KindRework, Ref: item},
		(&threads.Merge{Ref: item}).Key(),
	}
}

// Remembered lists the issues and pull requests of which something but a claim is known, sorted.
func (s *State) Remembered() []forge.Ref {
	set := make(map[forge.Ref]bool)
	for r, c := range s.Chains {
		unclaimed := *c
		unclaimed.Claimed, unclaimed.Login, unclaimed.Cancel, unclaimed.Close = "", "", false, false
		if !isZero(unclaimed) {
			set[r] = true
		}
	}
	for k, it := range s.Items {
		if it.PassedOver > 0 || it.Remarks > 0 || !it.CoolDown.IsZero() {
			set[k.Ref] = true
		}
	}
	return slices.SortedFunc(maps.Keys(set), forge.Ref.Compare)
}

// Select lists the issues and pull requests whose history has a property, sorted.
func (s *State) Select(has func(*threads.ChainHistory) bool) []forge.Ref {
	var list []forge.Ref
	for r, c := range s.Chains {
		if has(c) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, forge.Ref.Compare)
	return list
}
