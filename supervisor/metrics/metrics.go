// Package metrics exports a supervisor's numbers to Prometheus.
//
// A number that the supervisor keeps anyway is a row in levels.go, read at each scrape. All others are counted in
// work.go and free.go, which the supervisor calls. docs/codes.md has the table of all metrics, which a test
// writes.
//
// No label has a value that an agent, a forge or a stranger chooses: names come from the configuration, and all other
// values from fixed tables. No label has an issue's number.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"codeberg.org/johba/disinto/supervisor"
)

const (
	// scrapesAtOnce bounds simultaneous scrapes. Those of listen_metrics need no token.
	scrapesAtOnce = 4
	// sendTime bounds the time in which a client must read its answer.
	sendTime = 10 * time.Second
)

// Sources are called at each scrape. Each is required.
type Sources struct {
	Version string
	Levels  func() supervisor.Levels
	// Reaped returns the number of processes reaped so far: those that this process started, and orphans.
	Reaped func() (started, orphans int64)
}

// Metrics are the metrics of one supervisor. Its methods may be called from any goroutine.
type Metrics struct {
	registry *prometheus.Registry
	scrape   http.Handler
	work     work
	free     free
}

// New returns metrics without counts. It does not call sources before the first scrape.
func New(sources Sources) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.work.init(m.registry)
	m.registry.MustRegister(
		&m.free, &levelCollector{sources},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.scrape = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce})
	return m
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTime))
	m.scrape.ServeHTTP(w, r)
}

// Meters returns the functions for the supervisor to call.
func (m *Metrics) Meters() supervisor.Meters {
	return supervisor.Meters{
		Claimed: m.work.claimed, Ended: m.work.ended, Done: m.work.done, Free: m.free.record, Synced: m.work.synced,
	}
}

// Requested counts a request to the forge. The number of routes must be bounded. status is 0 if there was no answer.
func (m *Metrics) Requested(route string, status int, took time.Duration) {
	m.work.requested(route, status, took)
}
