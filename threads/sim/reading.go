package sim

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// switched says of each session of a journal, sorted by their start, whether its server had to read its context again
// where slots are all that it has.
func switched(past []ledger.Past, config *threads.Config) []bool {
	held := make(map[string]serverSlots)
	list := make([]bool, len(past))
	for i := range past {
		s := &past[i]
		t := config.Thread(s.Thread)
		if t == nil || t.Overlap {
			continue
		}
		if held[t.Name] == nil {
			held[t.Name] = make(serverSlots, t.Slots)
		}
		list[i] = !held[t.Name].take(serverSlot{agent: s.Agent, chain: forge.Ref(s.Chain), until: s.End}, s.Start)
	}
	return list
}

// withoutReading returns how long each session of a journal, sorted by their start, took but for reading a context
// again, which a trial adds where its own slots change hands, and the cache for that trial. A session reads for half of
// its time at most: where that is too short for most, the machine reads faster than is usual.
func withoutReading(past []ledger.Past, config *threads.Config) (took []time.Duration, cache Cache) {
	cache = Cache{}.filled()
	contexts := make(map[ledger.Ref]int64)
	reads := make([]int64, len(past)) // tokens
	var speeds []int64                // tokens a second, at least
	for i, again := range switched(past, config) {
		s := &past[i]
		d := s.End.Sub(s.Start)
		took = append(took, d)
		size := max(cache.Base, contexts[s.Chain])
		if again {
			reads[i] = size
			speeds = append(speeds, int64(float64(size)/max(d/2, time.Second).Seconds()))
		}
		if s.Chain.Number != 0 {
			contexts[s.Chain] = min(cache.Most, size+int64(d.Seconds()*float64(cache.Growth)))
		}
	}
	if len(speeds) > 0 {
		slices.Sort(speeds)
		cache.Prefill = max(cache.Prefill, speeds[len(speeds)/2])
	}
	for i, tokens := range reads {
		read := time.Duration(float64(tokens) / float64(cache.Prefill) * float64(time.Second))
		took[i] -= min(read, took[i]/2)
	}
	return took, cache
}
