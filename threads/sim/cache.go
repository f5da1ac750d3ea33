package sim

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Cache holds the costs of a context on a local server. A zero field stands for the value that owners of such
// machines report.
type Cache struct {
	Prefill int64 // tokens read per second; 0: 400
	Base    int64 // tokens of a session's instructions, the start of each context; 0: 10,000
	Growth  int64 // tokens that a second of work adds; 0: 150
	Most    int64 // tokens of a full context; 0: 100,000
	Memory  int64 // tokens that a server's memory holds; 0: 87,000, which are 8 GiB of a large model
}

// filled returns the cache with every unset field set to its default.
func (c Cache) filled() Cache {
	for _, d := range []struct {
		field *int64
		unset int64
	}{{&c.Prefill, 400}, {&c.Base, 10_000}, {&c.Growth, 150}, {&c.Most, 100_000}, {&c.Memory, 87_000}} {
		if *d.field <= 0 {
			*d.field = d.unset
		}
	}
	return c
}

// load reads a session's context into a slot that held another one, and returns how long that takes: zero if the
// session's measured time includes it.
func (tr *trial) load(x *trialRun) time.Duration {
	tokens := tr.contextOf(x)
	tr.seen.Reloaded += tokens
	if x.how.Whole {
		return 0
	}
	takes := time.Duration(float64(tokens) / float64(tr.Cache.Prefill) * float64(time.Second))
	if tr.Model != nil {
		takes = min(takes, x.how.Took) // at most half of the session: withoutReading never removes more
	}
	tr.seen.Spans[x.span].Reload += takes
	return takes
}

// memory is a server's memory of conversations, the last used first.
type memory struct {
	room  int64
	talks []memoryTalk
}

type memoryTalk struct {
	agent  string
	issue  *trialIssue
	tokens int64
}

// use records the use of a conversation, and reports whether the memory had it. Conversations that do not fit beside
// more recently used ones are dropped.
func (m *memory) use(agent string, issue *trialIssue, tokens int64) (had bool) {
	if issue == nil { // scheduled work starts a new one each time
		return false
	}
	i := slices.IndexFunc(m.talks, func(t memoryTalk) bool { return t.agent == agent && t.issue == issue })
	if had = i >= 0; had {
		m.talks = slices.Delete(m.talks, i, i+1)
	}
	m.talks = slices.Insert(m.talks, 0, memoryTalk{agent, issue, tokens})
	left := m.room
	for i, t := range m.talks {
		if left -= t.tokens; left < 0 {
			m.talks = m.talks[:i]
			break
		}
	}
	return had
}

// isWarm reports whether a session with a slot of its own finds its conversation there.
func (tr *trial) isWarm(x *trialRun) bool {
	if m := tr.memories[x.Thread]; m != nil {
		return m.use(x.Agent, x.issue, tr.contextOf(x))
	}
	return tr.hold(x)
}

// hold puts a session's conversation into a slot of its server, and reports whether the slot had it already.
func (tr *trial) hold(x *trialRun) (had bool) {
	slots := tr.held[x.Thread]
	if slots == nil {
		slots = make(serverSlots, tr.real.Thread(x.Thread).Slots)
		tr.held[x.Thread] = slots
	}
	for i := range slots {
		if o := slots[i].by; o != nil && o.over {
			slots[i].by, slots[i].until = nil, tr.origin.Add(tr.seen.Spans[o.span].To)
		}
	}
	return slots.occupy(serverSlot{agent: x.Agent, chain: x.Item.Chain, by: x}, tr.Now)
}

// serverSlots are the slots of a server without a memory of conversations. The server assigns them itself: a session
// gets the idle slot with its conversation, else the idle slot that was used least recently.
type serverSlots []serverSlot

// serverSlot is a slot and the session that used it last; the zero value was never used.
type serverSlot struct {
	agent string
	chain forge.Ref
	by    *trialRun // nil after its end, which was at until
	until time.Time
}

