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

// todo is a tick's work after the state is unlocked.
type todo struct {
	starts  []*session
	stops   []*session
	chores  []*chore
	kicks   []string       // other threads with starts: their own loops commit those
	dropped []forge.Ref    // claims in the state that are not on the forge
	gone    []forge.Ref    // items that the journal can forget
	idled   []ledger.Free  // ended times beside work
	used    []ledger.Used  // reported usage of sessions, to be journalled
	answers []answers.Line // that changed
	held    []*threads.Hold
	broken  []threads.Violation
	delay   time.Duration // until the next tick of the thread
	more    bool          // the forge has more pages to read at once
}

// tick commits one thread's starts, and all stops, merges and marks of a new plan.
func (st *state) tick(thread string, now time.Time, room *threads.Room) todo {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cfg == nil || st.closed || st.until.Err() != nil {
		return todo{delay: longRest} // a kick ends this delay
	}
	t := st.commitLocked(now, room, func(start *threads.Start) bool { return start.Thread == thread })
	st.checkDrainLocked()
	st.checkWorkLocked(now)
	t.more = st.facts.More && st.read.err == nil
	if of := st.cfg.Thread(thread); of != nil {
		t.delay = st.delayLocked(of, st.activeLocked(), now)
	}
	return t
}

// commit commits the start on one item, and all stops, merges and marks of a new plan.
func (st *state) commit(item forge.Ref, now time.Time, room *threads.Room) todo {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cfg == nil || st.until.Err() != nil {
		return todo{}
	}
	return st.commitLocked(now, room, func(start *threads.Start) bool { return start.Item.Ref == item })
}

// commitLocked decides, unless the newest plan still holds, and reserves everything that it returns, so that no other
// plan decides on it. It leaves other threads' starts to their own loops.
func (st *state) commitLocked(now time.Time, room *threads.Room, ours func(*threads.Start) bool) (t todo) {
	if !now.Before(st.forgetAt) {
		st.forgetAt = now.Add(forgetRest)
		t.gone = st.forgetLocked()
	}
	if on := st.basisLocked(now, room); !st.plan.holds(&on, now) {
		st.decideLocked(now, room, &t)
		for i := range st.plan.Starts {
			if start := &st.plan.Starts[i]; !ours(start) {
				t.kicks = append(t.kicks, start.Thread)
			}
		}
	}
	t.broken, t.idled = st.plan.broken, st.idle.update(st.plan.free, now)
	t.used = st.usedLocked(now)
	for _, start := range st.plan.removeStarts(ours) {
		if st.mayProbeLocked(start.Thread, now) {
			t.starts = append(t.starts, st.reserveLocked(&start, now))
		} else {
			st.changedLocked() // the plan no longer has this start
		}
	}
	return t
}

// decideLocked makes a new plan, and begins everything of it but its starts.
func (st *state) decideLocked(now time.Time, room *threads.Room, t *todo) {
	t.dropped = st.dropClaimsLocked()
	on := st.basisLocked(now, room)
	snap := st.snapshotLocked(now, room)
	plan := st.decide(snap)
	broken := threads.Enforce(&snap, &plan)
	t.answers = st.answers.Changes(&snap, &plan)
	free, wake := threads.Beside(&snap, &plan)
	if st.meters.Free != nil {
		st.meters.Free(now, free)
	}
	t.held = st.heldLocked(plan.Holds)
	st.known.remember(&plan, now)
	st.plan = shared{Plan: plan, free: free, broken: broken, on: on, until: plan.NextWake}
	st.plan.wake(wake)
	t.stops = st.stopLocked(plan.Stops)
	t.chores = st.choresLocked(&plan, now)
}

// presentLocked returns the plan as of now, for status: why explains each item as of now, too, so that the two agree.
// Where the newest plan does not hold, it decides without acting. The loops of the threads act on their own plans.
func (st *state) presentLocked(now time.Time, room *threads.Room) *threads.Plan {
	if st.cfg == nil {
		return &st.plan.Plan
	}
	on := st.basisLocked(now, room)
	if st.plan.holds(&on, now) {
		return &st.plan.Plan
	}
	if !st.seen.holds(&on, now) {
		plan := st.decide(st.snapshotLocked(now, room))
		st.seen = shared{Plan: plan, on: on, until: plan.NextWake}
	}
	return &st.seen.Plan
}

// heldLocked returns the items that wait for another reason than in the last plan.
func (st *state) heldLocked(holds []*threads.Hold) []*threads.Hold {
	if !st.heard() {
		return nil // comparing ten thousand items takes time
	}
	before := make(map[threads.Key]threads.Code, len(st.plan.Holds))
	for _, h := range st.plan.Holds {
		before[h.Key()] = h.Reason.Code
	}
	return slices.DeleteFunc(slices.Clone(holds), func(h *threads.Hold) bool { return before[h.Key()] == h.Reason.Code })
}

// weigh asks the hub which pinned issues change hands, and reserves those moves unless the cycle is a dry run. stuck
// reports, once, that agents are idle beside busy ones and nothing can be moved.
func (st *state) weigh(hub *fleet.Hub, c *fleet.Cycle, now time.Time, room *threads.Room) (moves []*chore, stuck bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i, m := range hub.Weigh(st.snapshotLocked(now, room), c) {
		if c.DryRun {
			break
		}
		steal := stealChore(st.instance, m)
		c.Moves[i].State, c.Moves[i].Run = fleet.MovePending, steal.steal.Run
		if st.chores[steal.choreKey] == nil {
			moves = append(moves, st.choreLocked(steal, nil))
		}
	}
	return moves, hub.RecordCycle(c)
}

// delayLocked returns a thread's delay until its next tick, unless a kick comes. active is activeLocked's answer.
func (st *state) delayLocked(t *threads.Thread, active bool, now time.Time) time.Duration {
	delay := t.IdleInterval
	if active {
		delay = t.Interval
	}
	if wake := st.plan.NextWake; !wake.IsZero() {
		delay = min(delay, max(wake.Sub(now), wakeFloor))
	}
	return delay
}

// activeLocked reports whether there is work: something that runs, or that a next scan may start. Items that wait for
// a person or a clock do not count.
func (st *state) activeLocked() bool {
	p := &st.plan
	planned := len(p.Starts) + len(p.Merges) + len(p.Marks)
	if len(st.ledger.Select(cancelled))+len(st.ledger.Steals)+len(st.sessions)+planned > 0 {
		return true
	}
	return slices.ContainsFunc(p.Holds, func(h *threads.Hold) bool { return h.Reason.Code.Ends() == threads.ByScan })
}

// labelBeforeRelease starts the chore that labels an item after its session has ended and before its claim is
// released; nil if no label is due.
func (st *state) labelBeforeRelease(item forge.Ref, now time.Time, room *threads.Room) *chore {
	st.mu.Lock()
	defer st.mu.Unlock()
	m := threads.LabelBeforeRelease(st.snapshotLocked(now, room), item)
	if m == nil {
		return nil
	}
	c := &chore{choreKey: choreKey{m.Action, m.Ref, ""}, mark: *m, hold: m.Key()}
	old := st.chores[c.choreKey]
	if old != nil && (old.working || now.Before(old.retryAt)) {
		return nil
	}
	return st.choreLocked(c, old)
}
