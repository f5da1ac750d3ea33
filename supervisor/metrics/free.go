package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codeberg.org/johba/disinto/threads"
)

// free adds up the time that slots stand free beside work. What a plan says holds until the next one.
type free struct {
	mu      sync.Mutex // guards what follows
	at      time.Time  // of the newest plan
	now     []threads.FreeSlot
	seconds map[idleKey]float64
}

// idleKey names times that are added up together.
type idleKey struct {
	thread string
	code   threads.Code
}

var freeDesc = prometheus.NewDesc("disinto_slot_free_beside_work_seconds_total",
	"Time that slots stood free while an item waited that an agent of their thread could do, by what kept it.",
	[]string{"thread", "code"}, nil)

// note is called with each plan.
func (f *free) note(at time.Time, slots []threads.FreeSlot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addLocked(at)
	f.now = slots
}

// addLocked adds the time since it was called last.
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
	for k, s := range f.seconds { // the registry sorts
		to <- prometheus.MustNewConstMetric(freeDesc, prometheus.CounterValue, s, k.thread, string(k.code))
	}
}