// occupy gives a slot to a session, and reports whether the slot had its conversation.
func (s serverSlots) occupy(is serverSlot, now time.Time) (had bool) {
	best := -1
	for i, o := range s {
		switch {
		case o.by != nil || o.until.After(now):
		case o.agent == is.agent && o.chain == is.chain:
			s[i] = is
			return true
		case best < 0 || o.until.Before(s[best].until):
			best = i
		}
	}
	if best >= 0 {
		s[best] = is
	}
	return false
}

// contextOf returns the current size of a session's conversation.
func (tr *trial) contextOf(x *trialRun) int64 {
	if x.issue == nil {
		return tr.Cache.Base
	}
	return max(x.issue.context, tr.Cache.Base)
}

// grow adds the tokens that a stretch of work reads and writes to the issue's context.
func (tr *trial) grow(x *trialRun, work time.Duration) {
	if x.issue != nil {
		added := int64(work.Seconds() * float64(tr.Cache.Growth))
		x.issue.context = min(tr.Cache.Most, tr.contextOf(x)+added)
	}
}

// A session is a sequence of turns: the model thinks, then a tool runs. A server without bound slots schedules each
// turn separately.
const (
	turnThinks = 20 * time.Second
	turnPauses = 10 * time.Second
)

// llama is a local server whose slots are not bound to sessions. Like llama-server, it gives a turn to the free slot
// with the session's context, else to the free slot that was used least recently.
type llama struct {
	trial   *trial
	slots   []llamaSlot
	waiting []turn
}

type llamaSlot struct {
	holds *trialRun
	busy  bool
	used  time.Time
}

type turn struct {
	x    *trialRun
	left time.Duration // of the session, including this turn
}

func newLlama(tr *trial, slots int) *llama { return &llama{trial: tr, slots: make([]llamaSlot, slots)} }

// run runs a session turn by turn.
func (l *llama) run(x *trialRun, takes time.Duration) {
	l.waiting = append(l.waiting, turn{x, takes})
	l.serve()
}

// serve gives free slots to the waiting turns, first come first served.
func (l *llama) serve() {
	for len(l.waiting) > 0 {
		at := l.pick(l.waiting[0].x)
		if at < 0 {
			return
		}
		t := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.think(t, at)
	}
}

// pick returns a free slot for a session, or -1 if all are busy.
func (l *llama) pick(x *trialRun) int {
	best := -1
	for i := range l.slots {
		s := &l.slots[i]
		switch {
		case s.busy:
		case s.holds == x:
			return i
		case best < 0 || s.used.Before(l.slots[best].used):
			best = i
		}
	}
	return best
}

// think runs one turn in a slot and queues the next one.
func (l *llama) think(t turn, at int) {
	s := &l.slots[at]
	takes := min(t.left, turnThinks)
	if s.holds != t.x {
		s.holds = t.x
		l.trial.seen.Switches++
		if m := l.trial.memories[t.x.Thread]; m == nil || !m.use(t.x.Agent, t.x.issue, l.trial.contextOf(t.x)) {
			takes += l.trial.load(t.x)
		}
	}
	l.trial.grow(t.x, min(t.left, turnThinks+turnPauses))
	s.busy = true
	l.trial.After(takes, func() {
		s.busy, s.used = false, l.trial.Now
		t.left -= turnThinks + turnPauses
		if t.left <= 0 {
			l.trial.ended(t.x)
			l.forget(t.x)
		} else {
			l.trial.After(turnPauses, func() {
				l.waiting = append(l.waiting, t)
				l.serve()
			})
		}
		l.serve()
	})
}

// forget drops the context of an ended session. The next session on the issue starts a new conversation.
func (l *llama) forget(x *trialRun) {
	if i := slices.IndexFunc(l.slots, func(s llamaSlot) bool { return s.holds == x }); i >= 0 {
		l.slots[i].holds = nil
	}
	if m := l.trial.memories[x.Thread]; m != nil {
		m.talks = slices.DeleteFunc(m.talks, func(t memoryTalk) bool { return t.issue == x.issue })
	}
}
