package sim

import (
	"slices"
	"time"
)

// timeline is virtual time with a queue of events. Worlds and trials run on it.
type timeline struct {
	now    time.Time
	queue  []event // latest first
	posted int     // events queued so far
}

type event struct {
	at  time.Time
	seq int
	do  func()
}

// after queues an event. Events at the same time happen in the order of their queueing.
func (l *timeline) after(d time.Duration, do func()) {
	e := event{l.now.Add(d), l.posted, do}
	l.posted++
	at, _ := slices.BinarySearchFunc(l.queue, e, func(a, b event) int {
		if c := b.at.Compare(a.at); c != 0 {
			return c
		}
		return b.seq - a.seq
	})
	l.queue = slices.Insert(l.queue, at, e)
}

// next plays the next event, and reports whether there was one.
func (l *timeline) next() bool {
	last := len(l.queue) - 1
	if last < 0 {
		return false
	}
	e := l.queue[last]
	l.queue = l.queue[:last]
	l.now = e.at
	e.do()
	return true
}
