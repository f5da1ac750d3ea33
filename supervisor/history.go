package supervisor

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// history is what the supervisor remembers: the fold of the journal's records. Its methods are pure; the time is that of
// the record, so that a replay comes to the same state. Touched is the one map that no record fills: after a restart every
// fact is newer than every write of the life before.
type history struct {
	threads.History

	steals    map[forge.Ref]stealRecord      // what is to change hands
	cancels   map[forge.Ref]bool             // what is to be labelled cancelled
	closes    map[forge.Ref]bool             // what of that is to be closed as well
	open      map[string]openSession         // sessions that began and have not ended, by run id
	logins    map[forge.Ref]string           // the account behind each claim
	failures  map[threads.AttemptKey]failure // the newest, for the comment that asks for a person
	refusedAt map[forge.Ref]time.Time
	written   map[forge.Ref]writing    // by chain: what was written in a sticky slot and has no verdict yet
	remarks   map[threads.Key]int      // sessions in a row that left words only
	downs     map[string]int           // sessions in a row that found no backend, per thread
	tallies   map[string]tally         // per agent
	recent    []control.RecentDocument // newest first
	past      []pastRecord             // of every session that ran, oldest first; see pastLimit
}

type openSession struct {
	startRecord
	at time.Time
}

type failure struct {
	at           time.Time
	reason, tail string
}

// writing is the end of a writing session in a sticky slot.
type writing struct {
	thread string
	at     time.Time
}

type tally struct{ done, failed int }

func newHistory() *history {
	return &history{
		History: threads.History{
			Attempts:   make(map[threads.AttemptKey]threads.Attempts),
			CoolDown:   make(map[threads.Key]time.Time),
			Warm:       make(map[threads.SlotKey]threads.Warm),
			Writers:    make(map[forge.Ref][]string),
			CIFixes:    make(map[forge.Ref]int),
			LastRun:    make(map[threads.Key]time.Time),
			PassedOver: make(map[threads.Key]int),
			Returns:    make(map[string]threads.Returns),
			Touched:    make(map[forge.Ref]time.Time),
			Claimed:    make(map[forge.Ref]string),
			IdleSince:  make(map[string]time.Time),
			Fruitless:  make(map[string]int),
			Parked:     make(map[string]threads.Parked),
			AgentHolds: make(map[string]threads.AgentHold),
			Refused:    make(map[forge.Ref]string),
			Retried:    make(map[forge.Ref]time.Time),
			Asked:      make(map[forge.Ref]int),
			Told:       make(map[forge.Ref]string),
			Paused:     make(map[threads.Pause]time.Time),
			Spent:      make(map[threads.Spender]threads.Spent),
		},
		steals:    make(map[forge.Ref]stealRecord),
		cancels:   make(map[forge.Ref]bool),
		closes:    make(map[forge.Ref]bool),
		open:      make(map[string]openSession),
		logins:    make(map[forge.Ref]string),
		failures:  make(map[threads.AttemptKey]failure),
		refusedAt: make(map[forge.Ref]time.Time),
		written:   make(map[forge.Ref]writing),
		remarks:   make(map[threads.Key]int),
		downs:     make(map[string]int),
		tallies:   make(map[string]tally),
	}
}

// apply makes a record true.
func (h *history) apply(r record) {
	switch {
	case r.Start != nil:
		h.start(r.At, r.Start)
	case r.End != nil:
		h.end(r.At, r.End)
	case r.Released != nil:
		delete(h.Claimed, forge.Ref(r.Released.Ref))
		delete(h.logins, forge.Ref(r.Released.Ref))
	case r.Blocked != nil:
		h.blocked(r.Blocked)
	case r.Handed != nil:
		h.handed(r.Handed)
	case r.Told != nil:
		h.Told[forge.Ref(r.Told.Ref)] = r.Told.Key
	case r.Steal != nil:
		h.steal(r.Steal)
	case r.Forget != nil:
		h.forget(forge.Ref(r.Forget.Ref))
	case r.Pause != nil:
		h.pause(r.At, r.Pause)
	case r.Cancel != nil:
		h.cancel(r.Cancel)
	case r.Retry != nil:
		h.retry(r.At, r.Retry)
	case r.Open != nil:
		h.open[r.Open.Run] = openSession{*r.Open, r.At}
	default:
		h.restore(r)
	}
}

// start is a session that is about to claim its item.
func (h *history) start(at time.Time, s *startRecord) {
	item, chain, k := forge.Ref(s.Item.Ref), forge.Ref(s.Chain), s.Item.threads()
	opened := openSession{*s, at}
	if k.Kind != agents.KindSchedule {
		h.Claimed[item], h.logins[item] = s.Agent, s.Login
	}
	if k.Kind.Writes() && !slices.Contains(h.Writers[chain], s.Agent) {
		opened.NewWriter = true
		h.Writers[chain] = append(h.Writers[chain], s.Agent)
	}
	if s.Cause == threads.CauseCI {
		h.CIFixes[item]++
	}
	h.open[s.Run] = opened
	delete(h.PassedOver, k)
	delete(h.CoolDown, k)
	if over := s.PassedOver.threads(); over != (threads.Key{}) {
		h.PassedOver[over]++
	}
}

