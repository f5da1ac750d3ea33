package sim

import (
	"slices"
	"time"
)

// Timeline is virtual time with a queue of events. Trials and the worlds of tests run on it. The zero value is the
// zero time without events.
type Timeline struct {
	Now    time.Time // it only advances
	queue  []event   // latest first
	posted int       // events queued so far
}

type event struct {
	at  time.Time
	seq int
	do  func()
}

// After queues an event. Events at the same time happen in the order of their queueing.
func (l *Timeline) After(d time.Duration, do func()) {
	e := event{l.Now.Add(d), l.posted, do}
	l.posted++
	at, _ := slices.BinarySearchFunc(l.queue, e, func(a, b event) int {
		if c := b.at.Compare(a.at); c != 0 {
			return c
		}
		return b.seq - a.seq
	})
	l.queue = slices.Insert(l.queue, at, e)
}

// Next plays the next event, and reports whether there was one.
func (l *Timeline) Next() bool {
	last := len(l.queue) - 1
	if last < 0 {
		return false
	}
	e := l.queue[last]
	l.queue = l.queue[:last]
	l.Now = e.at
	e.do()
	return true
}
