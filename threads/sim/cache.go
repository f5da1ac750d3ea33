package sim

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Cache holds the costs of a context on a local server. A zero field takes the value that owners of such machines
// report; owners who have measured their own set it.
type Cache struct {
	Prefill int64 // tokens read per second; 0: 400
	Base    int64 // tokens of a session's instructions, which a new context begins with; 0: 10,000
	Growth  int64 // tokens that a second of work adds; 0: 150
	Most    int64 // tokens of a full context; 0: 100,000
	Memory  int64 // tokens that the memory of a server has room for; 0: 87,000, which are 8 GiB of a large model
}

// filled returns the cache with a value for each unset field.
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

// load reads the context of a session into a slot that held another one, and returns how long that takes: no time where
// the session's own time has it already.
func (tr *trial) load(x *trialRun) time.Duration {
	tokens := tr.contextOf(x)
	tr.seen.Reloaded += tokens
	if x.how.Whole {
		return 0
	}
	takes := time.Duration(float64(tokens) / float64(tr.Cache.Prefill) * float64(time.Second))
	if tr.Model != nil {
		takes = min(takes, x.how.Took) // half of the session at most, as much as withoutReading takes off
	}
	tr.seen.Spans[x.span].Reload += takes
	return takes
}

// memory has the conversations that a server remembers, the one used last first.
type memory struct {
	room  int64
	talks []memoryTalk
}

type memoryTalk struct {
	agent  string
	issue  *trialIssue
	tokens int64
}

// use notes that a conversation is used, and reports whether the memory had it. Conversations that do not fit beside
// those used later are pushed out.
func (m *memory) use(agent string, issue *trialIssue, tokens int64) (had bool) {
	if issue == nil { // scheduled work begins a new one each time
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

// isWarm reports whether a session in a slot of its own goes on with its conversation.
func (tr *trial) isWarm(x *trialRun) bool {
	if m := tr.memories[x.Thread]; m != nil {
		return m.use(x.Agent, x.issue, tr.contextOf(x))
	}
	return tr.hold(x)
}

// hold puts a session's conversation into a slot of its server, and reports whether one had it.
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
	return slots.take(serverSlot{agent: x.Agent, chain: x.Item.Chain, by: x}, tr.now)
}

// serverSlots are the slots of a server whose memory has nothing. It knows nothing of ours: a session gets the slot
// that has its conversation, and otherwise the idle one that was used least recently.
type serverSlots []serverSlot

// serverSlot is a slot and the session that used it last; the zero value was never used.
type serverSlot struct {
	agent string
	chain forge.Ref
	by    *trialRun // nil once it has ended, which was at until
	until time.Time
}

// take gives a session a slot, and reports whether that had its conversation.
func (s serverSlots) take(is serverSlot, now time.Time) (had bool) {
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

// contextOf is the size of a session's conversation now.
func (tr *trial) contextOf(x *trialRun) int64 {
	if x.issue == nil {
		return tr.Cache.Base
	}
	return max(x.issue.context, tr.Cache.Base)
}

// grow adds the tokens that some work reads and writes to the context of the issue.
func (tr *trial) grow(x *trialRun, work time.Duration) {
	if x.issue != nil {
		added := int64(work.Seconds() * float64(tr.Cache.Growth))
		x.issue.context = min(tr.Cache.Most, tr.contextOf(x)+added)
	}
}

// A session is a sequence of turns: the model thinks, then a tool runs. A server without bound slots schedules each
// turn by itself.
const (
	turnThinks = 20 * time.Second
	turnPauses = 10 * time.Second
)

// llama is a local server whose slots are not bound to sessions. Like llama-server, it gives a turn to the slot that
// still holds the session's context if that slot is free, and otherwise to the free slot that was used longest ago.
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
	left time.Duration // of the session, this turn included
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

// pick returns a free slot for a session; -1 when all are busy.
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
	l.trial.after(takes, func() {
		s.busy, s.used = false, l.trial.now
		t.left -= turnThinks + turnPauses
		if t.left <= 0 {
			l.trial.ended(t.x)
			l.forget(t.x)
		} else {
			l.trial.after(turnPauses, func() {
				l.waiting = append(l.waiting, t)
				l.serve()
			})
		}
		l.serve()
	})
}

// forget drops the context of a session that ended. The next session on the issue begins a new conversation.
func (l *llama) forget(x *trialRun) {
	if i := slices.IndexFunc(l.slots, func(s llamaSlot) bool { return s.holds == x }); i >= 0 {
		l.slots[i].holds = nil
	}
	if m := l.trial.memories[x.Thread]; m != nil {
		m.talks = slices.DeleteFunc(m.talks, func(t memoryTalk) bool { return t.issue == x.issue })
	}
}
