package supervisor

import (
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

const (
	// idleMin is the shortest time beside work that is journalled: between two sessions a slot is free for a second.
	idleMin = 30 * time.Second
	// idleMax is the longest time in one record. A kill loses at most that much.
	idleMax = time.Hour
)

// idleSlots records since when each slot stands free beside work, and which code holds that work. The zero value is a
// nil map, which cannot be written to.
type idleSlots map[threads.SlotKey]idleSlot

type idleSlot struct {
	code  threads.Code
	since time.Time
}

// update takes the slots that stand free at now, and returns the times that have ended, sorted by slot.
func (s idleSlots) update(free []threads.FreeSlot, now time.Time) (over []ledger.Free) {
	is := make(map[threads.SlotKey]threads.Code, len(free))
	for _, f := range free {
		is[threads.SlotKey{Thread: f.Thread, Slot: f.Slot}] = f.Code
	}
	for _, k := range slices.SortedFunc(maps.Keys(s), threads.SlotKey.Compare) {
		was := s[k]
		if is[k] == was.code && now.Sub(was.since) < idleMax {
			continue
		}
		if now.Sub(was.since) >= idleMin {
			over = append(over, ledger.Free{Thread: k.Thread, Slot: k.Slot, Code: was.code, From: was.since, Until: now})
		}
		delete(s, k)
	}
	for k, code := range is {
		if _, known := s[k]; !known {
			s[k] = idleSlot{code, now}
		}
	}
	return over
}

// open returns the times beside work that have not ended, sorted by slot.
func (s idleSlots) open(now time.Time) (list []ledger.Free) {
	for _, k := range slices.SortedFunc(maps.Keys(s), threads.SlotKey.Compare) {
		if was := s[k]; now.Sub(was.since) >= idleMin {
			list = append(list, ledger.Free{Thread: k.Thread, Slot: k.Slot, Code: was.code, From: was.since, Until: now})
		}
	}
	return list
}
