package supervisor

import (
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

const (
	// stoodMin is the shortest time beside work that is journalled: between two sessions a slot is free for a second.
	stoodMin = 30 * time.Second
	// stoodMax is the longest time in one line of the journal: what a kill takes with it is no more than that.
	stoodMax = time.Hour
)

// stood says since when each slot stands free beside work, and what keeps that work. Its zero value is an empty map
// that cannot be written to.
type stood map[threads.SlotKey]standing

type standing struct {
	code  threads.Code
	since time.Time
}

// turn takes in the slots that stand free at now, and returns the times that are over, sorted by slot.
func (s stood) turn(free []threads.FreeSlot, now time.Time) (over []ledger.Free) {
	is := make(map[threads.SlotKey]threads.Code, len(free))
	for _, f := range free {
		is[threads.SlotKey{Thread: f.Thread, Slot: f.Slot}] = f.Code
	}
	for _, k := range slices.SortedFunc(maps.Keys(s), threads.SlotKey.Compare) {
		was := s[k]
		if is[k] == was.code && now.Sub(was.since) < stoodMax {
			continue
		}
		if now.Sub(was.since) >= stoodMin {
			over = append(over, ledger.Free{Thread: k.Thread, Slot: k.Slot, Code: was.code, From: was.since, Until: now})
		}
		delete(s, k)
	}
	for k, code := range is {
		if _, known := s[k]; !known {
			s[k] = standing{code, now}
		}
	}
	return over
}

// stand is the time beside work that has not ended, sorted by slot.
func (s stood) stand(now time.Time) (list []ledger.Free) {
	for _, k := range slices.SortedFunc(maps.Keys(s), threads.SlotKey.Compare) {
		if was := s[k]; now.Sub(was.since) >= stoodMin {
			list = append(list, ledger.Free{Thread: k.Thread, Slot: k.Slot, Code: was.code, From: was.since, Until: now})
		}
	}
	return list
}
