// Package trace sends a supervisor's work to an OpenTelemetry collector: one trace for each chain, with a span for
// each session, claim and merge.
//
// The ids of a trace and its spans are hashes of the chain and of the run. So no ids are stored for a restart, all
// hosts of a fleet write to the same trace, and an agent's program gets the id of its span before that is sent.
//
// The package sends OTLP over HTTP as JSON, which takes one POST. The official SDK would add 8 MB to the program and
// 6 MB of memory, most of it gRPC.
package trace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
)

const (
	// sendEvery is the interval between requests to the collector.
	sendEvery = 5 * time.Second
	// sendTime bounds one request.
	sendTime = 10 * time.Second
	// lastTime bounds the last request of a supervisor that stops. Docker kills it after 10 s.
	lastTime = 500 * time.Millisecond
	// mostSpans bounds the spans that wait while the collector does not answer, at a few MB. The oldest are dropped.
	mostSpans = 4096
	// mostChains bounds the chains whose start time is kept.
	mostChains = 10_000
)

// Tracer collects spans and sends them. Its methods may be called from any goroutine.
type Tracer struct {
	// Forge returns the forge's address, which distinguishes the chains of two forges.
	Forge func() string
	// Problem is called with an error when the collector stops accepting spans, and with "" when it accepts them
	// again.
	Problem func(words string)

	collector string // the collector's address
	service   string
	headers   http.Header
	client    http.Client

	mu      sync.Mutex // guards the fields below; never held during I/O
	pending []span
	began   map[forge.Ref]time.Time // the start of each chain's first session
}

// FromEnv returns the tracer that OpenTelemetry's variables configure; nil if $OTEL_EXPORTER_OTLP_ENDPOINT is not
// set.
func FromEnv(lookupEnv func(string) (string, bool)) (*Tracer, error) {
	const variable = "OTEL_EXPORTER_OTLP_ENDPOINT"
	endpoint, _ := lookupEnv(variable)
	if endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("cannot send traces: $%s is not an address such as http://collector:4318", variable)
	}
	service, _ := lookupEnv("OTEL_SERVICE_NAME")
	said, _ := lookupEnv("OTEL_EXPORTER_OTLP_HEADERS")
	headers, err := headersOf(said)
	if err != nil {
		return nil, err
	}
	return &Tracer{
		collector: strings.TrimRight(endpoint, "/"), service: cmp.Or(service, "disinto"), headers: headers,
		client: http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		began:  make(map[forge.Ref]time.Time),
	}, nil
}

// headersOf parses name=value,name=value with percent-encoded values. Its errors do not repeat the values, which may
// be tokens.
func headersOf(said string) (http.Header, error) {
	headers := make(http.Header)
	for pair := range strings.SplitSeq(said, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || err != nil || strings.ContainsAny(value, "\r\n") {
			return nil, fmt.Errorf("cannot send traces: $OTEL_EXPORTER_OTLP_HEADERS is not name=value,name=value")
		}
		headers.Set(strings.TrimSpace(name), value)
	}
	return headers, nil
}

// Collector returns the collector's address.
func (t *Tracer) Collector() string { return t.collector }

// Parent returns a session's W3C traceparent, for the environment of its program.
func (t *Tracer) Parent(chain forge.Ref, run string) string {
	return "00-" + t.traceOf(chain, run) + "-" + idOf(spanBytes, "session", run) + "-01"
}

// The lengths of ids, in bytes.
const (
	traceBytes = 16
	spanBytes  = 8
)

// traceOf returns the id of a chain's trace. Scheduled work belongs to no issue, so each run is its own trace.
func (t *Tracer) traceOf(chain forge.Ref, run string) string {
	if chain.Number == 0 {
		return idOf(traceBytes, "run", run)
	}
	return idOf(traceBytes, "chain", t.Forge(), chain.String())
}

func idOf(size int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:size])
}

// add queues a span.
func (t *Tracer) add(s span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = append(t.pending, s)
	t.boundLocked()
}

func (t *Tracer) boundLocked() {
	if over := len(t.pending) - mostSpans; over > 0 {
		t.pending = t.pending[over:] // append copies the rest now and then, not each time
	}
}

// drain empties the queue and returns its spans.
func (t *Tracer) drain() []span {
	t.mu.Lock()
	defer t.mu.Unlock()
	spans := t.pending
	t.pending = nil
	return spans
}

// putBack puts unsent spans back into the queue.
func (t *Tracer) putBack(spans []span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = append(spans, t.pending...)
	t.boundLocked()
}

// Send sends spans until ctx is done, and then once more.
func (t *Tracer) Send(ctx context.Context) {
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
			defer cancel()
			_ = t.flush(last)
			return
		case <-tick.C:
		}
		switch err := t.flush(ctx); {
		case err != nil && !failed:
			t.Problem(err.Error())
		case err == nil && failed:
			t.Problem("")
		default:
			continue
		}
		failed = !failed
	}
}

// flush sends the queue. After an error the spans are kept if another attempt may succeed.
func (t *Tracer) flush(ctx context.Context) error {
	spans := t.drain()
	if len(spans) == 0 {
		return nil
	}
	again, err := t.post(ctx, spans)
	if again {
		t.putBack(spans)
	}
	return err
}

// post sends spans. again reports whether another attempt may succeed.
func (t *Tracer) post(ctx context.Context, spans []span) (again bool, err error) {
	body, err := json.Marshal(t.request(spans))
	if err != nil {
		return false, fmt.Errorf("internal error: cannot encode traces: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.collector+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("cannot send traces: %w", err)
	}
	req.Header = t.headers.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.client.Do(req)
	if err != nil {
		return true, fmt.Errorf("cannot send traces: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)) // lets the client reuse the connection
	if resp.StatusCode < 300 {
		return false, nil
	}
	again = resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 502 && resp.StatusCode <= 504
	return again, fmt.Errorf("cannot send traces: %s answers %d", req.URL.Host, resp.StatusCode)
}
