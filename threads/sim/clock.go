package sim

import (
	"time"
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
	for _, c := range m.Chains {
		moved(by, &c.Retried)
		for i := range c.Attempts {
			moved(by, &c.Attempts[i].Until)
		}
	}
	for _, it := range m.Items {
		moved(by, &it.CoolDown, &it.LastRun)
	}
	for _, a := range m.Agents {
		moved(by, &a.IdleSince, &a.HeldUntil)
	}
	for _, t := range m.Threads {
		moved(by, &t.ParkedUntil)
	}
}

// turnDays moves what was spent, in the scheduler's books and in ours.
func (m *memory) turnDays(by int64) {
	days := time.Duration(by) * secondsOfDay * time.Second
	for _, a := range m.Agents {
		moved(days, &a.Spent.Day)
	}
	for _, t := range m.Threads {
		moved(days, &t.Spent.Day)
	}
	bills := make(map[account]int64, len(m.bills))
	for a, n := range m.bills {
		a.day += by
		bills[a] = n
	}
	m.bills = bills
}

// moved moves times that are set.
func moved(by time.Duration, times ...*time.Time) {
	for _, t := range times {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
}
