package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads/ledger"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// collector is a collector that records the spans and headers it gets.
type collector struct {
	*httptest.Server
	mu      sync.Mutex // guards the fields below
	status  int
	headers http.Header
	spans   []map[string]any
}

func newCollector(t *testing.T) *collector {
	c := &collector{status: 200}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers = r.Header.Clone()
		if c.status >= 300 {
			w.Header().Set("Location", "http://elsewhere.example/")
			w.WriteHeader(c.status)
			return
		}
		var said struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []map[string]any }
			}
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &said)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Method != http.MethodPost {
			t.Errorf("got the request %s %s (%v)", r.Method, r.URL, err)
			return
		}
		c.spans = append(c.spans, said.ResourceSpans[0].ScopeSpans[0].Spans...)
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(c.Close)
	return c
}

func tracer(t *testing.T, vars map[string]string) *Tracer {
	t.Helper()
	tr, err := FromEnv(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
	if err != nil || tr == nil {
		t.Fatalf("FromEnv: got tracer %v, error %v", tr, err)
	}
	tr.Forge = func() string { return "http://forge" }
	tr.Problem = func(string) {}
	return tr
}

func opened(kind agents.Kind, run string, chain int64) ledger.Open {
	return ledger.Open{At: noon, Start: ledger.Start{
		Run: run, Thread: "llama", Agent: "dev-a", Role: "dev", Attempt: 1,
		Item:  ledger.Key{Kind: kind, Ref: ledger.Ref{Repo: "o/r", Number: chain}},
		Chain: ledger.Ref{Repo: "o/r", Number: chain},
	}}
}

// work reports an issue's sessions, claims and merges, with one merge refused.
func work(m supervisor.Meters) {
	for i, kind := range []agents.Kind{agents.KindIssue, agents.KindReview} {
		o := opened(kind, fmt.Sprint("run-", i), 12)
		at := noon.Add(time.Duration(i) * time.Hour)
		o.At = at
		m.Claimed(supervisor.Claim{Start: &o.Start, Began: at, Ended: at.Add(time.Second), Result: supervisor.ClaimWon})
		m.Ended(o, &ledger.End{
			Run: o.Run, Result: agents.Done, Usage: &agents.Usage{InputTokens: 7, CostUSD: 0.5}, Verdict: "approved",
		}, at.Add(time.Minute))
	}
	d := supervisor.Deed{
		Action: supervisor.ActMerge, Ref: forge.Ref{Repo: "o/r", Number: 13}, Chain: forge.Ref{Repo: "o/r", Number: 12},
		Began: noon.Add(2 * time.Hour), Ended: noon.Add(2*time.Hour + time.Second), Result: supervisor.DeedRefused,
	}
	m.Done(d)
	d.Began, d.Ended, d.Result = d.Began.Add(time.Minute), d.Ended.Add(time.Minute), supervisor.DeedDone
	m.Done(d)
	m.Done(supervisor.Deed{Action: "blocked", Ref: d.Ref})
}

// An issue is one trace: each span occurs once and has its parent, and the root covers the whole time.
func TestTrace(t *testing.T) {
	c := newCollector(t)
	tr := tracer(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL + "/", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20secret, x-b=c",
	})
	told := 0
	work(tr.Meters(supervisor.Meters{
		Claimed: func(supervisor.Claim) { told++ }, Done: func(supervisor.Deed) { told++ },
		Ended: func(ledger.Open, *ledger.End, time.Time) { told++ },
	}))
	if err := tr.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if told != 7 {
		t.Errorf("the other meters were called %d times, want 7", told)
	}
	if c.headers.Get("Authorization") != "Bearer secret" || c.headers.Get("X-B") != "c" {
		t.Errorf("got headers %v", c.headers)
	}
	ids, names := map[any]bool{}, ""
	for _, s := range c.spans {
		names += s["name"].(string) + " "
		ids[s["spanId"]] = true
	}
	if want := "claim issue claim review merge merge issue o/r#12 "; names != want || len(ids) != 7 {
		t.Errorf("got spans %s with %d ids, want %s with 7", names, len(ids), want)
	}
	root := c.spans[6]
	for _, s := range c.spans {
		if parent, has := s["parentSpanId"]; s["traceId"] != root["traceId"] || has && !ids[parent] || !has &&
			s["name"] != root["name"] {
			t.Errorf("got a span %v outside the trace or without its parent", s)
		}
	}
	if root["startTimeUnixNano"] != fmt.Sprint(noon.UnixNano()) ||
		root["endTimeUnixNano"] != c.spans[5]["endTimeUnixNano"] {
		t.Errorf("got the root %v", root)
	}
	if got := tr.Parent(forge.Ref{Repo: "o/r", Number: 12}, "run-0"); got != fmt.Sprintf("00-%s-%s-01", root["traceId"],
		c.spans[1]["spanId"]) {
		t.Errorf("got traceparent %s, want that of span %v", got, c.spans[1])
	}
}

