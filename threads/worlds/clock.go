package worlds

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// clockErrors are the amounts by which a clock was wrong before its correction.
var clockErrors = []time.Duration{time.Minute, time.Hour, 5 * 365 * 24 * time.Hour}

// setClock corrects the machine's clock while the supervisor is down, so all times in its journal are from the wrong
// clock. A correction while it runs has no effect, because Go's monotonic clock continues.
//
// If the clock was ahead, the newest record is later than now, and the ledger moves every time back by the
// difference. If it was behind, the supervisor seems to have been down for long: every rest is over, and usage counts
// for an earlier day.
func (sh *shell) setClock() {
	sh.w.checks.after.loseTimes(sh.w.Now)
	clear(sh.w.checks.tolls.accounts)
	by := oneOf(sh.w, clockErrors...)
	if sh.w.chance(0.5) {
		sh.w.log("--- the clock was behind by %s", by)
		sh.books.shift(-by, sh.died)
		sh.books.turnBills(daysBetween(sh.died, sh.died.Add(-by)))
		return
	}
	sh.w.log("--- the clock was ahead by %s", by)
	sh.books.shift(by, sh.died)
	sh.books.TurnBack(sh.died.Add(by), sh.w.Now)
	moved := min(by, sh.w.Now.Sub(sh.died))
	sh.books.turnBills(daysBetween(sh.died, sh.died.Add(moved)))
}

func daysBetween(from, to time.Time) int64 { return to.Unix()/secondsOfDay - from.Unix()/secondsOfDay }

// shift turns the ledger into the one that a clock with that error would have produced. died is the time of the
// newest record on the correct clock.
func (b *books) shift(by time.Duration, died time.Time) {
	for _, c := range b.Chains {
		shiftTimes(by, &c.Retried, &c.RefusedAt, &c.Written)
		for i := range c.Attempts {
			shiftTimes(by, &c.Attempts[i].Until, &c.Attempts[i].Failed)
		}
	}
	for _, it := range b.Items {
		shiftTimes(by, &it.CoolDown, &it.LastRun, &it.Asked, &it.Runs.Since, &it.FailedAt, &it.Behind)
	}
	for _, k := range b.Failing {
		shiftTimes(by, &k.Since, &k.Until)
	}
	for run, o := range b.Open {
		shiftTimes(by, &o.At, &o.Began)
		b.Open[run] = o
	}
	for _, a := range b.Authors {
		for run, at := range a.Reviews {
			a.Reviews[run] = at.Add(by)
		}
	}
	days := time.Duration(daysBetween(died, died.Add(by))) * secondsOfDay * time.Second
	for _, a := range b.Agents {
		shiftTimes(by, &a.IdleSince, &a.HeldUntil)
		shiftTimes(days, &a.Spent.Day)
	}
	for _, o := range b.Opened {
		shiftTimes(days, &o.Day)
	}
	for _, t := range b.Threads {
		shiftTimes(by, &t.ParkedUntil)
		shiftTimes(days, &t.Spent.Day)
		for i := range t.Uses {
			shiftTimes(by, &t.Uses[i].At)
		}
	}
	for _, r := range b.Repos {
		shiftTimes(days, &r.Spent.Day)
		for kind, at := range r.Turns {
			r.Turns[kind] = at.Add(by)
		}
		for agent, bar := range r.Barred {
			r.Bar(agent, bar.Until.Add(by), bar.Why)
		}
	}
	for k, w := range b.Slots {
		shiftTimes(by, &w.Left)
		b.Slots[k] = w
	}
}

// shiftTimes moves times. A zero time means "none", and stays.
func shiftTimes(by time.Duration, times ...*time.Time) {
	for _, t := range times {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
}

// turnBills moves the independent count of usage by a number of days.
func (b *books) turnBills(by int64) {
	bills := make(map[account]int64, len(b.bills))
	for a, n := range b.bills {
		a.day += by
		bills[a] = n
	}
	b.bills = bills
}

// fromTheFuture returns an error for a remembered event later than now. Such an event could keep a slot for years, or
// stop a role that runs every six hours.
func (b *books) fromTheFuture(now time.Time) error {
	var after []string
	look := func(what string, at time.Time) {
		if at.After(now) {
			after = append(after, fmt.Sprintf("%s at %s", what, at.Sub(epoch)))
		}
	}
	for ref, c := range b.Chains {
		look("retry of "+ref.String(), c.Retried)
		look("refusal of "+ref.String(), c.RefusedAt)
		look("writing on "+ref.String(), c.Written)
		for _, a := range c.Attempts {
			look(fmt.Sprint("failure ", a.Count, " of ", ref), a.Failed)
		}
	}
	for k, it := range b.Items {
		look("run of "+k.Role, it.LastRun)
	}
	for name, a := range b.Agents {
		look("end of a session of "+name, a.IdleSince)
	}
	for name, t := range b.Threads {
		for _, u := range t.Uses {
			look("use of "+name, u.At)
		}
	}
	for login, a := range b.Authors {
		for _, at := range a.Reviews {
			look("review of a pull request of "+login, at)
		}
	}
	for k, w := range b.Slots {
		look(fmt.Sprintf("end of a session in %s/%d", k.Thread, k.Slot), w.Left)
	}
	if len(after) == 0 {
		return nil
	}
	return errors.New(slices.Min(after))
}
