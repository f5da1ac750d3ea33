package supervisor

import (
	"maps"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// shared is the newest plan, of which each thread commits its own starts. It is decided again once it no longer
// holds, and not by every thread: twenty threads that each decided took five times the CPU of one. The zero value is
// no plan, and does not hold.
type shared struct {
	threads.Plan                    // without the starts that are committed
	free         []threads.FreeSlot // stay free beside work
	broken       []threads.Violation
	on           basis
	until        time.Time // time alone may change the plan, or what it asks for, from then on; zero: never
}

// basis is what a plan was decided on, beside the time. The zero value is that of no plan.
type basis struct {
	generation int64 // of the state, see state.lockToChange
	lacks      string
	outages    map[string]threads.Outage
}

func (b *basis) equal(other *basis) bool {
	return b.generation == other.generation && b.lacks == other.lacks && maps.Equal(b.outages, other.outages)
}

// holds reports whether a new decision would be the same.
func (p *shared) holds(on *basis, now time.Time) bool {
	return p.on.equal(on) && (p.until.IsZero() || now.Before(p.until))
}

// wake ends the plan at a time, unless it ends before. It ignores the zero time.
func (p *shared) wake(at time.Time) {
	if !at.IsZero() && (p.until.IsZero() || at.Before(p.until)) {
		p.until = at
	}
}

// removeStarts removes the starts of one kind from the plan, and returns them.
func (p *shared) removeStarts(ours func(*threads.Start) bool) (mine []threads.Start) {
	var left []threads.Start
	for i := range p.Starts {
		if start := &p.Starts[i]; ours(start) {
			mine = append(mine, *start)
		} else {
			left = append(left, *start)
		}
	}
	p.Starts = left
	return mine
}

// lockToChange locks the state to change something on which plans are decided, so that the next tick decides again.
// What locks mu itself reads, or changes what no plan is decided on, or calls changedLocked if it has changed
// something after all. The free room and the services are not counted, but compared: see basis.
func (st *state) lockToChange() {
	st.mu.Lock()
	st.changedLocked()
}

func (st *state) changedLocked() { st.changes++ }

// basisLocked returns what a plan would be decided on now.
func (st *state) basisLocked(now time.Time, room *threads.Room) basis {
	on := basis{generation: st.changes, lacks: st.cfg.Factory.Lacks(room)}
	if st.outages != nil {
		on.outages = st.outages(st.cfg, now)
	}
	return on
}
