package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/threads"
)

// turnBack corrects what was remembered by a clock that was ahead: a board without a battery, a host that slept, a wrong time
// zone. The newest record of the journal cannot be from later than now, so by as much as it is, everything else is off as
// well. Otherwise a run in the year 2030 would be the last one of its role, and a rest of two minutes would take years. That a
// clock was behind cannot be told from a supervisor that was down, and does no harm: what rests has rested enough.
func (h *history) turnBack(newest, now time.Time) {
	off := newest.Sub(now)
	if off <= 0 {
		return
	}
	for _, times := range []map[threads.Key]time.Time{h.LastRun, h.CoolDown} {
		shift(times, off)
	}
	shift(h.IdleSince, off)
	shift(h.Retried, off)
	for k, a := range h.Attempts {
		a.Until = sooner(a.Until, off)
		h.Attempts[k] = a
	}
	for k, p := range h.Parked {
		p.Until = sooner(p.Until, off)
		h.Parked[k] = p
	}
	for k, a := range h.AgentHolds {
		a.Until = sooner(a.Until, off)
		h.AgentHolds[k] = a
	}
	for k, s := range h.Spent { // the day of the newest record was today
		s.Day = sooner(s.Day, threads.Day(newest).Sub(threads.Day(now)))
		h.Spent[k] = s
	}
}

func shift[K comparable](times map[K]time.Time, off time.Duration) {
	for k, t := range times {
		times[k] = sooner(t, off)
	}
}

// sooner leaves zero as it is, which is no time.
func sooner(t time.Time, off time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-off)
}
