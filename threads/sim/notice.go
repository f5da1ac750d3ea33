package sim

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// A supervisor looks for work when a session of its own ended, when a web hook comes, at the time that the last plan
// named, and after the interval of each thread: idle_interval where nothing runs and nothing may come by itself.

// looker is a thread that looks for work again and again.
type looker struct {
	last, next time.Time
	kicked     bool // the next tick is a look of its
}

// change records a change that a policy may notice: one of its own doing, of which a supervisor knows at once.
func (tr *trial) change() {
	for i := range tr.lookers {
		tr.lookers[i].kicked = true
	}
	tr.noticed()
}

// changeOf is change for what only the loop of one thread is told of.
func (tr *trial) changeOf(thread string) {
	for i := range tr.lookers {
		if tr.real.Threads[i].Name == thread {
			tr.lookers[i].kicked = true
		}
	}
	tr.noticed()
}

// freed is changeOf for a slot that the thread's loop finds free at once.
func (tr *trial) freed(thread string) {
	for i := range tr.lookers {
		if tr.real.Threads[i].Name == thread {
			tr.lookers[i].kicked = true
		}
	}
	tr.moved = true
	tr.changes++
	if tr.Policy.Poll == 0 {
		tr.tickIn(0)
	}
}

func (tr *trial) noticed() {
	tr.moved = true
	tr.changes++
	if tr.Policy.Poll == 0 {
		tr.tickIn(tr.handover())
	}
}

// outside records a change on the forge by others. Without a web hook it is seen at the next look.
func (tr *trial) outside() {
	if tr.Model == nil || tr.Policy.Poll > 0 {
		tr.change()
		return
	}
	tr.moved = true
	tr.changes++
	d := tr.nextLook().Sub(tr.now) + tr.handover()
	if tr.hooked() {
		d = min(d, tr.hookTime())
	}
	tr.tickIn(d)
}

// hookTime is the time from a change on the forge to the decision on it, with web hooks. Where it was learnt without
// them, it is longer than half an interval for many, and says nothing.
func (tr *trial) hookTime() time.Duration {
	for i := range tr.lookers {
		tr.lookers[i].kicked = true
	}
	if list := tr.Model.delays[Notice]; len(list) > 0 && list[(len(list)-1)*9/10] < tr.interval(0)/2 {
		tr.drawn++
		return tr.Model.delay(lot{tr.Seed, uint64(tr.drawn), lotNotice}, Notice)
	}
	return tr.handover()
}

// handover is the time from a change of our own to the decision on it.
func (tr *trial) handover() time.Duration {
	if tr.Model == nil {
		return tr.Policy.Latency
	}
	tr.drawn++
	return tr.Model.delay(lot{tr.Seed, uint64(tr.drawn), lotHandover}, Handover)
}

// hooked reports whether the forge tells of changes at once.
func (tr *trial) hooked() bool {
	return tr.real.Factory.ListenHooks != "" && tr.real.Forge.WebhookSecret != ""
}

// tickIn has the next tick come no later than after a time.
func (tr *trial) tickIn(d time.Duration) {
	at := tr.now.Add(d)
	if !tr.tickAt.IsZero() && !at.Before(tr.tickAt) {
		return
	}
	tr.tickAt = at
	tr.after(d, func() {
		if tr.tickAt.Equal(tr.now) {
			tr.tickAt = time.Time{}
			tr.decide(func(threads.Start) bool { return true })
		}
	})
}

// nextLook is when a thread looks for work next if nothing happens before.
func (tr *trial) nextLook() time.Time {
	var first time.Time
	for i := range tr.lookers {
		l := &tr.lookers[i]
		every := tr.interval(i)
		if every <= 0 {
			return tr.now
		}
		at := l.next
		if !at.After(tr.now) { // it looked meanwhile, and found nothing new
			at = tr.now.Add(every - tr.now.Sub(at)%every)
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

// looked notes a tick, and whether there was work then, as the supervisor does.
func (tr *trial) looked(plan *threads.Plan) {
	tr.active = len(tr.runs)+len(plan.Starts)+len(plan.Merges)+len(plan.Marks) > 0 ||
		slices.ContainsFunc(plan.Holds, func(h *threads.Hold) bool { return h.Reason.Code.Ends() == threads.ByScan })
	for i := range tr.lookers {
		l, name := &tr.lookers[i], tr.real.Threads[i].Name
		starts := slices.ContainsFunc(plan.Starts, func(s threads.Start) bool { return s.Thread == name })
		if l.kicked || starts || !l.next.After(tr.now) {
			l.last, l.next, l.kicked = tr.now, tr.now.Add(tr.interval(i)), false
		}
	}
}
