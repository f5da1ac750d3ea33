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
	if weight(u) == 0 || !slices.Contains(cutShort, result) {
		return u
	}
	for _, p := range slices.Backward(s.Past) {
		if p.Thread != open.Thread || p.Model != open.Model || p.Usage == nil || p.Usage.CostUSD == 0 ||
			p.Usage.Estimated || weight(*p.Usage) == 0 || slices.Contains(cutShort, p.Outcome) {
			continue
		}
		if cost := p.Usage.CostUSD * weight(u) / weight(*p.Usage); u.CostUSD < cost/2 {
			u.CostUSD, u.Estimated = cost, true
		}
		break
	}
	return u.Bounded()
}
