package supervisor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// usedRest is the shortest time between two records of a session's usage. A crash loses that much usage.
const usedRest = time.Minute

// spent counts the usage of a running session, and ends the sessions that must use no more. It needs no scan, so a
// forge that is slow or down does not let a session continue. It does not journal: the session's executor waits for
// it, and an upgrade in place waits for the executor while it holds the journal.
func (rn *sessionRunner) spent(x *session, used agents.Usage) {
	for _, x := range rn.state.spent(x, used) {
		rn.of(x.RunID).Info(fmt.Sprintf("%s stopping: %s", x.tag, context.Cause(x.ctx)))
	}
	rn.touchStatus()
}

// spent counts a session's usage, and returns the sessions that it ends.
func (st *state) spent(x *session, used agents.Usage) []*session {
	st.mu.Lock()
	defer st.mu.Unlock()
	now := time.Now()
	reached := st.useLocked(x, used, now)
	if st.cfg == nil {
		return nil
	}
	sessions := []threads.Session{x.Session}
	if reached { // perhaps the limit of others, too
		sessions = nil
		for _, run := range slices.Sorted(maps.Keys(st.sessions)) {
			sessions = append(sessions, st.sessions[run].Session)
		}
	}
	return st.stopLocked(threads.Overspent(st.cfg, &st.ledger.History, sessions, now))
}

// recordUsage counts a session's usage at its end.
func (st *state) recordUsage(x *session, used agents.Usage) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.useLocked(x, used, time.Now())
}

// useLocked counts usage, and reports whether it reaches a limit: only then it changes plans.
func (st *state) useLocked(x *session, used agents.Usage, now time.Time) (reaches bool) {
	was, reached := x.Used, st.reachedLocked(x, now)
	st.applyLocked(ledger.Record{At: now, Used: &ledger.Used{Run: x.RunID, Usage: used}})
	x.Used = st.ledger.Open[x.RunID].Used
	x.answered(x.Used.Less(was))
	if reaches = st.reachedLocked(x, now) != reached; reaches {
		st.changedLocked()
	}
	return reaches
}

// reachedLocked returns the limits that a session's usage has reached.
func (st *state) reachedLocked(x *session, now time.Time) (reached threads.Reached) {
	if st.cfg == nil {
		return reached
	}
	snap := threads.Snapshot{Now: now, Config: st.cfg, History: st.ledger.History}
	if t := st.cfg.Thread(x.Thread); t != nil && len(t.Windows) > 0 {
		for _, other := range st.sessions {
			if other.Thread == x.Thread {
				snap.Sessions = append(snap.Sessions, other.Session)
			}
		}
	}
	return threads.ReachedBy(&snap, &x.Session)
}

// usedLocked returns the usage that is due to be journalled: for each session at most once in usedRest.
func (st *state) usedLocked(now time.Time) (due []ledger.Used) {
	for _, run := range slices.Sorted(maps.Keys(st.sessions)) {
		if x := st.sessions[run]; x.Used != x.written && now.Sub(x.writtenAt) >= usedRest {
			x.written, x.writtenAt = x.Used, now
			due = append(due, ledger.Used{Run: run, Usage: x.Used})
		}
	}
	return due
}

// left returns the budget that a session has when it starts.
func (st *state) left(x *session) agents.Budget {
	st.mu.Lock()
	defer st.mu.Unlock()
	left, used := x.PerSession, st.ledger.Chain(x.Item.Chain).Used
	if most := x.PerIssue.Tokens; most > 0 && (left.Tokens == 0 || most-used.Tokens < left.Tokens) {
		left.Tokens = max(most-used.Tokens, 1) // 0 means no limit
	}
	if most := x.PerIssue.USD; most > 0 && (left.USD == 0 || most-used.USD < left.USD) {
		left.USD = max(most-used.USD, 0.01)
	}
	return left
}

// atLimit judges a session that reports it has reached its limit, or that was ended at one. If the program's report is
// false, the session has failed: otherwise it would never burn an attempt.
func (st *state) atLimit(x *session, out agents.Outcome) (agents.Outcome, threads.Code) {
	st.mu.Lock()
	defer st.mu.Unlock()
	stop := x.stop()
	if out.Result == agents.Cancelled && (stop.code == threads.StopOverLimit || stop.code == threads.StopOverBudget) {
		out.Result, out.Reason = agents.OverBudget, stop.why
		return out, stop.code
	}
	if out.Result != agents.OverBudget {
		return out, stop.code
	}
	st.useLocked(x, out.Usage, time.Now()) // the outcome may report more usage
	if why := threads.LimitReached(&st.ledger.History, &x.Session); why != nil {
		out.Reason = why.Text()
		return out, why.Code
	}
	out.Result = agents.Failed
	out.Reason = fmt.Sprintf("its program reported over-budget after %d tokens and $%.2f, below every limit; %s",
		x.Used.Tokens(), x.Used.CostUSD, out.Reason)
	return out, stop.code
}
