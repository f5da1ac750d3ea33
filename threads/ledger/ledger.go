// Package ledger is the memory of a factory: the journal's records, their fold into a state, and the consequences of
// a session's end. It is pure, so the supervisor, which writes the records to a file, and the simulator, which does
// not, remember the same.
//
//	record.go   a line of the journal
//	events.go   the events, and how each changes State
//	outlive.go  what the next supervisor needs to continue a session
//	facts.go    the records that a compacted journal has instead of events
//	report.go   the judgement on a session whose program has ended
//	ledger.go   State, the fold of the records
//	outcome.go  the consequences of a session's end: the table of outcomes, design section 7
//	setup.go    the rest of a repository whose setup fails
//	heard.go    commands in comments: which were heard, and which are due
//	past.go     the record of a session that ended
//	days.go     the sums of days whose sessions are forgotten, and who is credited with a merge
//	work.go     the effort of sessions, which adds up
//	tally.go    the report: work by agent, by label, by cause and so on
//	receipt.go  the receipts of sessions, and the pull requests that do not show them yet
//	service.go  the services that run beside the sessions
//	timeline.go merges, slots that stood free beside work, and times in which a thread was parked
//	compact.go  State -> the shortest journal that folds into it
//	clock.go    the correction of times that a clock recorded while it was ahead
package ledger

import (
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/audit"
)

// State is the fold of the journal's records. All its times come from the records, so that a replay gives the same
// state. It is not safe for concurrent use.
type State struct {
	threads.History

	Open   map[string]Open     // sessions that started and have not ended, by run id
	Steals map[forge.Ref]Steal // issues that are about to change hands
	Recent []Recent            // newest first, at most RecentLimit
	Past   []Past              // every session that ran, oldest first, at most PastLimit
	Days   map[string]Sums     // what is left of earlier sessions and merges, by day (UTC): 2026-11-22

	Heard map[int64]Taken // commands that were taken, by comment; at most maxHeard
	Tells []SaidTell      // messages to sessions that are open, or that are still to come, oldest first

	Receipt audit.Head         // the newest receipt of a session
	Pruned  audit.Pruned       // the receipts that were removed
	Owed    map[forge.Ref]Owed // pull requests that do not show the receipts of their sessions yet, at most maxOwed

	Services map[string]Service // by name

	Timeline // merges, parks, and slots that stood free beside work
}

// Open is a session that started and has not ended.
type Open struct {
	Start
	At time.Time
}

// New returns the state before the first record.
func New() *State {
	return &State{
		History: threads.NewHistory(), Open: make(map[string]Open), Steals: make(map[forge.Ref]Steal),
		Days: make(map[string]Sums), Heard: make(map[int64]Taken), Owed: make(map[forge.Ref]Owed),
		Services: make(map[string]Service),
	}
}

// Fold returns the state after a list of records.
func Fold(records []Record) *State {
	s := New()
	for i := range records {
		s.Apply(records[i])
	}
	return s
}

// Apply applies a record to the state.
func (s *State) Apply(r Record) {
	if c := r.content(); c != nil {
		c.apply(s, r.At)
	}
}

func (s *State) chain(r Ref) *threads.ChainHistory       { return Entry(s.Chains, forge.Ref(r)) }
func (s *State) item(k threads.Key) *threads.ItemHistory { return Entry(s.Items, k) }

// Entry returns the entry of a key for writing, and creates it if it is missing.
func Entry[K comparable, V any](m map[K]*V, k K) *V {
	e := m[k]
	if e == nil {
		e = new(V)
		m[k] = e
	}
	return e
}

// reviewed counts a review of a person's pull request, and drops all reviews that no longer count.
func (s *State) reviewed(author, run string, at time.Time) {
	a := Entry(s.Authors, author)
	if a.Reviews == nil {
		a.Reviews = make(map[string]time.Time)
	}
	a.Reviews[run] = at
	s.forgetReviews(at)
}

func (s *State) forgetReviews(now time.Time) {
	for author, a := range s.Authors {
		maps.DeleteFunc(a.Reviews, func(_ string, at time.Time) bool { return now.Sub(at) >= threads.ReviewHour })
		if len(a.Reviews) == 0 {
			delete(s.Authors, author)
		}
	}
}

// Drop drops a claim that the forge does not show.
func (s *State) Drop(item forge.Ref) {
	c := Entry(s.Chains, item)
	c.Claimed, c.Login = "", ""
}

// tolled reports whether a session counts against the limits of its chain. The reviews of people's pull requests count
// for the person, and scheduled work has no chain.
func tolled(r *Start) bool { return r.Item.Kind != agents.KindSchedule && r.Author == "" }

// count adds n sessions to the toll of a chain, and to the day of the account that opened it.
func (s *State) count(r *Start, at time.Time, n int) {
	if r.Opener != "" {
		o := Entry(s.Opened, r.Opener)
		*o = o.Add(at, n)
	}
	if !tolled(r) {
		return
	}
	toll := Entry(s.Tolls, forge.Ref(r.Chain))
	toll.Sessions = max(0, toll.Sessions+n)
	if r.Cause == threads.CauseCI {
		toll.CIFixes = max(0, toll.CIFixes+n)
	}
	if *toll == (threads.Toll{}) {
		delete(s.Tolls, forge.Ref(r.Chain))
	}
}

// forgive removes every obstacle to work on an issue or pull request.
func (s *State) forgive(item forge.Ref) {
	delete(s.Tolls, item)
	c := Entry(s.Chains, item)
	d := c.Dialogue
	*c = threads.ChainHistory{
		Claimed: c.Claimed, Login: c.Login, Writers: c.Writers, LastWriter: c.LastWriter, Told: c.Told,
		Retried: c.Retried, Approved: c.Approved, Carried: c.Carried, Written: c.Written,
		WrittenOn: c.WrittenOn, Place: c.Place,
	}
	if d.Filing() { // some of its issues may be filed
		c.Dialogue = d
	}
	if code, _, _ := strings.Cut(c.Told, " "); code == string(threads.TooManyRounds) {
		c.Told = "" // the next time is news
	}
	for _, k := range Keys(item) {
		if it := s.Items[k]; it != nil {
			*it = threads.ItemHistory{LastRun: it.LastRun, PassedOver: it.PassedOver}
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

// Remembered returns the issues and pull requests with a history beyond a claim, sorted.
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
		if k.Ref.Number > 0 && (it.PassedOver+it.Remarks+it.Downs+it.Alone > 0 || !it.CoolDown.IsZero()) {
			set[k.Ref] = true
		}
	}
	return slices.SortedFunc(maps.Keys(set), forge.Ref.Compare)
}

// Select returns the issues and pull requests whose history has a property, sorted.
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
