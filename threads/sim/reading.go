package sim

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// switched reports for each session of a journal, sorted by start, whether its server had to read the context again.
// It assumes servers that keep conversations in slots only.
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
		list[i] = !held[t.Name].occupy(serverSlot{agent: s.Agent, chain: forge.Ref(s.Chain), until: s.End}, s.Start)
	}
	return list
}

// withoutReading returns the length of each session of a journal, sorted by start, without the time for reading a
// context again, and the cache for a trial of them. The trial adds that time where its own slots change hands. A
// session reads for at most half of its time: if that is too short for most sessions, the machine reads faster than
// usual.
func withoutReading(past []ledger.Past, config *threads.Config) (took []time.Duration, cache Cache) {
	cache = Cache{}.filled()
	contexts := make(map[ledger.Ref]int64)
	reads := make([]int64, len(past)) // tokens
	var speeds []int64                // least tokens per second
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