// A program's traceparent has the standard's form. Chains, forges and scheduled runs have different traces.
func TestParent(t *testing.T) {
	tr := tracer(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"})
	form := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`)
	seen := map[string]bool{}
	for _, of := range []struct {
		forge  string
		number int64
		run    string
	}{{"http://a", 1, "r"}, {"http://b", 1, "r"}, {"http://a", 2, "r"}, {"http://a", 0, "r"}, {"http://a", 0, "s"}} {
		tr.Forge = func() string { return of.forge }
		got := tr.Parent(forge.Ref{Repo: "o/r", Number: of.number}, of.run)
		trace := strings.Split(got, "-")[1]
		if !form.MatchString(got) || seen[trace] {
			t.Errorf("%+v: got %s", of, got)
		}
		seen[trace] = true
	}
}

// While a collector does not answer, the kept spans are bounded, and they are sent later. Spans that it refuses are
// dropped.
func TestUnsent(t *testing.T) {
	c := newCollector(t)
	tr := tracer(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
	c.status = 503
	work(tr.Meters(supervisor.Meters{}))
	if err := tr.flush(t.Context()); err == nil || len(tr.pending) != 7 {
		t.Errorf("after 503: got error %v, %d spans kept, want 7", err, len(tr.pending))
	}
	c.status = 200
	if err := tr.flush(t.Context()); err != nil || len(c.spans) != 7 {
		t.Errorf("after recovery: got error %v, %d spans, want 7", err, len(c.spans))
	}
	for _, status := range []int{400, 401, 307} {
		c.status = status
		work(tr.Meters(supervisor.Meters{}))
		if err := tr.flush(t.Context()); err == nil || len(tr.pending) != 0 {
			t.Errorf("after %d: got error %v, %d spans kept, want 0", status, err, len(tr.pending))
		}
	}
	for i := range mostChains + mostSpans {
		o := opened(agents.KindIssue, "r", int64(i+1))
		tr.claimed(supervisor.Claim{Start: &o.Start, Began: noon, Ended: noon})
	}
	if len(tr.pending) > mostSpans || len(tr.began) > mostChains {
		t.Errorf("got %d spans and %d chains kept", len(tr.pending), len(tr.began))
	}
}

// An error does not contain the values, which may be secret.
func TestFromEnv(t *testing.T) {
	if tr, err := FromEnv(func(string) (string, bool) { return "", false }); tr != nil || err != nil {
		t.Errorf("without the variable: got %v, %v", tr, err)
	}
	for _, vars := range []map[string]string{
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:hush@collector:4318"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "hush"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "a=hush%0d%0ax"},
	} {
		tr, err := FromEnv(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
		if tr != nil || err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v: got %v, %v", vars, tr, err)
		}
	}
}

// A supervisor that stops sends the remaining spans, and a collector that hangs cannot keep it from stopping.
func TestSendLast(t *testing.T) {
	c := newCollector(t)
	tr := tracer(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
	work(tr.Meters(supervisor.Meters{}))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	tr.Send(ctx)
	if len(c.spans) != 7 {
		t.Errorf("got %d spans, want 7", len(c.spans))
	}
	hangs := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(hangs) })
	tr = tracer(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": silent.URL})
	work(tr.Meters(supervisor.Meters{}))
	tr.Send(ctx) // returns
}
