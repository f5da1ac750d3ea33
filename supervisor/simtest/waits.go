package simtest

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads/ledger"
)

// Waits returns how long each issue of a journal waited for its first session, sorted. A ready time of a whole second
// is the forge's, and counts half a second later, as in sim.Replay.
func Waits(past []ledger.Past) []time.Duration {
	first := make(map[ledger.Ref]*ledger.Past)
	for i := range past {
		s := &past[i]
		if was := first[s.Chain]; s.Kind.Writes() && (was == nil || s.Start.Before(was.Start)) {
			first[s.Chain] = s
		}
	}
	var waits []time.Duration
	for _, s := range first {
		wait := s.Start.Sub(s.Ready)
		if s.Ready.Nanosecond() == 0 {
			wait -= time.Second / 2
		}
		waits = append(waits, max(0, wait))
	}
	slices.Sort(waits)
	return waits
}
