package simtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/metrics"
	"codeberg.org/johba/disinto/threads"
)

// scraped are the metrics of a night, as promtool reads them: of each series a value for each scrape.
type scraped struct {
	from time.Time

	mu     sync.Mutex // guards the field below
	series map[string][]string
}

// scrapeEvery is the time between two scrapes.
const scrapeEvery = 2 * time.Minute

var sampleLine = regexp.MustCompile(`(?m)^(disinto_[a-z_]+)(\{.*\})? (\S+)$`)

// scrape makes a life be scraped, for the metrics that rules use.
func (s *scraped) scrape(rules string) func(*Life) {
	s.from, s.series = time.Now().Add(scrapeEvery), make(map[string][]string)
	return func(l *Life) {
		m := metrics.New(metrics.Sources{
			Version: "test", Levels: func() supervisor.Levels { return l.Levels() },
			Reaped: func() (int64, int64) { return 0, 0 },
		})
		l.Meters = m.Meters()
		go func() {
			for n := 0; ; n++ {
				select {
				case <-l.w.T.Context().Done():
					return
				case <-time.After(scrapeEvery):
				}
				answer := httptest.NewRecorder()
				m.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
				s.add(n, answer.Body.String(), rules)
			}
		}()
	}
}

// add adds the n-th scrape. promtool's clock begins at 0, so times are those since the first scrape.
func (s *scraped) add(n int, text, rules string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range sampleLine.FindAllStringSubmatch(text, -1) {
		name, value := m[1], m[3]
		if !strings.Contains(rules, name) {
			continue
		}
		if strings.HasSuffix(name, "_timestamp_seconds") {
			at, _ := strconv.ParseFloat(value, 64)
			value = strconv.FormatFloat(at-float64(s.from.Unix()), 'f', -1, 64)
		}
		all := s.series[name+m[2]]
		for len(all) < n {
			all = append(all, "stale")
		}
		s.series[name+m[2]] = append(all, value)
	}
}

// test returns promtool's test of a night: how many alerts fired that a selector chooses.
func (s *scraped) test(selector string, fired int) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	scrapes := 0
	for _, all := range s.series {
		scrapes = max(scrapes, len(all))
	}
	input := []map[string]string{{"series": `up{job="disinto"}`, "values": fmt.Sprintf("1x%d", scrapes)}}
	for name, all := range s.series {
		for len(all) < scrapes {
			all = append(all, "stale")
		}
		input = append(input, map[string]string{"series": name, "values": strings.Join(all, " ")})
	}
	samples := []map[string]any{}
	if fired > 0 {
		samples = append(samples, map[string]any{"labels": "{}", "value": fired})
	}
	return map[string]any{
		"interval": scrapeEvery.String(), "input_series": input, "promql_expr_test": []map[string]any{{
			"expr":      "count(max_over_time(ALERTS{alertstate=\"firing\"," + selector + "}[24h]))",
			"eval_time": fmt.Sprint(time.Duration(scrapes) * scrapeEvery), "exp_samples": samples,
		}},
	}
}

// alertNight is a factory with a budget and with work for its first hours.
type alertNight struct {
	*World
	life *Life
	full atomic.Bool

	mu   sync.Mutex // guards the field below
	each *Script    // of all sessions on issues; nil: they do their work
}

func newAlertNight(t *testing.T, s *scraped, rules string) *alertNight {
	n := &alertNight{World: New(t)}
	n.Config.Factory.MinFreeDisk = 1 << 30
	n.Config.Threads[1].Budget = agents.Budget{USD: 20}
	n.Config.Roles = append(n.Config.Roles, agents.Role{
		Name: "gardener", On: agents.OnSchedule, Every: time.Hour, Priority: 5, Command: []string{"work"},
		Timeout: time.Hour, Stall: 15 * time.Minute,
	})
	n.Config.Agents[3].Roles = append(n.Config.Agents[3].Roles, "gardener")
	n.Exec.Script = func(job agents.Job, round int) Script {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.each != nil && job.Kind == agents.KindIssue {
			return *n.each
		}
		s := n.Work(job, round)
		s.Turn, s.Uses = time.Minute, agents.Usage{InputTokens: 1000, OutputTokens: 100, CostUSD: 0.02}
		return s
	}
	n.Forge.Edit(n.Forge.Issue("an idea"), func(is *forge.Issue) { is.Labels = nil })
	for range 3 {
		n.Forge.Issue("work")
	}
	n.life = n.Start(s.scrape(rules), func(l *Life) {
		l.Room = func(string) threads.Room {
			if n.full.Load() {
				return threads.Room{Memory: math.MaxInt64}
			}
			return threads.Room{Memory: math.MaxInt64, Disk: 2 << 30}
		}
	})
	return n
}

