package supervisor

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/answers"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

const (
	// forgetRest is the time between two searches for history that can be dropped.
	forgetRest = 10 * time.Minute
	// wakeFloor is the shortest delay of a loop without a kick. A wake-up that the scheduler requests again and again
	// must not cause a storm of scans.
	wakeFloor = time.Second
)

// todo is a tick's work after the books are unlocked.
type todo struct {
	starts  []*session
	stops   []*session
	chores  []*chore
	kicks   []string       // other threads with starts: their own loops commit those
	dropped []forge.Ref    // claims in the books that are not on the forge
	gone    []forge.Ref    // items that the journal can forget
	stood   []ledger.Free  // ended times beside work
	used    []ledger.Used  // reported usage of sessions, to be journalled
	answers []answers.Line // that changed
	held    []*threads.Hold
	broken  []threads.Violation
	delay   time.Duration // until the next tick of the thread
	more    bool          // the forge has more pages to read at once
}

// tick commits one thread's starts, and all stops, merges and marks of a new plan.
func (b *books) tick(thread string, now time.Time, room *threads.Room) todo {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cfg == nil || b.closed || b.until.Err() != nil {
		return todo{delay: longRest} // a kick ends this delay
	}
	t := b.commitLocked(now, room, func(start *threads.Start) bool { return start.Thread == thread })
	t.more = b.facts.More && b.read.err == nil
	t.delay = b.delayLocked(thread, now)
	return t
}

// commit commits the start on one item, and all stops, merges and marks of a new plan.
func (b *books) commit(item forge.Ref, now time.Time, room *threads.Room) todo {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cfg == nil || b.until.Err() != nil {
		return todo{}
	}
	return b.commitLocked(now, room, func(start *threads.Start) bool { return start.Item.Ref == item })
}

// commitLocked decides, unless the newest plan still holds, and reserves everything that it returns, so that no other
// plan decides on it. It leaves other threads' starts to their own loops.
func (b *books) commitLocked(now time.Time, room *threads.Room, ours func(*threads.Start) bool) (t todo) {
	if !now.Before(b.forgetAt) {
		b.forgetAt = now.Add(forgetRest)
		t.gone = b.forgetLocked()
	}
	if on := b.basisLocked(now, room); !b.plan.holds(&on, now) {
		b.decideLocked(now, room, &t)
		for i := range b.plan.Starts {
			if start := &b.plan.Starts[i]; !ours(start) {
				t.kicks = append(t.kicks, start.Thread)
			}
		}
	}
	t.broken, t.stood = b.plan.broken, b.stood.turn(b.plan.free, now)
	t.used = b.usedLocked(now)
	for _, start := range b.plan.take(ours) {
		if b.mayProbeLocked(start.Thread, now) {
			t.starts = append(t.starts, b.reserveLocked(&start, now))
		} else {
			b.changedLocked() // the plan no longer has this start
		}
	}
	return t
}

// decideLocked makes a new plan, and begins everything of it but its starts.
func (b *books) decideLocked(now time.Time, room *threads.Room, t *todo) {
	t.dropped = b.dropClaimsLocked()
	on := b.basisLocked(now, room)
	snap := b.snapshotLocked(now, room)
	plan := b.decide(snap)
	broken := threads.Enforce(&snap, &plan)
	t.answers = b.answers.Changes(&snap, &plan)
	free, wake := threads.Beside(&snap, &plan)
	if b.meters.Free != nil {
		b.meters.Free(now, free)
	}
	t.held = b.heldLocked(plan.Holds)
	b.plan = shared{Plan: plan, free: free, broken: broken, on: on, until: plan.NextWake}
	b.plan.wake(wake)
	t.stops = b.stopLocked(plan.Stops)
	t.chores = b.choresLocked(&plan, now)
}

// heldLocked returns the items that wait for another reason than in the last plan.
func (b *books) heldLocked(holds []*threads.Hold) []*threads.Hold {
	if !b.heard() {
		return nil // comparing ten thousand items takes time
	}
	before := make(map[threads.Key]threads.Code, len(b.plan.Holds))
	for _, h := range b.plan.Holds {
		before[h.Key()] = h.Reason.Code
	}
	return slices.DeleteFunc(slices.Clone(holds), func(h *threads.Hold) bool { return before[h.Key()] == h.Reason.Code })
}

// weigh asks the hub which pinned issues change hands, and reserves those moves unless the cycle is a dry run. stuck
// reports, once, that agents are idle beside busy ones and nothing can be moved.
func (b *books) weigh(hub *fleet.Hub, c *fleet.Cycle, now time.Time, room *threads.Room) (moves []*chore, stuck bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, m := range hub.Weigh(b.snapshotLocked(now, room), c) {
		if c.DryRun {
			break
		}
		steal := stealChore(b.instance, m)
		c.Moves[i].State, c.Moves[i].Run = fleet.MovePending, steal.steal.Run
		if b.chores[steal.choreKey] == nil {
			moves = append(moves, b.choreLocked(steal, nil))
		}
	}
	return moves, hub.Note(c)
}

// delayLocked returns a thread's delay until its next tick, unless a kick comes.
func (b *books) delayLocked(name string, now time.Time) time.Duration {
	t := b.cfg.Thread(name)
	if t == nil {
		return 0
	}
	delay := t.IdleInterval
	if b.activeLocked() {
		delay = t.Interval
	}
	if wake := b.plan.NextWake; !wake.IsZero() {
		delay = min(delay, max(wake.Sub(now), wakeFloor))
	}
	return delay
}

// activeLocked reports whether there is work: something that runs, or that a next scan may start. Items that wait for
// a person or a clock do not count.
func (b *books) activeLocked() bool {
	p := &b.plan
	if len(b.ledger.Select(cancelled))+len(b.ledger.Steals)+len(b.sessions)+len(p.Starts)+len(p.Merges)+len(p.Marks) > 0 {
		return true
	}
	return slices.ContainsFunc(p.Holds, func(h *threads.Hold) bool { return h.Reason.Code.Ends() == threads.ByScan })
}

// labelBeforeRelease starts the chore that labels an item after its session has ended and before its claim is
// released; nil if no label is due.
func (b *books) labelBeforeRelease(item forge.Ref, now time.Time, room *threads.Room) *chore {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := threads.LabelBeforeRelease(b.snapshotLocked(now, room), item)
	if m == nil {
		return nil
	}
	c := &chore{choreKey: choreKey{m.Action, m.Ref, ""}, mark: *m, hold: m.Key()}
	old := b.chores[c.choreKey]
	if old != nil && (old.working || now.Before(old.retryAt)) {
		return nil
	}
	return b.choreLocked(c, old)
}
