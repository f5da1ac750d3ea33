package sim

import (
	"slices"
	"time"
)

// Cache is what a context costs a local server. Zero fields have the values that owners of such machines report; who knows
// their own measures them.
type Cache struct {
	Prefill int64 // tokens read per second; 0: 400
	Base    int64 // tokens of a session's instructions, which a new context begins with; 0: 10,000
	Growth  int64 // tokens that a second of work adds; 0: 150
	Most    int64 // tokens of a full context; 0: 100,000
}

func (c Cache) filled() Cache {
	for _, d := range []struct {
		field *int64
		unset int64
	}{{&c.Prefill, 400}, {&c.Base, 10_000}, {&c.Growth, 150}, {&c.Most, 100_000}} {
		if *d.field <= 0 {
			*d.field = d.unset
		}
	}
	return c
}

// load reads the context of a session anew into a slot that held another, and says how long that takes.
func (tr *trial) load(x *trialRun) time.Duration {
	tokens := tr.Cache.Base
	if x.issue != nil {
		x.issue.context = max(x.issue.context, tr.Cache.Base)
		tokens = x.issue.context
	}
	tr.seen.Reloaded += tokens
	takes := time.Duration(float64(tokens) / float64(tr.Cache.Prefill) * float64(time.Second))
	tr.seen.Spans[x.span].Reload += takes
	return takes
}

// grow adds what some work reads and writes.
func (tr *trial) grow(x *trialRun, work time.Duration) {
	if x.issue != nil {
		x.issue.context = min(tr.Cache.Most, max(x.issue.context, tr.Cache.Base)+int64(work.Seconds()*float64(tr.Cache.Growth)))
	}
}

// A session is turns: the model thinks, then a tool runs. A server whose slots are nobody's takes each turn for itself.
const (
	turnThinks = 20 * time.Second
	turnPauses = 10 * time.Second
)

// llama is a local server whose slots are nobody's: a turn goes to the slot that still holds its session if that is free,
// else to the one that was used longest ago, as llama-server does it.
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

// run does a session turn by turn.
func (l *llama) run(x *trialRun, takes time.Duration) {
	l.waiting = append(l.waiting, turn{x, takes})
	l.serve()
}

// serve gives free slots to the turns that wait, first come first served.
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

// pick is a free slot for a session; -1 when none is.
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

func (l *llama) think(t turn, at int) {
	s := &l.slots[at]
	takes := min(t.left, turnThinks)
	if s.holds != t.x {
		s.holds = t.x
		l.trial.seen.Switches++
		takes += l.trial.load(t.x)
	}
	l.trial.grow(t.x, min(t.left, turnThinks+turnPauses))
	s.busy = true
	l.trial.after(takes, func() {
		s.busy, s.used = false, l.trial.now
		t.left -= turnThinks + turnPauses
		if t.left <= 0 {
			l.trial.leave(t.x)
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

// forget is the end of a session: its next one begins a conversation of its own.
func (l *llama) forget(x *trialRun) {
	if i := slices.IndexFunc(l.slots, func(s llamaSlot) bool { return s.holds == x }); i >= 0 {
		l.slots[i].holds = nil
	}
}
