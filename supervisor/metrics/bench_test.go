package metrics

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// BenchmarkScrape measures a scrape of a supervisor with 10,000 open issues, after sessions of 100 agents on 20
// threads and requests on 40 routes.
func BenchmarkScrape(b *testing.B) {
	w := simtest.New(b)
	w.Forge.Latency = 0
	for i := range 10_000 {
		w.Forge.Issue(fmt.Sprint("issue ", i))
	}
	s := &supervisor.Supervisor{Forge: w.Forge.Client(), Executor: w.Exec, Config: w.Config, StateDir: w.Dir, Paused: true}
	m := newTestMetrics(s.Levels)
	s.Meters = m.Meters()
	crowd(m)
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}()
	for waiting := 0; waiting < 10_000; time.Sleep(10 * time.Millisecond) {
		waiting = 0
		for _, n := range s.Levels().Queue {
			waiting += n
		}
	}
	bytes := int64(0)
	for b.Loop() {
		answer := httptest.NewRecorder()
		m.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		bytes, _ = io.Copy(io.Discard, answer.Body)
	}
	b.ReportMetric(float64(bytes), "bytes")
}

// crowd reports the work of a large factory.
func crowd(m *Metrics) {
	meters := m.Meters()
	var slots []threads.FreeSlot
	for i := range 100 {
		o := open(agents.KindIssue, 1)
		o.Agent, o.Thread = fmt.Sprint("dev-", i), fmt.Sprint("thread-", i%20)
		for _, r := range []agents.Result{agents.Done, agents.Failed, agents.NoProgress} {
			meters.Ended(o, &ledger.End{Result: r, Usage: &agents.Usage{InputTokens: 1}}, o.At.Add(time.Duration(i)*time.Minute))
		}
		meters.Claimed(supervisor.Claim{Start: &o.Start, Began: o.At, Ended: o.At, Result: supervisor.ClaimWon})
		m.Requested(fmt.Sprint("GET /", i%40), 200, time.Duration(i)*time.Millisecond)
		slots = append(slots, threads.FreeSlot{Thread: o.Thread, Code: threads.Paused})
	}
	meters.Free(time.Now(), slots)
}
