package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codeberg.org/johba/disinto/threads"
)

// free adds up the time that slots are free beside work. Each plan's free slots count until the next plan.
type free struct {
	mu      sync.Mutex // guards the fields below
	at      time.Time  // of the newest plan
	now     []threads.FreeSlot
	seconds map[idleKey]float64
}

// idleKey is a thread and the reason for its free slots.
type idleKey struct {
	thread string
	code   threads.Code
}

var freeDesc = prometheus.NewDesc("disinto_slot_free_beside_work_seconds_total",
	"Time that slots were free while an item waited that an agent of their thread could do, by the reason.",
	[]string{"thread", "code"}, nil)

// record records the free slots of a new plan.
func (f *free) record(at time.Time, slots []threads.FreeSlot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addLocked(at)
	f.now = slots
}

// addLocked adds the time since the last call.
func (f *free) addLocked(at time.Time) {
	if f.seconds == nil {
		f.seconds = make(map[idleKey]float64)
	}
	if passed := at.Sub(f.at).Seconds(); passed > 0 { // plans of two threads may come in the wrong order
		for _, s := range f.now {
			f.seconds[idleKey{s.Thread, s.Code}] += passed
		}
		f.at = at
	}
}

// Describe implements prometheus.Collector.
func (f *free) Describe(to chan<- *prometheus.Desc) { to <- freeDesc }

// Collect implements prometheus.Collector.
func (f *free) Collect(to chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addLocked(time.Now())
	for k, s := range f.seconds { // in any order: the registry sorts
		to <- prometheus.MustNewConstMetric(freeDesc, prometheus.CounterValue, s, k.thread, string(k.code))
	}
}
