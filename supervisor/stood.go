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
	// stoodMax is the longest time in one record. A kill loses at most that much.
	stoodMax = time.Hour
)

// stood records since when each slot stands free beside work, and which code holds that work. The zero value is a nil
// map, which cannot be written to.
type stood map[threads.SlotKey]standing

type standing struct {
	code  threads.Code
	since time.Time
}

// turn takes the slots that stand free at now, and returns the times that have ended, sorted by slot.
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

// stand returns the times beside work that have not ended, sorted by slot.
func (s stood) stand(now time.Time) (list []ledger.Free) {
	for _, k := range slices.SortedFunc(maps.Keys(s), threads.SlotKey.Compare) {
		if was := s[k]; now.Sub(was.since) >= stoodMin {
			list = append(list, ledger.Free{Thread: k.Thread, Slot: k.Slot, Code: was.code, From: was.since, Until: now})
		}
	}
	return list
}
