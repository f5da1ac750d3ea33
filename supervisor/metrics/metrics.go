// Package metrics counts what a supervisor does, for Prometheus.
//
// A number that the supervisor keeps anyway is a row in levels.go, which is read at each scrape. What nothing keeps is
// counted in work.go and free.go, which the supervisor calls. docs/monitoring.md has the table of all, which a test
// writes.
//
// No label has a value that an agent, a forge or a stranger chooses: names are those of the configuration, and all else
// is from tables of ours. There is no label with a number of an issue.
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
	// scrapesAtOnce bounds the scrapes under way. Those of listen_metrics need no token.
	scrapesAtOnce = 4
	// sendTime bounds how long a client may take to read its answer.
	sendTime = 10 * time.Second
)

// Sources are read at each scrape. Each is required.
type Sources struct {
	Version string
	Levels  func() supervisor.Levels
	// Reaped is the number of processes reaped so far that this process started, and of orphans.
	Reaped func() (started, orphans int64)
}

// Metrics are the metrics of one supervisor. Its methods may be called by any goroutine.
type Metrics struct {
	registry *prometheus.Registry
	scrape   http.Handler
	work     work
	free     free
}

// New returns metrics that have counted nothing. sources are not called before the first scrape.
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

// Meters are for the supervisor to call.
func (m *Metrics) Meters() supervisor.Meters {
	return supervisor.Meters{
		Claimed: m.work.claimed, Ended: m.work.ended, Done: m.work.done, Free: m.free.note, Synced: m.work.synced,
	}
}

// Requested counts a request to the forge. route is one of a bounded number; status is 0 when there was no answer.
func (m *Metrics) Requested(route string, status int, took time.Duration) {
	m.work.requested(route, status, took)
}