// sessions makes all sessions on issues end in the same way.
func (n *alertNight) sessions(s Script) { set(&n.mu, &n.each, &s) }

// alertNights are what alerts are for. Each row disturbs a factory that merges, and has the alert that must fire.
var alertNights = []struct {
	name, alert string
	lasts       time.Duration
	disturb     func(n *alertNight)
}{
	{"nothing happens", "", 8 * time.Hour, func(*alertNight) {}},
	{"a person pauses it", "", 9 * time.Hour, func(n *alertNight) { ask(n.life, "/v1/pause", `{}`) }},
	{"a person drains it", "", 9 * time.Hour, func(n *alertNight) { ask(n.life, "/v1/drain", `{}`) }},
	{"an agent fails", `alertname="DisintoAlarm",code="agent-failing"`, 2 * time.Hour, func(n *alertNight) {
		n.sessions(reports(time.Minute, agents.Failed, "exit status 127"))
	}},
	{"main is red", `alertname="DisintoAlarm",code="main-red"`, 2 * time.Hour, func(n *alertNight) {
		n.Forge.Check("ci/test")
		n.Forge.Break(1)
	}},
	{"the disk is full", `alertname="DisintoAlarm",code="no-room"`, time.Hour, func(n *alertNight) { n.full.Store(true) }},
	{"the own token", `alertname="DisintoAlarm",code="token-rejected"`, time.Hour, func(n *alertNight) {
		n.Forge.Fail(func(context.Context, string) error { return fmt.Errorf("read: %w", forge.ErrForbidden) })
	}},
	{"a twin", `alertname="DisintoAlarm",code="twin"`, 2 * time.Hour, func(n *alertNight) { n.copied().Start() }},
	{"nothing is merged", `alertname="DisintoNothingMerged"`, 8 * time.Hour, func(n *alertNight) {
		n.sessions(Script{Takes: time.Minute, Outcome: agents.Outcome{
			Result: agents.Limited, RetryAt: time.Now().Add(10 * time.Hour),
		}})
	}},
	{"too much is spent", `alertname="DisintoSpendAhead"`, 2 * time.Hour, func(n *alertNight) {
		s := n.Work(agents.Job{}, 1)
		s.Turn, s.Uses = s.Takes, agents.Usage{InputTokens: 1000, CostUSD: 6}
		n.sessions(s)
	}},
}

// The alerts of docs/monitoring fire in the nights for which they are, by the metrics of the real supervisor, and none
// fires in a night in which nothing happens, or that a person stopped.
func TestAlerts(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool, of Debian's package prometheus: ", err)
	}
	file, err := filepath.Abs("../../docs/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, night := range alertNights {
		t.Run(night.name, func(t *testing.T) {
			if Skips(night.name, "nothing happens", "a person pauses it", "a person drains it", "an agent fails",
				"main is red", "the disk is full", "a twin", "nothing is merged") {
				t.Skip("left to storms")
			}
			s := new(scraped)
			synctest.Test(t, func(t *testing.T) {
				n := newAlertNight(t, s, string(rules))
				time.Sleep(time.Hour)
				for range 3 {
					n.Forge.Issue("more work")
				}
				night.disturb(n)
				time.Sleep(night.lasts)
				n.life.Stop()
			})
			if night.alert == "" {
				promtool(t, tool, file, s.test(`alertname!=""`, 0))
			} else {
				promtool(t, tool, file, s.test(night.alert, 1))
			}
		})
	}
}

// promtool runs one of its tests.
func promtool(t *testing.T, tool, rules string, test map[string]any) {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": []any{test},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "night.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(tool, "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, said)
	}
}
