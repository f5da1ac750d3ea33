package ledger

import (
	"time"

	"codeberg.org/johba/disinto/threads"
)

// TurnBack corrects times that a clock recorded while it was ahead: a board without a battery, a host that slept, a
// wrong time zone. The newest record cannot be later than now, so every time in the state moves back by the
// difference. Otherwise a run in the year 2030 would be the last one of its role, and a rest of two minutes would
// take years. A clock that was behind does no harm: it looks like a supervisor that was down.
func (s *State) TurnBack(newest, now time.Time) {
	off := newest.Sub(now)
	if off <= 0 {
		return
	}
	for _, c := range s.Chains {
		back(off, &c.Retried, &c.RefusedAt, &c.Written)
		if c.Dialogue != nil {
			back(off, &c.Dialogue.At, &c.Dialogue.Answered)
		}
		if c.Carried != nil {
			back(off, &c.Carried.At)
		}
		if c.NoMerge != nil {
			back(off, &c.NoMerge.Until)
		}
		for i := range c.Attempts {
			back(off, &c.Attempts[i].Until, &c.Attempts[i].Failed)
		}
	}
	for _, it := range s.Items {
		back(off, &it.CoolDown, &it.LastRun, &it.Asked, &it.Runs.Since, &it.FailedAt, &it.Behind)
	}
	for run, o := range s.Open {
		back(off, &o.At, &o.Began)
		s.Open[run] = o
	}
	for name, x := range s.Services {
		back(off, &x.State.Since, &x.State.Good, &x.State.Until)
		s.Services[name] = x
	}
	for id, h := range s.Heard {
		back(off, &h.At)
		s.Heard[id] = h
	}
	days := threads.Day(newest).Sub(threads.Day(now)) // the day of the newest record is today
	for _, a := range s.Agents {
		back(off, &a.IdleSince, &a.HeldUntil)
		back(days, &a.Spent.Day)
	}
	for _, o := range s.Opened {
		back(days, &o.Day)
	}
	s.turnBackRests(off)
	for _, r := range s.Repos {
		back(days, &r.Spent.Day)
	}
	for _, t := range s.Threads {
		back(off, &t.ParkedUntil)
		back(days, &t.Spent.Day)
		for i := range t.Uses {
			back(off, &t.Uses[i].At)
		}
	}
}

// turnBackRests moves back what was counted for slots, authors, repositories and what fails.
func (s *State) turnBackRests(off time.Duration) {
	for k, w := range s.Slots {
		back(off, &w.Left)
		s.Slots[k] = w
	}
	for _, a := range s.Authors {
		for run, at := range a.Reviews {
			a.Reviews[run] = at.Add(-off)
		}
	}
	for _, r := range s.Repos {
		back(off, &r.SetupUntil)
		for kind, at := range r.Turns {
			r.Turns[kind] = at.Add(-off)
		}
		for agent, b := range r.Barred {
			r.Bar(agent, b.Until.Add(-off), b.Why)
		}
	}
	for _, k := range s.Failing {
		back(off, &k.Since, &k.Until)
	}
}

// back moves times back. A zero time means none, and stays zero.
func back(off time.Duration, times ...*time.Time) {
	for _, t := range times {
		if !t.IsZero() {
			*t = t.Add(-off)
		}
	}
}
