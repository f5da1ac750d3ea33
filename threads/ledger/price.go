package ledger

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
)

// The usual prices of tokens, in those of one token read: vendors take about a tenth for one from a cache, and five
// times as much for one written.
const (
	cachedPrice = 0.1
	outputPrice = 5
)

// weight is the usage in tokens read that would cost as much.
func weight(u agents.Usage) float64 {
	return float64(u.InputTokens) + cachedPrice*float64(u.CachedTokens) + outputPrice*float64(u.OutputTokens)
}

// cutShort are the results of sessions whose program did not end by itself, and often reported no cost: claude reports
// it only at the end of a run. Otherwise those sessions cost most that ran away.
var cutShort = []agents.Result{
	agents.Looped, agents.OverBudget, agents.Killed, agents.Cancelled, agents.TimedOut, agents.Stalled, agents.Lost,
	agents.Failed, agents.Limited, agents.BackendDown,
}

// price adds the cost to a session that was cut short: the price of a token in the newest session of its model on its
// thread that reported a cost. A cost that is at least half of that is believed. Without such a session the cost stays
// unknown.
func (s *State) price(open Open, result agents.Result) agents.Usage {
	u := open.Used
	if !slices.Contains(cutShort, result) {
		return u
	}
	if cost := s.Thread(open.Thread).Prices[open.Model] * weight(u); u.CostUSD < cost/2 {
		u.CostUSD, u.Estimated = cost, true
	}
	return u.Bounded()
}

// priced remembers the price of a token in a session that was not cut short. To look for it at each end took a minute
// for 34,000 failures.
func (s *State) priced(p *Past) {
	if u := p.Usage; u != nil && u.CostUSD > 0 && !u.Estimated && weight(*u) > 0 && !slices.Contains(cutShort, p.Outcome) {
		t := Entry(s.Threads, p.Thread)
		if t.Prices == nil {
			t.Prices = make(map[string]float64)
		}
		t.Prices[p.Model] = u.CostUSD / weight(*u)
	}
}
