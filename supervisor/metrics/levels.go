package metrics

import (
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
)

// level is a number that is read at each scrape.
type level struct {
	name, help string
	labels     []string
	read       func(*scrape, func(value float64, labels ...string))
}

// scrape has the numbers of one scrape.
type scrape struct {
	*Sources
	supervisor.Levels
}

// levels are all of them. Where a name ends in _total the number only grows. To add a metric, write its row.
var levels = []level{
	{
		"disinto_build_info", "The program that runs; always 1.",
		[]string{"version", "goversion"},
		func(s *scrape, say func(float64, ...string)) { say(1, s.Version, runtime.Version()) },
	},
	{
		"disinto_start_timestamp_seconds", "When the supervisor began, over all upgrades in place.", nil,
		func(s *scrape, say func(float64, ...string)) { say(float64(s.Document.StartedAt.Unix())) },
	},
	{
		"disinto_config_valid", "1 when the configuration file is valid as it is now; 0 while an older one is in force.", nil,
		func(s *scrape, say func(float64, ...string)) { say(yes(s.Document.Config.Error == "")) },
	},
	{
		"disinto_problems", "Problems that the status names.", nil,
		func(s *scrape, say func(float64, ...string)) { say(float64(len(s.Document.Problems))) },
	},
	{
		"disinto_forge_up", "1 when the last scan of the forge had no error.", nil,
		func(s *scrape, say func(float64, ...string)) { say(yes(s.Document.Forge.OK)) },
	},
	{
		"disinto_forge_last_scan_timestamp_seconds", "When the last scan of the forge without an error began.", nil,
		func(s *scrape, say func(float64, ...string)) {
			if at := s.Document.Forge.LastScan; !at.IsZero() {
				say(float64(at.Unix()))
			}
		},
	},
	{
		"disinto_queue_items", "Items that wait, by the code of the reason: see codes.md.",
		[]string{"kind", "code"},
		func(s *scrape, say func(float64, ...string)) {
			for w, n := range s.Queue {
				say(float64(n), w.Kind, string(w.Code))
			}
		},
	},
	{
		"disinto_queue_needs_person_items", "Items that wait for what only a person does.", nil,
		func(s *scrape, say func(float64, ...string)) { say(float64(s.NeedPerson)) },
	},
	{
		"disinto_slots", "Slots of a thread.",
		[]string{"thread"},
		eachThread(func(t *control.ThreadDocument) float64 { return float64(len(t.Slots)) }),
	},
	{
		"disinto_slots_busy", "Slots of a thread that have a session.", []string{"thread"}, eachThread(busy),
	},
	{
		"disinto_thread_parked", "1 while the thread starts nothing because of a usage limit or a backend that is down.",
		[]string{"thread"},
		eachThread(func(t *control.ThreadDocument) float64 { return yes(!t.ParkedUntil.IsZero()) }),
	},
	{
		"disinto_thread_paused", "1 while a person has the thread, or everything, paused.",
		[]string{"thread"},
		eachThread(func(t *control.ThreadDocument) float64 { return yes(t.Paused) }),
	},
	{
		"disinto_service_ready", "1 while the service can be used.",
		[]string{"service"},
		eachService(func(x *control.ServiceDocument) float64 { return yes(x.State == "ready") }),
	},
	{
		"disinto_service_restarts_total", "Starts of the service after its first.",
		[]string{"service"},
		eachService(func(x *control.ServiceDocument) float64 { return float64(x.Restarts) }),
	},
	{
		"disinto_shadow_decisions_total",
		"Decisions that were compared with those of the build that [factory] decide names.", nil,
		ofShadow(func(x *control.Shadow) int { return x.Decisions }),
	},
	{
		"disinto_shadow_differences_total",
		"Items about which that build decides otherwise, each pair of reasons counted once on a day.", nil,
		ofShadow(func(x *control.Shadow) int { return x.Differences }),
	},
	{
		"disinto_shadow_failures_total", "Questions that that build did not answer.", nil,
		ofShadow(func(x *control.Shadow) int { return x.Failed }),
	},
	{
		"disinto_model_fits", "1 while the newest days went as the days before them let expect.", nil,
		func(s *scrape, say func(float64, ...string)) {
			if d := s.Document.Drift; d != nil {
				say(yes(d.Fits))
			}
		},
	},
	{
		"disinto_day_wait_seconds",
		"Wait for a first session that a part of the issues of the newest whole day did not exceed, real and as predicted.",
		[]string{"quantile", "of"},
		driftWaits,
	},
	{
		"disinto_agent_state", "1 for the state that the agent is in.", []string{"agent", "thread", "state"}, agentStates,
	},
	{
		"disinto_budget_used_ratio", "Share of the day's budget that is used, where there is one.",
		[]string{"thread", "agent"},
		budgets,
	},
	{
		"disinto_cache_hit_ratio", "Share of the tokens read today (UTC) that a cache had, where programs told it.",
		[]string{"thread", "agent"},
		hits,
	},
	{
		"disinto_window_used_ratio", "Share of a window of the thread's subscription that is used.",
		[]string{"thread", "window"},
		windows,
	},
	{
		"disinto_server_tokens_per_second",
		"Speed of a slot of the thread's server in the last minutes, while it reads or writes.",
		[]string{"thread", "direction"},
		speeds,
	},
	{
		"disinto_server_requests_deferred", "Requests that wait for a slot of the thread's server.",
		[]string{"thread"},
		func(s *scrape, say func(float64, ...string)) {
			for i := range s.Document.Threads {
				if t := &s.Document.Threads[i]; t.Server != nil && t.Server.Deferred != nil {
					say(float64(*t.Server.Deferred), t.Name)
				}
			}
		},
	},
	{
		"disinto_processes_reaped_total", "Processes that this one has waited for, by who started them.",
		[]string{"origin"},
		func(s *scrape, say func(float64, ...string)) {
			started, orphans := s.Reaped()
			say(float64(started), "started")
			say(float64(orphans), "orphan")
		},
	},
}

