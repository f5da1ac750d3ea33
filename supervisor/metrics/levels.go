package metrics

import (
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
)

// level is a number read at each scrape.
type level struct {
	name, help string
	labels     []string
	read       func(*scrape, func(value float64, labels ...string))
}

// scrape has the data of one scrape.
type scrape struct {
	*Sources
	supervisor.Levels
}

// levels are all levels. A number whose name ends in _total only grows. To add a metric, add its row.
var levels = []level{
	{
		"disinto_build_info", "The program that runs; always 1.",
		[]string{"version", "goversion"},
		func(s *scrape, say func(float64, ...string)) { say(1, s.Version, runtime.Version()) },
	},
	{
		"disinto_start_timestamp_seconds", "When the supervisor started; an upgrade in place keeps it.", nil,
		func(s *scrape, say func(float64, ...string)) { say(float64(s.Document.StartedAt.Unix())) },
	},
	{
		"disinto_config_valid", "1 when the configuration file is valid; 0 while an older version is in force.", nil,
		func(s *scrape, say func(float64, ...string)) { say(yes(s.Document.Config.Error == "")) },
	},
	{
		"disinto_problems", "Problems that the status lists.", nil,
		func(s *scrape, say func(float64, ...string)) { say(float64(len(s.Document.Problems))) },
	},
	{
		"disinto_alarm", "1 while a cause lasts of which a person must know: see Alarms in operations.md.",
		[]string{"code", "about"},
		func(s *scrape, say func(float64, ...string)) {
			for i := range s.Document.Alarms {
				say(1, string(s.Document.Alarms[i].Code), s.Document.Alarms[i].About)
			}
		},
	},
	{
		"disinto_forge_up", "1 when the last scan of the forge had no error.", nil,
		func(s *scrape, say func(float64, ...string)) { say(yes(s.Document.Forge.OK)) },
	},
	{
		"disinto_forge_last_scan_timestamp_seconds", "When the last scan of the forge without an error started.", nil,
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
		"disinto_unmerged_since_timestamp_seconds", "Since when work waited or ran that needs no person, and nothing was " +
			"merged; missing without such work.", nil,
		func(s *scrape, say func(float64, ...string)) {
			if at := s.Unmerged; !at.IsZero() {
				say(float64(at.Unix()))
			}
		},
	},
	{
		"disinto_queue_needs_person_items", "Items that wait for a person.", nil,
		func(s *scrape, say func(float64, ...string)) { say(float64(s.NeedPerson)) },
	},
	{
		"disinto_slots", "Slots of a thread.",
		[]string{"thread"},
		eachThread(func(t *control.ThreadDocument) float64 { return float64(len(t.Slots)) }),
	},
	{
		"disinto_slots_busy", "Slots of a thread with a session.", []string{"thread"}, eachThread(busy),
	},
	{
		"disinto_thread_parked", "1 while the thread starts nothing because of a usage limit or a backend that is down.",
		[]string{"thread"},
		eachThread(func(t *control.ThreadDocument) float64 { return yes(!t.ParkedUntil.IsZero()) }),
	},
	{
		"disinto_thread_paused", "1 while a person has paused the thread, or everything.",
		[]string{"thread"},
		eachThread(func(t *control.ThreadDocument) float64 { return yes(t.Paused) }),
	},
	{
		"disinto_service_ready", "1 while the service can be used, or the oneshot is done.",
		[]string{"service"},
		eachService(func(x *control.ServiceDocument) float64 { return yes(x.Usable()) }),
	},
	{
		"disinto_service_restarts_total", "Starts of the service after its first.",
		[]string{"service"},
		eachService(func(x *control.ServiceDocument) float64 { return float64(x.Restarts) }),
	},
	{
		"disinto_agent_state", "1 for the agent's current state.", []string{"agent", "thread", "state"}, agentStates,
	},
	{
		"disinto_budget_used_ratio", "Used share of the day's budget, if there is one.",
		[]string{"thread", "agent"},
		budgets,
	},
	{
		"disinto_cache_hit_ratio", "Share of the tokens read today (UTC) that came from a cache, if it is known.",
		[]string{"thread", "agent"},
		hits,
	},
	{
		"disinto_window_used_ratio", "Used share of a window of the thread's subscription.",
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
		"disinto_processes_reaped_total", "Processes that this one reaped: those it started, and orphans.",
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

// eachService returns a reader of one number per service.
func eachService(of func(*control.ServiceDocument) float64) func(*scrape, func(float64, ...string)) {
	return func(s *scrape, say func(float64, ...string)) {
		for i := range s.Document.Services {
			say(of(&s.Document.Services[i]), s.Document.Services[i].Name)
		}
	}
}

// eachThread returns a reader of one number per thread.
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

// budgets reads the budgets. The agent label is empty for a thread's budget.
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

// hits reads the cache hits. The agent label is empty for a thread's.
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

// speeds reads the known speeds.
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

// used returns the larger used share of the two budgets.
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

// levelDescs has a description for each row of levels, in the same order.
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

// kindOf returns the Prometheus type of a metric by its name.
func kindOf(name string) prometheus.ValueType {
	if strings.HasSuffix(name, "_total") {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}
