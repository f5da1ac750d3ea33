package sim

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// A supervisor looks for work at the end of a session, at a web hook, at the NextWake of the last plan, and after
// each thread's interval, or idle_interval while nothing runs and nothing is expected.

// looker is a thread's loop, which looks for work at intervals.
type looker struct {
	next   time.Time
	kicked bool // the next tick counts as a look of this thread
}

// change records a change that the supervisor made itself, and so knows at once.
func (tr *trial) change() { tr.changeOf("") }

// changeOf is change for an event that only one thread's loop receives.
func (tr *trial) changeOf(thread string) {
	tr.kick(thread)
	tr.noticed(tr.handover)
}

// freed is changeOf for a slot that the loop finds free without a handover.
func (tr *trial) freed(thread string) {
	tr.kick(thread)
	tr.noticed(func() time.Duration { return 0 })
}

// kick makes the next tick count as a look of a thread, or of all without a name.
func (tr *trial) kick(thread string) {
	for i := range tr.lookers {
		if thread == "" || tr.real.Threads[i].Name == thread {
			tr.lookers[i].kicked = true
		}
	}
}

func (tr *trial) noticed(after func() time.Duration) {
	tr.moved = true
	tr.changes++
	if tr.Policy.Poll == 0 {
		tr.tickIn(after())
	}
}

// outside records a change on the forge by others. Without a web hook, the next look finds it.
func (tr *trial) outside() {
	if tr.Model == nil || tr.Policy.Poll > 0 {
		tr.change()
		return
	}
	tr.moved = true
	tr.changes++
	d := tr.nextLook().Sub(tr.Now) + tr.handover()
	if tr.hooked() {
		d = min(d, tr.hookTime())
	}
	tr.tickIn(d)
}

// hookTime is the time from a change on the forge to the decision on it, with web hooks. Learnt times are used only
// if nine of ten are below half an interval: others were learnt without web hooks.
func (tr *trial) hookTime() time.Duration {
	tr.kick("")
	if list := tr.Model.delays[Notice]; len(list) > 0 && list[(len(list)-1)*9/10] < tr.interval(0)/2 {
		tr.drawn++
		return tr.Model.delay(lot{tr.Seed, uint64(tr.drawn), lotNotice}, Notice)
	}
	return tr.handover()
}

// handover is the time from our own change to the decision on it.
func (tr *trial) handover() time.Duration {
	if tr.Model == nil {
		return tr.Policy.Latency
	}
	tr.drawn++
	return tr.Model.delay(lot{tr.Seed, uint64(tr.drawn), lotHandover}, Handover)
}

// hooked reports whether the forge sends web hooks.
func (tr *trial) hooked() bool {
	return tr.real.Factory.ListenHooks != "" && tr.real.Forge.WebhookSecret != ""
}

// tickIn makes the next tick come within a time.
func (tr *trial) tickIn(d time.Duration) {
	at := tr.Now.Add(d)
	if !tr.tickAt.IsZero() && !at.Before(tr.tickAt) {
		return
	}
	tr.tickAt = at
	tr.After(d, func() {
		if tr.tickAt.Equal(tr.Now) {
			tr.tickAt = time.Time{}
			tr.decide(func(threads.Start) bool { return true })
		}
	})
}

// nextLook returns the time of the next look by any thread if nothing happens before.
func (tr *trial) nextLook() time.Time {
	var first time.Time
	for i := range tr.lookers {
		l := &tr.lookers[i]
		every := tr.interval(i)
		if every <= 0 {
			return tr.Now
		}
		at := l.next
		if !at.After(tr.Now) { // it has looked since then, and found nothing new
			at = tr.Now.Add(every - tr.Now.Sub(at)%every)
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

func (tr *trial) interval(thread int) time.Duration {
	if tr.active {
		return tr.real.Threads[thread].Interval
	}
	return tr.real.Threads[thread].IdleInterval
}

// looked records a tick and, as the supervisor does, whether there was work.
func (tr *trial) looked(plan *threads.Plan) {
	tr.active = len(tr.runs)+len(plan.Starts)+len(plan.Merges)+len(plan.Marks) > 0 ||
		slices.ContainsFunc(plan.Holds, func(h *threads.Hold) bool { return h.Reason.Code.Ends() == threads.ByScan })
	for i := range tr.lookers {
		l, name := &tr.lookers[i], tr.real.Threads[i].Name
		starts := slices.ContainsFunc(plan.Starts, func(s threads.Start) bool { return s.Thread == name })
		if l.kicked || starts || !l.next.After(tr.Now) {
			l.next, l.kicked = tr.Now.Add(tr.interval(i)), false
		}
	}
}
