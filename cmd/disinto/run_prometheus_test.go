package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor/control"
)

// promtool runs Prometheus' own tool. Without it, the test is skipped.
func promtool(t *testing.T, stdin io.Reader, args ...string) {
	t.Helper()
	tool, err := process.Lookup("promtool", "", os.Environ())
	if err != nil {
		t.Skip("needs promtool, of Debian's package prometheus: ", err)
	}
	var said strings.Builder
	err = oneReaper(t).Run(t.Context(), process.Cmd{
		Argv: append([]string{tool}, args...), Env: os.Environ(), Stdin: stdin, Stdout: &said, Stderr: &said,
	})
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
}

func TestAlertRules(t *testing.T) {
	promtool(t, nil, "check", "rules", "../../docs/monitoring/alerts.yaml")
	promtool(t, nil, "test", "rules", "../../supervisor/metrics/testdata/alerts_test.yaml")
}

// scraped is a working factory and a Prometheus that scrapes it each second, on each of its addresses.
type scraped struct {
	t          *testing.T
	metrics    string // the address of listen_metrics
	prometheus string // the address of Prometheus
}

// TestPrometheus scrapes a real factory with a real Prometheus, and queries the results.
func TestPrometheus(t *testing.T) {
	leftToStorms(t, "the tests of supervisor/metrics, and TestAlertRules")
	t.Parallel()
	prometheus, err := process.Lookup("prometheus", "", os.Environ())
	if err != nil {
		t.Skip("needs Debian's package prometheus: ", err)
	}
	f := newTestForge(t)
	state, api, dir := t.TempDir(), deadAddress(t), t.TempDir()
	w := &scraped{t, deadAddress(t), deadAddress(t)}
	const token = "0123456789abcdef"
	path := f.file(state, append(f.justOne(), "[factory]", fmt.Sprintf(
		"[factory]\nlisten = %q\nlisten_token = \"$DISINTO_API_TOKEN\"\nlisten_metrics = %q", api, w.metrics))...)
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - {job_name: disinto, static_configs: [{targets: [%q]}]}
  - {job_name: disinto-by-token, authorization: {credentials: %q}, static_configs: [{targets: [%q]}]}
  - {job_name: without-token, static_configs: [{targets: [%q]}]}
`, mustAbs(t, "../../docs/monitoring/alerts.yaml"), w.metrics, token, api, api)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, os.Environ(), prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+w.prometheus, "--enable-feature=native-histograms")
	environ := f.environ(map[string]string{"FORGE_TOKEN": f.adminToken(), "DISINTO_API_TOKEN": token})
	startDisinto(t, environ, "run", "--yes", "--config", path)
	status(t, state, "sessions have ended", func(d *control.Document) bool { return len(d.Recent) >= 3 })
	eventually(t, "Prometheus has the sessions",
		func() bool { return w.value(`sum(disinto_sessions_total{job="disinto"})`) >= 3 })
	eventually(t, "also with the token",
		func() bool { return w.value(`sum(disinto_sessions_total{job="disinto-by-token"})`) >= 3 })
	for query, sane := range map[string]func(float64) bool{
		`up{job="without-token"}`:                               func(v float64) bool { return v == 0 },
		`disinto_forge_up{job="disinto"}`:                       func(v float64) bool { return v == 1 },
		`sum(disinto_slots{job="disinto"})`:                     func(v float64) bool { return v == 3 },
		`max(disinto_slots_busy{job="disinto"})`:                func(v float64) bool { return v <= 2 },
		`time()-disinto_start_timestamp_seconds{job="disinto"}`: func(v float64) bool { return v >= 0 && v < 600 },
		`process_open_fds{job="disinto"}`:                       func(v float64) bool { return v > 5 && v < 500 },
		`sum(disinto_processes_reaped_total{job="disinto"})`:    func(v float64) bool { return v >= 3 },
		`sum(disinto_claims_total{job="disinto",result="won"})`: func(v float64) bool { return v >= 3 },
		`histogram_count(disinto_claim_duration_seconds{job="disinto"})`: func(v float64) bool {
			return v >= 1
		},
		`sum(histogram_sum(disinto_session_duration_seconds{job="disinto"}))`: func(v float64) bool {
			return v > 0 &&
				v < 600
		},
		`sum(histogram_count(disinto_forge_request_duration_seconds{job="disinto",route=~".* other"})) or ` +
			`vector(0)`: func(v float64) bool {
			return v == 0
		},
		`sum(histogram_count(disinto_forge_request_duration_seconds{job="disinto"}))`: func(v float64) bool { return v > 10 },
		`sum(histogram_count(disinto_journal_sync_duration_seconds{job="disinto"}))`:  func(v float64) bool { return v > 5 },
	} {
		w.becomes(query, sane)
	}
	resp, err := http.Get("http://" + w.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	promtool(t, resp.Body, "check", "metrics")
}

// becomes waits until a query has a sane value. Each job is scraped on its own schedule, on a busy machine seconds
// apart.
func (w *scraped) becomes(query string, sane func(float64) bool) {
	w.t.Helper()
	var v float64
	defer func() {
		if w.t.Failed() {
			w.t.Logf("%s: got %v", query, v)
		}
	}()
	eventually(w.t, query+" is sane", func() bool {
		v = w.value(query)
		return sane(v)
	})
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// value returns the first value of a query; -1 while there is none.
func (w *scraped) value(query string) float64 {
	w.t.Helper()
	resp, err := http.Get("http://" + w.prometheus + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return -1 // Prometheus is starting
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
		Error string
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Error != "" {
		w.t.Errorf("%s: %v %s", query, err, answer.Error)
		return -1
	}
	if len(answer.Data.Result) == 0 {
		return -1
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		w.t.Errorf("%s: %v", query, err)
	}
	return v
}
