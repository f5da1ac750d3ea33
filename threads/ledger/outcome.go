package ledger

import (
	"path"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// How long an item, an agent or a thread rests after what happened.
const (
	takenRest       = time.Minute      // another claim is on the item: the next scans show whose
	unavailableRest = 10 * time.Second // the forge did not answer a claim
	downRest        = 10 * time.Second // no backend for this item; the breaker counts
	forbiddenRest   = 5 * time.Minute  // 403: a person has to give the account the right
	unstartableRest = time.Minute      // the program cannot be started: a person has to look
	noRoomRest      = time.Minute      // the machine has no room for another process
	reassignedRest  = time.Minute      // a person took our agent off and is about to assign the item
	limitMin        = time.Minute      // a usage limit is never over sooner
	limitMax        = 7 * 24 * time.Hour
	limitUnknown    = 5 * time.Minute // a limit without a reset time
	remarkMin       = time.Minute     // after words only, doubled each time in a row
	remarkMax       = time.Hour
)

// breakerThreshold is how many sessions in a row have to find no backend before the thread is parked. One may be a
// restart of the server.
const breakerThreshold = 3

// attemptRest is the time from the end of each failed attempt to the next. There is none after the last.
var attemptRest = [threads.MaxAttempts - 1]time.Duration{2 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// ended is a session at its end.
type ended struct {
	Open
	*End
	at time.Time
}

// scheduled reports whether the session worked on no issue or pull request.
func (e *ended) scheduled() bool { return e.Item.Kind == agents.KindSchedule }

// outcome is a row of the table of outcomes. The first row that fits a session says what follows from its end.
type outcome struct {
	name string
	fits func(*ended) bool
	then func(*State, *ended) // nil: nothing more
	// reached says that the session found its backend, which ends the breaker's count.
	reached bool
}

// outcomes is the table: design section 7.
var outcomes = []outcome{
	{"claim taken", claimFailed(ClaimTaken), (*State).taken, false},
	{"claim forbidden", claimFailed(ClaimForbidden), holdAgent(forbiddenRest), false},
	// The claim stays in the books, because a write without an answer may have half happened: reconcile takes off what the
	// forge shows.
	{"claim unanswered", is(agents.ClaimFailed), coolDown(unavailableRest), false},
	// The program is missing, or its account. No issue is to blame: a typing error in factory.toml must not end with the whole
	// backlog blocked.
	{"not started", func(e *ended) bool { return e.NeverRan && e.Result == agents.Failed }, holdAgent(unstartableRest), false},
	{"no room", is(agents.NoRoom), func(s *State, e *ended) { s.park(e, e.at.Add(noRoomRest)) }, false},
	{"limited", is(agents.Limited), func(s *State, e *ended) { s.park(e, e.limitEnd()) }, false},
	{"backend down", is(agents.BackendDown), (*State).backendDown, false},
	{"taken off by a person", takenOff, coolDown(reassignedRest), false},
	{"cancelled", is(agents.Cancelled), nil, false},
	{"lost", is(agents.Lost), nil, false},
	{"refused", func(e *ended) bool { return e.Result == agents.Refused && !e.scheduled() }, (*State).refused, true},
	{"words only", func(e *ended) bool { return e.Result == agents.Done && e.Remarked }, (*State).remarked, true},
	{"done", is(agents.Done), (*State).achieved, true},
	{"failed", func(e *ended) bool { return e.Result.BurnsAttempt() && !e.scheduled() }, (*State).failed, true},
	{"scheduled work", func(*ended) bool { return true }, nil, true}, // it waits for the next due time
}

func is(r agents.Result) func(*ended) bool { return func(e *ended) bool { return e.Result == r } }

func claimFailed(why ClaimFailure) func(*ended) bool {
	return func(e *ended) bool { return e.Result == agents.ClaimFailed && e.Claim == why }
}

func takenOff(e *ended) bool {
	return e.Result == agents.Cancelled && (e.Stop == threads.StopReassigned || e.Stop == threads.StopReleased)
}

func holdAgent(rest time.Duration) func(*State, *ended) {
	return func(s *State, e *ended) { threads.Entry(s.Agents, e.Agent).Hold(e.at.Add(rest), e.Reason) }
}

func coolDown(rest time.Duration) func(*State, *ended) {
	return func(s *State, e *ended) { s.item(e.Item).CoolDown = e.at.Add(rest) }
}

// end applies what follows from the way a session ended.
func (s *State) end(at time.Time, r *End) {
	open, known := s.Open[r.Run]
	if !known {
		return
	}
	delete(s.Open, r.Run)
	e := &ended{open, r, at}
	threads.Entry(s.Agents, e.Agent).IdleSince = at
	if e.NeverRan {
		s.neverStarted(&open)
	} else if e.Sticky {
		s.Slots[threads.SlotKey{Thread: e.Thread, Slot: e.Slot}] = threads.Warm{Agent: e.Agent, Chain: forge.Ref(e.Chain), Left: at}
	}
	s.judged(e)
	s.tally(e)
	s.keep(e)
	for _, row := range outcomes {
		if !row.fits(e) {
			continue
		}
		if row.then != nil {
			row.then(s, e)
		}
		if row.reached {
			s.reached(e)
		}
		return
	}
}

// judged learns from a verdict how soon, and how often, work written on a thread comes back. Only the first verdict on what
// a session wrote counts; a second reviewer, or a second look, comes after it.
func (s *State) judged(e *ended) {
	if e.Sticky && e.Item.Kind.Writes() && e.Result == agents.Done && !e.Remarked {
		c := s.chain(e.Chain)
		c.Written, c.WrittenOn = e.at, e.Thread
	}
	if c := s.Chain(forge.Ref(e.Chain)); !c.Written.IsZero() && e.Verdict != "" {
		t := threads.Entry(s.Threads, c.WrittenOn)
		t.Returns = t.Returns.Learn(e.at.Sub(c.Written), e.Verdict == ChangesRequested)
		c.Written, c.WrittenOn = time.Time{}, ""
	}
}

// tally counts what the agent achieved and what its sessions cost. A session that we ended, or that a limit kept from its
// work, says nothing about the agent.
func (s *State) tally(e *ended) {
	a := threads.Entry(s.Agents, e.Agent)
	switch {
	case e.Result == agents.Done || e.Result == agents.Refused:
		a.Fruitless = 0
	case e.Result.BurnsAttempt() || e.Result == agents.BackendDown:
		a.Fruitless++
	}
	if e.Result == agents.Done {
		a.Done++
	}
	if e.Result.BurnsAttempt() {
		a.Failed++
	}
	if e.Usage != nil {
		t := threads.Entry(s.Threads, e.Thread)
		a.Spent, t.Spent = a.Spent.Add(e.at, *e.Usage), t.Spent.Add(e.at, *e.Usage)
	}
	// A run that the backend, or the supervisor's own end, kept from its work is still due.
	ran := e.Result == agents.Done || e.Result == agents.Refused || e.Result.BurnsAttempt()
	if ran && e.scheduled() {
		s.item(e.Item).LastRun = e.at
	}
}

// keep remembers the session itself, unless it had no claim and so never was one.
func (s *State) keep(e *ended) {
	if e.Result == agents.ClaimFailed {
		return
	}
	r := Recent{
		RunID: e.Start.Run, Agent: e.Agent, Repo: e.Item.Ref.Repo, Number: e.Item.Ref.Number, Kind: e.Item.Kind,
		Outcome: e.Result, Reason: e.Reason, LastLine: e.LastLine, StartedAt: e.At, EndedAt: e.at,
	}
	if !e.NeverRan {
		s.bury(Past{
			Agent: e.Agent, Kind: e.Item.Kind, Ref: e.Item.Ref, Chain: e.Chain, Ready: e.Ready, Priority: e.Priority,
			Skills: e.Skills, Start: e.At, End: e.at,
		})
		r.Log = LogPath(e.Agent, e.Start.Run)
	}
	s.remember(r)
}

// LogPath is where a session's log is, relative to the state directory, which may move.
func LogPath(agent, run string) string { return path.Join("logs", agent, run+".log") }

// taken drops the claim from the books: it belongs to another supervisor or a person.
func (s *State) taken(e *ended) {
	s.Drop(forge.Ref(e.Item.Ref))
	coolDown(takenRest)(s, e)
}

// backendDown opens the breaker of the thread at the third time in a row. It stays open through every probe that finds
// nothing, because the count goes on.
func (s *State) backendDown(e *ended) {
	coolDown(downRest)(s, e)
	t := threads.Entry(s.Threads, e.Thread)
	if t.Downs++; t.Downs >= breakerThreshold {
		s.park(e, e.at.Add(e.Breaker))
	}
}

// park never shortens: of two sessions that met the limit, the later reset counts.
func (s *State) park(e *ended, until time.Time) {
	if t := threads.Entry(s.Threads, e.Thread); until.After(t.ParkedUntil) {
		t.ParkedUntil, t.ParkedWhy = until, e.Reason
	}
}

// limitEnd is when a usage limit is over, within bounds whatever the program said.
func (e *ended) limitEnd() time.Time {
	if e.RetryAt.IsZero() {
		return e.at.Add(limitUnknown)
	}
	earliest, latest := e.at.Add(limitMin), e.at.Add(limitMax)
	switch {
	case e.RetryAt.Before(earliest):
		return earliest
	case e.RetryAt.After(latest):
		return latest
	}
	return e.RetryAt
}

func (s *State) refused(e *ended) {
	c := s.chain(e.Item.Ref)
	c.Refused, c.RefusedAt = e.Reason, e.at
}

// remarked lets an item rest whose session left nothing but words. It is progress, so no attempt is burnt, but the item is
// as open as before, and an agent that says the same each time must not say it every minute of the night.
func (s *State) remarked(e *ended) {
	it := s.item(e.Item)
	rest := remarkMax
	if it.Remarks < 6 { // 1, 2, 4, 8, 16, 32 min, then 1 h
		rest = remarkMin << it.Remarks
	}
	it.Remarks++
	it.CoolDown = e.at.Add(rest)
}

// achieved forgets the failures of the chain at this kind of work.
func (s *State) achieved(e *ended) {
	s.chain(e.Chain).ClearAttempt(e.Item.Kind)
	s.item(e.Item).Remarks = 0
}

func (s *State) failed(e *ended) {
	a := threads.Attempt{Kind: e.Item.Kind, Count: e.Attempt, Failed: e.at, Reason: e.Reason, Tail: e.Tail}
	if a.Count >= 1 && a.Count <= len(attemptRest) {
		a.Until = e.at.Add(attemptRest[a.Count-1])
	}
	s.chain(e.Chain).SetAttempt(a)
}

// reached closes the breaker after a session that found its backend. One from before the parking proves nothing about the
// time after it.
func (s *State) reached(e *ended) {
	t := threads.Entry(s.Threads, e.Thread)
	t.Downs = 0
	if !e.At.Before(t.ParkedUntil) {
		t.ParkedUntil, t.ParkedWhy = time.Time{}, ""
	}
}
