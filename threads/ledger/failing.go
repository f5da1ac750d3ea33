package ledger

import (
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

const (
	failingRest = 5 * time.Minute // of a failing agent, thread or role, doubled each time in a row
	failingMax  = 4 * time.Hour   // each try costs a session
	behindRest  = 24 * time.Hour  // of an item in the order, after a failing agent was tried with it

	failedRunRest = 10 * time.Minute // scheduled work failed, doubled each time in a row
	failedRunMost = 24 * time.Hour
)

// isFailing reports whether the agent, the thread or the role of a session is failing.
func (s *State) isFailing(r *Start) bool {
	for _, crew := range threads.CrewsOf(r.Agent, r.Thread, r.Role) {
		if s.Failing[crew].Failing() {
			return true
		}
	}
	return false
}

// probed puts the item of a failed try behind others. The failure says nothing about the item, so it is no attempt.
func (e *ended) probed() {
	e.item.FailedBy, e.item.FailedAt, e.item.Behind = e.Agent, e.at, e.at.Add(behindRest)
}

// streaks counts the failures in a row of the session's agent, thread and role, and holds the narrowest of them that
// explains the failures: a role before its thread, and either before the agent. A session that ran beside the failure
// that held them does not count again.
func (s *State) streaks(e *ended) {
	crews := threads.CrewsOf(e.Agent, e.Thread, e.Role)
	switch {
	case e.fruitful():
		for _, crew := range crews {
			delete(s.Failing, crew)
		}
		return
	case !e.Result.BurnsAttempt() || e.NeverRan:
		return
	}
	f := threads.Failure{Item: itemName(&e.Start), Agent: e.Agent, Role: e.Role, Result: e.Result, Words: e.words()}
	explained := false
	for _, crew := range crews {
		k := Entry(s.Failing, crew)
		k.Add(f)
		alone := crew.Agent != "" && len(k.Failures) == threads.FailingAfter
		switch {
		case k.Failing() && e.At.Before(k.Until):
			explained = true
		case explained && !k.Failing() && (crew.Thread == "" || k.Roles() == 1):
		case k.Failing() || alone || crew.Agent == "" && k.Alike():
			explained = true
			k.Probes++
			k.Until = e.at.Add(doubled(failingRest, k.Probes, failingMax))
			if k.Since.IsZero() {
				k.Since = e.at
			}
		}
	}
}

// words are the last words of a failed session, in one line.
func (e *ended) words() string {
	words := strings.Join(strings.Fields(e.Reason), " ")
	if e.LastLine != "" {
		words = strings.TrimPrefix(words+": ", ": ") + e.LastLine
	}
	return threads.Clip(words, lineMax)
}

// itemName names the chain of a session, or scheduled work.
func itemName(r *Start) string {
	if r.Item.Kind == agents.KindSchedule {
		return r.Role + " of " + r.Chain.Repo
	}
	return forge.Ref(r.Chain).String()
}

// failedRun lets scheduled work rest, longer each time in a row: a role of every five minutes that cannot succeed would
// cost 288 sessions a day.
func (e *ended) failedRun() {
	runs := &e.item.Runs
	if runs.Failed++; runs.Failed == 1 {
		runs.Since = e.at
	}
	runs.Agent, runs.Words = e.Agent, e.words()
	e.item.Rest(e.at.Add(doubled(failedRunRest, runs.Failed, failedRunMost)), e.Reason)
}
