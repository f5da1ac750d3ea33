package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
)

// A real run sends a collector, which only secrets.env names, the spans of its sessions, claims and merges. A merged
// issue's trace has its root span.
func TestTraces(t *testing.T) {
	leftToStorms(t, "the spans of supervisor/trace")
	t.Parallel()
	var mu sync.Mutex
	names, roots, merged := map[string]int{}, map[string]bool{}, map[string]bool{} // roots and merges by trace
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var said struct {
			ResourceSpans []struct {
				ScopeSpans []struct {
					Spans []struct{ TraceID, ParentSpanID, Name string }
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&said); err != nil || r.Header.Get("X-Key") != "k" {
			t.Errorf("%s: got error %v, headers %v", r.URL, err, r.Header)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, s := range said.ResourceSpans[0].ScopeSpans[0].Spans {
			switch {
			case s.Name == "merge":
				merged[s.TraceID] = true
			case s.ParentSpanID == "" && s.Name != "schedule":
				roots[s.TraceID] = true
			}
			names[s.Name]++
		}
	}))
	t.Cleanup(collector.Close)
	f := newTestForge(t)
	state := t.TempDir()
	path := f.file(state, f.justOne()...)
	environ := f.environ(map[string]string{"FORGE_TOKEN": f.adminToken(), "OTEL_EXPORTER_OTLP_HEADERS": "x-key=k"})
	secrets := "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL + "\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "secrets.env"), []byte(secrets), 0o600); err != nil {
		t.Fatal(err)
	}
	startDisinto(t, environ, "run", "--yes", "--config", path)
	status(t, state, "sessions have ended", func(d *control.Document) bool { return len(d.Recent) >= 3 })
	eventually(t, "a merge is traced", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for id := range merged {
			if roots[id] {
				return names["issue"] > 0 && names["review"] > 0 && names["claim"] > 1
			}
		}
		return false
	})
}
