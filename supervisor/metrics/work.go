package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// work counts sessions, claims, chores and requests.
type work struct {
	sessions, claims, merges, reworks, chores, tokens, dollars, colds *prometheus.CounterVec
	duration, wait, request                                           *prometheus.HistogramVec
	claim, sync                                                       prometheus.Histogram
}

// The bounds of classic buckets, in seconds, for a Prometheus that does not request native histograms.
var (
	longTimes  = []float64{10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400}
	shortTimes = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15}
)

func (w *work) init(registry prometheus.Registerer) {
	in := promauto.With(registry)
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return in.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	times := func(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
		return in.NewHistogramVec(histogram(name, help, bounds), labels)
	}
	w.sessions = count("disinto_sessions_total", "Sessions that ended, by outcome.",
		"agent", "thread", "role", "kind", "outcome")
	w.duration = times("disinto_session_duration_seconds", "Time from the start of a session to its end.", longTimes,
		"thread", "role", "kind")
	w.wait = times("disinto_start_wait_seconds",
		"Time from an item's readiness to the claim of its first attempt.", longTimes, "thread", "kind")
	w.claims = count("disinto_claims_total", "Claims of sessions, by result; lost: another host was faster.",
		"result")
	for _, r := range []supervisor.ClaimResult{
		supervisor.ClaimWon, supervisor.ClaimLost, supervisor.ClaimForbidden, supervisor.ClaimUnavailable,
		supervisor.ClaimCancelled,
	} {
		w.claims.WithLabelValues(string(r)) // increase() misses the first event of a series that starts at 1
	}
	w.claim = in.NewHistogram(histogram("disinto_claim_duration_seconds", "Time that a claim took.", shortTimes))
	w.merges = count("disinto_merges_total", "Pull requests merged by the supervisor.", "repo")
	w.reworks = count("disinto_rework_rounds_total", "Sessions that reworked a pull request, by its cause.", "cause")
	w.chores = count("disinto_chores_total",
		"Changes on the forge outside a session, such as merges and labels.", "action", "result")
	w.tokens = count("disinto_tokens_total",
		"Tokens that sessions reported; cached tokens are not counted as input.",
		"agent", "thread", "type")
	w.colds = count("disinto_cold_conversations_total",
		"Sessions that continued a conversation of which their local server had cached less than half.",
		"agent", "thread")
	w.dollars = count("disinto_cost_dollars_total", "Cost that sessions reported.", "agent", "thread")
	w.request = times("disinto_forge_request_duration_seconds",
		"Time of requests to the forge; status is the class of the answer, or none.", shortTimes, "route", "status")
	w.sync = in.NewHistogram(histogram("disinto_journal_sync_duration_seconds",
		"Time to sync a write to the journal.", shortTimes))
}

// histogram returns options with classic and native buckets. Each native bucket is a tenth wider than the one before.
func histogram(name, help string, bounds []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: bounds,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}
}

func (w *work) claimed(c supervisor.Claim) {
	w.claims.WithLabelValues(string(c.Result)).Inc()
	if c.Start.Item.Kind != agents.KindSchedule { // scheduled work makes no claim
		w.claim.Observe(c.Ended.Sub(c.Began).Seconds())
	}
	first := c.Start.Attempt <= 1 && !c.Start.Ready.IsZero()
	if waited := c.Ended.Sub(c.Start.Ready); first && c.Result == supervisor.ClaimWon && waited >= 0 {
		w.wait.WithLabelValues(c.Start.Thread, string(c.Start.Item.Kind)).Observe(waited.Seconds())
	}
}

func (w *work) ended(x ledger.Open, end *ledger.End, at time.Time) {
	kind := string(x.Item.Kind)
	w.sessions.WithLabelValues(x.Agent, x.Thread, x.Role, kind, outcomeOf(end.Result)).Inc()
	if end.Result == agents.ClaimFailed {
		return
	}
	w.duration.WithLabelValues(x.Thread, x.Role, kind).Observe(max(0, at.Sub(x.At).Seconds()))
	if x.Item.Kind == agents.KindRework {
		w.reworks.WithLabelValues(causeOf(x.Cause)).Inc()
	}
	if end.Cold != "" {
		w.colds.WithLabelValues(x.Agent, x.Thread).Inc()
	}
	if end.Usage == nil {
		return
	}
	used := end.Usage.Bounded()
	for kind, n := range map[string]int64{
		"input": used.InputTokens, "cached": used.CachedTokens, "output": used.OutputTokens,
	} {
		w.tokens.WithLabelValues(x.Agent, x.Thread, kind).Add(float64(n))
	}
	w.dollars.WithLabelValues(x.Agent, x.Thread).Add(used.CostUSD)
}

const other = "other"

// outcomeOf returns the label value of a result. An executor may report others than ours.
func outcomeOf(r agents.Result) string {
	if r == agents.ClaimFailed || slices.Contains(agents.Results, r) {
		return string(r)
	}
	return other
}

// causes are the label values of the causes of rework.
var causes = map[threads.Cause]string{
	threads.CauseChanges: "changes", threads.CauseCI: "ci", threads.CauseConflict: "conflict",
}

func causeOf(c threads.Cause) string {
	if name := causes[c]; name != "" {
		return name
	}
	return other
}

func (w *work) done(d supervisor.Deed) {
	w.chores.WithLabelValues(string(d.Action), string(d.Result)).Inc()
	if d.Action == supervisor.ActMerge && d.Result == supervisor.DeedDone {
		w.merges.WithLabelValues(d.Ref.Repo).Inc()
	}
}

func (w *work) synced(took time.Duration) { w.sync.Observe(took.Seconds()) }

func (w *work) requested(route string, status int, took time.Duration) {
	class := "none"
	if status >= 100 && status < 600 {
		class = string(rune('0'+status/100)) + "xx"
	}
	w.request.WithLabelValues(route, class).Observe(took.Seconds())
}
