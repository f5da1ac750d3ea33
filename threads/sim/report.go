package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Report is the result of a trial. Times are nanoseconds in JSON.
type Report struct {
	Policy   string `json:"policy"`
	Issues   int    `json:"issues"`
	Done     int    `json:"done"`
	Lost     int    `json:"lost"`  // issues that were never done
	Twice    int    `json:"twice"` // sessions on issues that were in progress or done
	Sessions int    `json:"sessions"`
	Merged   int    `json:"merged"` // merged pull requests
	// Tokens and CostUSD sum up the usage of all sessions, as far as known.
	Tokens  int64   `json:"tokens"`
	CostUSD float64 `json:"cost_usd"`

	Makespan time.Duration `json:"makespan"` // from the start to the last done issue
	// Bound is a lower bound for every policy: after each moment, the writing agents must do everything filed from then
	// on, and an issue's sessions run one after the other.
	Bound time.Duration `json:"bound"`

	Gap  Spread        `json:"gap"`  // idle time of an agent while work waits that it could do
	Idle time.Duration `json:"idle"` // the sum of all gaps
	Wait []ClassWait   `json:"wait"` // from filing to the first session, by priority
	Turn Spread        `json:"turn"` // from filing to done
	// First is the time from filing to the first session, of all issues. An issue without a session waits to the end.
	First Spread `json:"first"`

	Moves int `json:"moves"`

	Switches int     `json:"switches"` // changes of a slot to another context
	Starved  int     `json:"starved"`  // sessions on items passed over too often to wait for warm slots
	Reloaded int64   `json:"reloaded"` // tokens read again after switches
	Used     float64 `json:"used"`     // used share of all agents' time up to the makespan
	Spans    []Span  `json:"spans"`    // every session

	gaps        []time.Duration
	turnarounds []time.Duration
	waits       map[int][]time.Duration
	bound       map[string]bool // threads whose slots are bound
}

// Spread summarises times.
type Spread struct {
	N    int           `json:"n"`
	Mean time.Duration `json:"mean"`
	P50  time.Duration `json:"p50"`
	P95  time.Duration `json:"p95"`
	P99  time.Duration `json:"p99"`
	Max  time.Duration `json:"max"`
}

// ClassWait is the waiting time of a priority class's issues.
type ClassWait struct {
	Priority int `json:"priority"`
	Spread
}

// Span is a session in a chart.
type Span struct {
	Thread string        `json:"thread"`
	Slot   int           `json:"slot"`
	Agent  string        `json:"agent"`
	Kind   string        `json:"kind"`
	Chain  int64         `json:"chain"`
	From   time.Duration `json:"from"`
	To     time.Duration `json:"to"`
	Reload time.Duration `json:"reload"` // its part that was spent on reading a context again
}

// waited records how long an issue waited for its first session.
func (tr *trial) waited(t *trialIssue, at time.Time) {
	r := &tr.seen
	if r.waits == nil {
		r.waits = make(map[int][]time.Duration)
	}
	r.waits[t.Work.Priority] = append(r.waits[t.Work.Priority], at.Sub(t.Created))
}

func (r *Report) spent(u *agents.Usage) {
	if u != nil {
		r.Tokens += u.Tokens()
		r.CostUSD += u.CostUSD
	}
}

// spread sorts times and summarises them.
func spread(d []time.Duration) Spread {
	if len(d) == 0 {
		return Spread{}
	}
	slices.Sort(d)
	var sum time.Duration
	for _, x := range d {
		sum += x
	}
	at := func(p int) time.Duration { return d[(len(d)-1)*p/100] }
	return Spread{len(d), sum / time.Duration(len(d)), at(50), at(95), at(99), d[len(d)-1]}
}

// report completes the report of a trial.
func (tr *trial) report() Report {
	r := &tr.seen
	for _, since := range slices.SortedFunc(maps.Values(tr.gaps), time.Time.Compare) {
		r.gaps = append(r.gaps, tr.Now.Sub(since))
	}
	r.Issues, r.Lost = len(tr.Load), tr.left
	r.Gap, r.Turn = spread(r.gaps), spread(r.turnarounds)
	for _, g := range r.gaps {
		r.Idle += g
	}
	first := tr.unbegun()
	for p := 1; p <= 10; p++ {
		if d := r.waits[p]; len(d) > 0 {
			r.Wait = append(r.Wait, ClassWait{p, spread(d)})
			first = append(first, d...)
		}
	}
	r.First = spread(first)
	r.Used = r.used(len(tr.Config.Agents))
	r.Bound = tr.Load.bound(tr.writers())
	return *r
}

// unbegun returns the waits of the issues without a session.
func (tr *trial) unbegun() (waits []time.Duration) {
	for _, t := range tr.issues {
		if t.begun.IsZero() && (t.drawn || len(t.Work.Sessions)+len(t.Work.Steps) > 0) {
			waits = append(waits, tr.Now.Sub(t.Created))
		}
	}
	return waits
}

// used returns the share of the agents' time in which they worked, up to the makespan or, if no issue was done, to
// the end of the last session. Sessions that continue after that, such as scheduled ones, count up to there.
func (r *Report) used(agents int) float64 {
	until := cmp.Or(r.Makespan, r.end())
	var busy time.Duration
	for i := range r.Spans {
		busy += max(0, min(r.Spans[i].To, until)-r.Spans[i].From)
	}
	all := time.Duration(agents) * until
	if all == 0 {
		return 0
	}
	return busy.Seconds() / all.Seconds()
}

// end returns the end of the last session or the makespan, whichever is later.
func (r *Report) end() time.Duration {
	end := r.Makespan
	for i := range r.Spans {
		end = max(end, r.Spans[i].To)
	}
	return end
}

// writers returns how many writing sessions can run at once.
func (tr *trial) writers() int {
	on := make(map[string]int)
	for i := range tr.Config.Agents {
		if a := &tr.Config.Agents[i]; tr.able(a, &trialIssue{}) {
			on[a.Thread]++
		}
	}
	n := 0
	for i := range tr.real.Threads {
		th := &tr.real.Threads[i]
		n += min(on[th.Name], th.MaxSessions)
	}
	return n
}

// bound returns a lower bound of the makespan for every policy with m writing sessions at once.
func (l Load) bound(m int) (lower time.Duration) {
	if m == 0 {
		return 0
	}
	var later time.Duration
	for i := len(l) - 1; i >= 0; i-- {
		w := &l[i]
		var own time.Duration
		for _, s := range w.Sessions {
			own += s
			later += s
		}
		lower = max(lower, w.At+later/time.Duration(m), w.At+own)
	}
	return lower
}
