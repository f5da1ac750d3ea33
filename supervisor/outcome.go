package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// How long an item, an agent or a thread rests after what happened.
const (
	takenRest       = time.Minute      // somebody else has the item: the next scans will say who
	unavailableRest = 10 * time.Second // the forge did not answer a claim
	downRest        = 10 * time.Second // no backend for this item; the breaker counts
	forbiddenRest   = 5 * time.Minute  // 403: a person has to give the account its right
	unstartableRest = time.Minute      // the program cannot be started: a person has to look
	noRoomRest      = time.Minute      // the machine has no room for another process
	reassignedRest  = time.Minute      // a person took our agent off and is about to say what next
	limitMin        = time.Minute      // a usage limit is never over sooner
	limitMax        = 7 * 24 * time.Hour
	limitUnknown    = 5 * time.Minute // a limit without a reset time
	remarkMin       = time.Minute     // after words only, doubled each time in a row
	remarkMax       = time.Hour
)

// breakerThreshold is how many sessions in a row have to find no backend before the thread is parked. One may be
// a restart of the server.
const breakerThreshold = 3

// attemptRest is the time from the end of each failed attempt to the next. There is none after the last.
var attemptRest = [threads.MaxAttempts - 1]time.Duration{2 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// end is the table of outcomes: what follows from the way a session ended.
func (h *history) end(at time.Time, e *endRecord) {
	o, known := h.open[e.Run]
	if !known {
		return
	}
	delete(h.open, e.Run)
	h.IdleSince[o.Agent] = at
	if e.NeverRan {
		h.neverStarted(&o)
	}
	if e.Result == agents.ClaimFailed {
		h.claimFailed(at, &o, e)
		return
	}
	if o.Sticky && !e.NeverRan {
		h.Warm[threads.SlotKey{Thread: o.Thread, Slot: o.Slot}] = threads.Warm{Agent: o.Agent, Chain: forge.Ref(o.Chain), Left: at}
	}
	h.judged(at, &o, e)
	h.count(at, &o, e)
	h.fruit(&o, e)
	switch k := o.Item.threads(); {
	case e.NeverRan && e.Result == agents.Failed:
		// A program that is not there, or an account: no issue is to blame, and a wrong word in factory.toml must not end
		// with the whole backlog blocked.
		h.AgentHolds[o.Agent] = threads.AgentHold{Until: at.Add(unstartableRest), Code: threads.AgentHeld, Why: e.Reason}
		return
	case e.Result == agents.NoRoom:
		h.park(o.Thread, at.Add(noRoomRest), e.Reason)
		return
	case e.Result == agents.Limited:
		h.limited(at, &o, e)
		return
	case e.Result == agents.BackendDown:
		h.backendDown(at, &o, e)
		return
	case e.Result == agents.Cancelled && (e.Stop == threads.StopReassigned || e.Stop == threads.StopReleased):
		h.CoolDown[k] = at.Add(reassignedRest)
	case e.Result == agents.Refused && k.Kind != agents.KindSchedule:
		h.Refused[k.Ref], h.refusedAt[k.Ref] = e.Reason, at
	case e.Result == agents.Done && e.Remarked:
		h.remarked(at, k)
	case e.Result == agents.Done:
		h.achieved(&o)
	case e.Result.BurnsAttempt():
		h.failed(at, &o, e)
	}
	if e.Result != agents.Cancelled && e.Result != agents.Lost {
		h.backendUp(&o)
	}
}

// count keeps what status shows of ended sessions, what they cost, and when a scheduled role last ran. A run that the backend or the
// supervisor's own end kept from its work is still due.
func (h *history) count(at time.Time, o *openSession, e *endRecord) {
	t := h.tallies[o.Agent]
	if e.Result == agents.Done {
		t.done++
	}
	if e.Result.BurnsAttempt() {
		t.failed++
	}
	setUnlessZero(h.tallies, o.Agent, t)
	if e.Usage != nil {
		for _, who := range []threads.Spender{{Agent: o.Agent}, {Thread: o.Thread}} {
			h.Spent[who] = h.Spent[who].Add(at, *e.Usage)
		}
	}
	ran := e.Result == agents.Done || e.Result == agents.Refused || e.Result.BurnsAttempt()
	if o.Item.Kind == agents.KindSchedule && ran {
		h.LastRun[o.Item.threads()] = at
	}
	r := control.RecentDocument{
		RunID: o.Run, Agent: o.Agent, Repo: o.Item.Ref.Repo, Number: o.Item.Ref.Number, Kind: o.Item.Kind,
		Outcome: e.Result, Reason: e.Reason, LastLine: e.LastLine, StartedAt: o.at, EndedAt: at,
	}
	if !e.NeverRan {
		h.bury(pastRecord{
			Agent: o.Agent, Kind: o.Item.Kind, Ref: o.Item.Ref, Chain: o.Chain, Ready: o.Ready, Priority: o.Priority, Skills: o.Skills,
			Start: o.at, End: at,
		})
		r.Log = logPath("", o.Agent, o.Run) // in the state directory, which may move
	}
	h.remember(r)
}

// judged learns from a verdict how soon, and how often, what was written on a thread comes back. Only the first verdict on what
// a session wrote says so: a second reviewer, or a second look, comes after it.
func (h *history) judged(at time.Time, o *openSession, e *endRecord) {
	chain := forge.Ref(o.Chain)
	if o.Sticky && o.Item.Kind.Writes() && e.Result == agents.Done && !e.Remarked {
		h.written[chain] = writing{o.Thread, at}
	}
	if w, waits := h.written[chain]; waits && e.Verdict != "" {
		h.Returns[w.thread] = h.Returns[w.thread].Learn(at.Sub(w.at), e.Verdict == verdictChanges)
		delete(h.written, chain)
	}
}

// fruit counts the sessions of an agent in a row that achieved nothing. One that was ended by us, or that a limit kept from
// its work, says nothing about the agent.
func (h *history) fruit(o *openSession, e *endRecord) {
	switch {
	case e.Result == agents.Done || e.Result == agents.Refused:
		delete(h.Fruitless, o.Agent)
	case e.Result.BurnsAttempt() || e.Result == agents.BackendDown:
		h.Fruitless[o.Agent]++
	}
}

func (h *history) remember(r control.RecentDocument) {
	n := min(len(h.recent), control.RecentLimit-1)
	h.recent = append([]control.RecentDocument{r}, h.recent[:n]...)
}

// claimFailed burns no attempt. The claim stays ours in the books unless somebody else has the item, because a write
// that failed may have half happened: reconcile then takes off what the forge shows.
func (h *history) claimFailed(at time.Time, o *openSession, e *endRecord) {
	k := o.Item.threads()
	switch e.Claim {
	case claimTaken:
		delete(h.Claimed, k.Ref)
		delete(h.logins, k.Ref)
		h.CoolDown[k] = at.Add(takenRest)
	case claimForbidden:
		h.AgentHolds[o.Agent] = threads.AgentHold{Until: at.Add(forbiddenRest), Code: threads.AgentHeld, Why: e.Reason}
	default:
		h.CoolDown[k] = at.Add(unavailableRest)
	}
}

// achieved forgets the failures of the chain at this kind of work.
func (h *history) achieved(o *openSession) {
	k := o.Item.threads()
	delete(h.Attempts, attemptKey(o))
	delete(h.failures, attemptKey(o))
	delete(h.remarks, k)
}

// remarked lets an item rest whose session left words only. It is progress, so no attempt is burnt, but the item is as
// open as before, and an agent that says the same each time must not say it every minute of the night.
func (h *history) remarked(at time.Time, k threads.Key) {
	rest := remarkMax
	if n := h.remarks[k]; n < 6 { // 1, 2, 4, 8, 16, 32 min, then 1 h
		rest = remarkMin << n
	}
	h.remarks[k]++
	h.CoolDown[k] = at.Add(rest)
}

// failed counts an attempt. A scheduled run waits for its next due time instead.
func (h *history) failed(at time.Time, o *openSession, e *endRecord) {
	if o.Item.Kind == agents.KindSchedule {
		return
	}
	a := threads.Attempts{Count: o.Attempt}
	if a.Count >= 1 && a.Count <= len(attemptRest) {
		a.Until = at.Add(attemptRest[a.Count-1])
	}
	h.Attempts[attemptKey(o)] = a
	h.failures[attemptKey(o)] = failure{at: at, reason: e.Reason, tail: e.Tail}
}

// limited parks the thread until the limit is lifted.
func (h *history) limited(at time.Time, o *openSession, e *endRecord) {
	until := at.Add(limitUnknown)
	if !e.RetryAt.IsZero() {
		until = e.RetryAt
		if earliest := at.Add(limitMin); until.Before(earliest) {
			until = earliest
		}
		if latest := at.Add(limitMax); until.After(latest) {
			until = latest
		}
	}
	h.park(o.Thread, until, e.Reason)
}

// backendDown opens the breaker of the thread at the third time in a row. It stays open through every probe that finds
// nothing, because the count goes on.
func (h *history) backendDown(at time.Time, o *openSession, e *endRecord) {
	h.downs[o.Thread]++
	h.CoolDown[o.Item.threads()] = at.Add(downRest)
	if h.downs[o.Thread] >= breakerThreshold {
		h.park(o.Thread, at.Add(e.Breaker), e.Reason)
	}
}

// park never shortens: of two sessions that met the limit, the later reset counts.
func (h *history) park(thread string, until time.Time, why string) {
	if p := h.Parked[thread]; until.After(p.Until) {
		h.Parked[thread] = threads.Parked{Until: until, Why: why}
	}
}

// backendUp closes the breaker after a session that found its backend. One from before the parking proves nothing about
// the time after it.
func (h *history) backendUp(o *openSession) {
	delete(h.downs, o.Thread)
	if p, parked := h.Parked[o.Thread]; parked && !o.at.Before(p.Until) {
		delete(h.Parked, o.Thread)
	}
}

func attemptKey(o *openSession) threads.AttemptKey {
	return threads.AttemptKey{Chain: forge.Ref(o.Chain), Kind: o.Item.Kind}
}
