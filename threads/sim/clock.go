package sim

import (
	"time"

	"codeberg.org/johba/disinto/threads"
)

// How far a clock was off before somebody set it right.
var clockErrors = []time.Duration{time.Minute, time.Hour, 5 * 365 * 24 * time.Hour}

// setClock sets the machine's clock right while the supervisor is down. Within one life that would change nothing, because
// its own times have a clock that nobody sets; what the journal says is from the other time.
//
// One that was ahead is found out by the newest record, which cannot be from later than now: by as much everything is moved,
// so what rests goes on where it was. That one was behind cannot be told from having been down for long: what rests has then
// rested enough, and the day's spending is of another day.
func (sh *shell) setClock(m *memory) {
	by := oneOf(sh.w, clockErrors...)
	if sh.w.chance(0.5) {
		sh.w.log("--- the clock was behind by %s", by)
		m.move(-by)
		m.turnDays(-daysBetween(sh.died, sh.died.Add(by)))
		return
	}
	sh.w.log("--- the clock was ahead by %s", by)
	by = min(by, sh.w.now.Sub(sh.died))
	m.move(by)
	m.turnDays(daysBetween(sh.died, sh.died.Add(by)))
}

func daysBetween(from, to time.Time) int64 { return to.Unix()/secondsOfDay - from.Unix()/secondsOfDay }

// move moves every time that is remembered.
func (m *memory) move(by time.Duration) {
	moved := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return t.Add(by)
	}
	for _, times := range []map[threads.Key]time.Time{m.LastRun, m.CoolDown} {
		each(times, moved)
	}
	each(m.IdleSince, moved)
	each(m.Retried, moved)
	each(m.Attempts, func(a threads.Attempts) threads.Attempts { a.Until = moved(a.Until); return a })
	each(m.Parked, func(p threads.Parked) threads.Parked { p.Until = moved(p.Until); return p })
	each(m.AgentHolds, func(h threads.AgentHold) threads.AgentHold { h.Until = moved(h.Until); return h })
}

// turnDays moves what was spent, in the scheduler's books and in ours.
func (m *memory) turnDays(by int64) {
	each(m.Spent, func(s threads.Spent) threads.Spent {
		s.Day = s.Day.Add(time.Duration(by) * secondsOfDay * time.Second)
		return s
	})
	bills := make(map[account]int64, len(m.bills))
	for a, n := range m.bills {
		a.day += by
		bills[a] = n
	}
	m.bills = bills
}

func each[K comparable, V any](all map[K]V, change func(V) V) {
	for k, v := range all {
		all[k] = change(v)
	}
}