// neverStarted takes back what start said of a session whose program then never ran.
func (h *history) neverStarted(o *openSession) {
	item, chain := forge.Ref(o.Item.Ref), forge.Ref(o.Chain)
	if o.NewWriter {
		h.Writers[chain] = slices.DeleteFunc(h.Writers[chain], func(a string) bool { return a == o.Agent })
		if len(h.Writers[chain]) == 0 {
			delete(h.Writers, chain)
		}
	}
	if o.Cause == threads.CauseCI {
		if h.CIFixes[item]--; h.CIFixes[item] <= 0 {
			delete(h.CIFixes, item)
		}
	}
}

func (h *history) pause(at time.Time, r *pauseRecord) {
	p := threads.Pause{Thread: r.Thread, Agent: r.Agent}
	if r.Off {
		delete(h.Paused, p)
	} else {
		h.Paused[p] = at
	}
}

func (h *history) steal(r *stealRecord) {
	if r.Done {
		delete(h.steals, forge.Ref(r.Ref))
	} else {
		h.steals[forge.Ref(r.Ref)] = *r
	}
}

func (h *history) cancel(r *cancelRecord) {
	for _, item := range r.Refs {
		item := forge.Ref(item)
		if r.Done {
			delete(h.cancels, item)
			delete(h.closes, item)
			continue
		}
		h.cancels[item] = true
		if r.Close {
			h.closes[item] = true
		}
	}
}

// retry lets an issue and its pull requests begin anew. Who wrote to them stays: pairing is about that.
func (h *history) retry(at time.Time, r *retryRecord) {
	for _, item := range r.Refs {
		item := forge.Ref(item)
		h.forgive(item)
		h.Retried[item] = at
	}
}

func (h *history) blocked(b *blockedRecord) {
	k := threads.AttemptKey{Chain: forge.Ref(b.Chain), Kind: b.Kind}
	if a, counted := h.Attempts[k]; counted {
		a.Marked = true
		h.Attempts[k] = a
	}
	delete(h.failures, k)
}

func (h *history) handed(r *handedRecord) {
	item := forge.Ref(r.Ref)
	delete(h.Refused, item)
	delete(h.refusedAt, item)
	if r.Rounds > 0 {
		h.Asked[item] += r.Rounds
	}
	if r.Fixes {
		delete(h.CIFixes, item)
	}
}

// forget drops everything about an issue or pull request but a claim, which is released first.
func (h *history) forget(item forge.Ref) {
	delete(h.Writers, item)
	delete(h.Retried, item)
	delete(h.Told, item)
	delete(h.written, item)
	for _, kind := range itemKinds {
		delete(h.PassedOver, threads.Key{Kind: kind, Ref: item})
	}
	h.forgive(item)
}

// itemKinds are the kinds of work on an issue or pull request.
var itemKinds = []agents.Kind{agents.KindIssue, agents.KindReview, agents.KindRework}

// forgive drops what keeps an issue or pull request from being worked on.
func (h *history) forgive(item forge.Ref) {
	delete(h.CIFixes, item)
	delete(h.Refused, item)
	delete(h.refusedAt, item)
	delete(h.Asked, item)
	delete(h.cancels, item)
	delete(h.closes, item)
	for _, kind := range itemKinds {
		delete(h.Attempts, threads.AttemptKey{Chain: item, Kind: kind})
		delete(h.failures, threads.AttemptKey{Chain: item, Kind: kind})
		delete(h.CoolDown, threads.Key{Kind: kind, Ref: item})
		delete(h.remarks, threads.Key{Kind: kind, Ref: item})
	}
	delete(h.CoolDown, (&threads.Merge{Ref: item}).Key())
}

// remembered lists the issues and pull requests that something is remembered of, sorted.
func (h *history) remembered() []forge.Ref {
	set := make(map[forge.Ref]bool)
	for r := range h.Writers {
		set[r] = true
	}
	for k := range h.Attempts {
		set[k.Chain] = true
	}
	for r := range h.CIFixes {
		set[r] = true
	}
	for r := range h.Refused {
		set[r] = true
	}
	for r := range h.Retried {
		set[r] = true
	}
	for r := range h.Asked {
		set[r] = true
	}
	for r := range h.Told {
		set[r] = true
	}
	for r := range h.written {
		set[r] = true
	}
	for _, m := range []map[threads.Key]int{h.PassedOver, h.remarks} {
		for k := range m {
			set[k.Ref] = true
		}
	}
	for k := range h.CoolDown {
		set[k.Ref] = true
	}
	return sorted(set, forge.Ref.Compare)
}

// sorted returns the keys of a map in order: nothing that comes out of a map reaches anybody unsorted.
func sorted[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
