package sim

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// bounded returns the length of a session, which an outage or its role's timeout may cut short.
func (tr *trial) bounded(x *trialRun) time.Duration {
	takes := x.how.Took
	if x.cut = tr.fails(x); x.cut != nil {
		takes = min(takes, max(x.cut.After, time.Second))
		x.how = Step{Took: takes, Result: x.cut.Result, Whole: true}
	}
	if role := tr.Config.Role(x.Role); role != nil && role.Timeout > 0 && takes > role.Timeout {
		takes = role.Timeout
		x.how = Step{Took: takes, Result: agents.TimedOut, Usage: x.how.Usage, Whole: true}
	}
	return takes
}

// usageOf returns a session's usage so far, or nil if it is unknown.
func (tr *trial) usageOf(x *trialRun) *agents.Usage {
	all := x.how.Usage
	if all == nil {
		if u, known := tr.Uses[Line{x.Thread, x.Item.Kind}]; known {
			all = &u
		}
	}
	if all == nil && tr.Model != nil && len(tr.Model.counts) == 0 {
		all = tr.usualUse(x)
	}
	if all == nil || x.takes <= 0 {
		return all
	}
	return part(all, tr.Now.Sub(x.Started), x.takes)
}

// usualPrice is the price of a million tokens on an API, in dollars.
const usualPrice = 5

// usualUse estimates the usage of a session without a journal: its instructions, and what its work adds.
func (tr *trial) usualUse(x *trialRun) *agents.Usage {
	u := agents.Usage{InputTokens: tr.Cache.Base + int64(x.how.Took.Seconds())*tr.Cache.Growth}
	if tr.real.Thread(x.Thread).Backend.Paid() {
		u.CostUSD = float64(u.InputTokens) * usualPrice / 1e6
	}
	return &u
}

// part returns the part of a usage for a part of the time.
func part(all *agents.Usage, of, whole time.Duration) *agents.Usage {
	share := min(1, of.Seconds()/whole.Seconds())
	scale := func(n int64) int64 { return int64(float64(n) * share) }
	return &agents.Usage{
		InputTokens: scale(all.InputTokens), OutputTokens: scale(all.OutputTokens),
		CachedTokens: scale(all.CachedTokens), CostUSD: all.CostUSD * share,
	}
}

// tellings is how often a session reports its usage.
const tellings = 8

// tells makes a session report its usage while it runs, if usage is limited. At a limit the session ends, and so do
// all others that share the limit.
func (tr *trial) tells(x *trialRun, takes time.Duration) {
	x.takes = takes
	if !tr.metered || tr.usageOf(x) == nil {
		return
	}
	for i := range time.Duration(tellings - 1) {
		tr.After(takes*(i+1)/tellings, func() {
			if x.over {
				return
			}
			u := *tr.usageOf(x)
			tr.record(ledger.Record{Used: &ledger.Used{Run: x.RunID, Usage: u}})
			x.Used = tr.books.Open[x.RunID].Used
			s := make([]threads.Session, 0, len(tr.runs))
			for _, o := range tr.runs {
				if !o.over {
					s = append(s, o.Session)
				}
			}
			for _, st := range threads.Overspent(tr.Config, &tr.books.History, s, tr.Now) {
				tr.stop(&st)
			}
		})
	}
}

// stop ends a session that has reached a limit. A trial has no other reasons for a stop.
func (tr *trial) stop(st *threads.Stop) {
	if st.Reason.Code != threads.StopOverLimit && st.Reason.Code != threads.StopOverBudget {
		return
	}
	for _, x := range tr.runs {
		if x.RunID == st.RunID && x.State == threads.Running {
			x.stopped = st.Reason.Code
			x.how.Result = agents.OverBudget
			tr.ended(x)
			return
		}
	}
}

// limited reports whether a configuration limits usage.
func limited(c *threads.Config) bool {
	no := agents.Budget{}
	for i := range c.Threads {
		if c.Threads[i].Budget != no {
			return true
		}
	}
	for i := range c.Agents {
		if c.Agents[i].Budget != no {
			return true
		}
	}
	for i := range c.Roles {
		if c.Roles[i].PerSession != no || c.Roles[i].PerIssue != no {
			return true
		}
	}
	return false
}