func yes(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// driftWaits says the waits of the newest day that was judged.
func driftWaits(s *scrape, say func(float64, ...string)) {
	if s.Document.Drift == nil || len(s.Document.Drift.Days) == 0 {
		return
	}
	d := &s.Document.Drift.Days[0]
	for quantile, w := range map[string]*control.DriftWait{"0.5": &d.Half, "0.95": &d.Most} {
		say(w.Real, quantile, "real")
		say(w.Middle, quantile, "predicted")
		say(w.Low, quantile, "predicted_low")
		say(w.High, quantile, "predicted_high")
	}
}

// eachService says a number of each service.
func eachService(of func(*control.ServiceDocument) float64) func(*scrape, func(float64, ...string)) {
	return func(s *scrape, say func(float64, ...string)) {
		for i := range s.Document.Services {
			say(of(&s.Document.Services[i]), s.Document.Services[i].Name)
		}
	}
}

// ofShadow says one number of the shadow, where there is one.
func ofShadow(of func(*control.Shadow) int) func(*scrape, func(float64, ...string)) {
	return func(s *scrape, say func(float64, ...string)) {
		if x := s.Document.Shadow; x != nil {
			say(float64(of(&x.Total)))
		}
	}
}

// eachThread says one number for each thread.
func eachThread(read func(*control.ThreadDocument) float64) func(*scrape, func(float64, ...string)) {
	return func(s *scrape, say func(float64, ...string)) {
		for i := range s.Document.Threads {
			say(read(&s.Document.Threads[i]), s.Document.Threads[i].Name)
		}
	}
}

func busy(t *control.ThreadDocument) (n float64) {
	for i := range t.Slots {
		n += yes(len(t.Slots[i].Agents) > 0)
	}
	return n
}

func agentStates(s *scrape, say func(float64, ...string)) {
	for i := range s.Document.Agents {
		a := &s.Document.Agents[i]
		for _, state := range []control.AgentState{control.AgentIdle, control.AgentWorking, control.AgentHeld} {
			say(yes(a.State == state), a.Name, a.Thread, string(state))
		}
	}
}

// budgets has no agent for the budget of a thread.
func budgets(s *scrape, say func(float64, ...string)) {
	for i := range s.Document.Threads {
		if t := &s.Document.Threads[i]; budgeted(&t.Spent) {
			say(used(&t.Spent), t.Name, "")
		}
	}
	for i := range s.Document.Agents {
		if a := &s.Document.Agents[i]; budgeted(&a.Spent) {
			say(used(&a.Spent), a.Thread, a.Name)
		}
	}
}

// hits has no agent for a thread.
func hits(s *scrape, say func(float64, ...string)) {
	for i := range s.Document.Threads {
		if t := &s.Document.Threads[i]; t.Spent.CacheHit != nil {
			say(*t.Spent.CacheHit, t.Name, "")
		}
	}
	for i := range s.Document.Agents {
		if a := &s.Document.Agents[i]; a.Spent.CacheHit != nil {
			say(*a.Spent.CacheHit, a.Thread, a.Name)
		}
	}
}

func windows(s *scrape, say func(float64, ...string)) {
	for i := range s.Document.Threads {
		t := &s.Document.Threads[i]
		for j := range t.Windows {
			say(used(t.Windows[j].Spent()), t.Name, t.Windows[j].Length)
		}
	}
}

// speeds leaves out those that are unknown.
func speeds(s *scrape, say func(float64, ...string)) {
	for i := range s.Document.Threads {
		t := &s.Document.Threads[i]
		if t.Server == nil {
			continue
		}
		for direction, speed := range map[string]*float64{"read": t.Server.Now.Read, "write": t.Server.Now.Written} {
			if speed != nil {
				say(*speed, t.Name, direction)
			}
		}
	}
}

func budgeted(s *control.SpentDocument) bool { return s.TokensPerDay > 0 || s.USDPerDay > 0 }

// used is the larger share of the two budgets.
func used(s *control.SpentDocument) (share float64) {
	if s.TokensPerDay > 0 {
		share = float64(s.Tokens) / float64(s.TokensPerDay)
	}
	if s.USDPerDay > 0 {
		share = max(share, s.USD/s.USDPerDay)
	}
	return share
}

// levelCollector reads the levels at each scrape.
type levelCollector struct{ sources Sources }

// levelDescs are the descriptions of the levels, in their order.
var levelDescs = func() []*prometheus.Desc {
	var list []*prometheus.Desc
	for _, l := range levels {
		list = append(list, prometheus.NewDesc(l.name, l.help, l.labels, nil))
	}
	return list
}()

// Describe implements prometheus.Collector.
func (c *levelCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range levelDescs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *levelCollector) Collect(to chan<- prometheus.Metric) {
	now := scrape{&c.sources, c.sources.Levels()}
	for i, l := range levels {
		l.read(&now, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(levelDescs[i], kindOf(l.name), value, labels...)
		})
	}
}

// kindOf is how Prometheus treats a number of that name.
func kindOf(name string) prometheus.ValueType {
	if strings.HasSuffix(name, "_total") {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}
