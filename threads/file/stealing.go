package file

import "time"

// readStealing reads [stealing]. The defaults are those of the design that stealing follows. per_cycle = 0 turns it
// off.
func (d *decoder) readStealing(t *table) {
	s := &d.config.Stealing
	s.Every = t.duration("every", 5*time.Minute, time.Second)
	s.Idle = t.duration("idle", 2*time.Minute, 0)
	s.Busy = t.number("busy", 5, 0)
	s.Priority = t.class("priority", 5)
	s.AnyPriority = t.class("any_priority", 8)
	s.PerAgent = t.number("per_agent", 3, 1)
	s.PerCycle = t.number("per_cycle", 10, 0)
	t.done()
}

// class reads a priority class.
func (t *table) class(key string, unset int) int {
	n := t.number(key, unset, 1)
	t.note(key).between(1, 10)
	if n > 10 {
		t.wrong(key, "is %d, want 1 (first) to 10 (last)", n)
	}
	return n
}
