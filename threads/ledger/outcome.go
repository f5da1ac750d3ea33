package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// The times for which an item, an agent or a thread rests.
const (
	takenRest       = time.Minute      // another claim is on the item: the next scans show whose it is
	unavailableRest = 10 * time.Second // the forge did not answer a claim
	downRest        = 10 * time.Second // no backend for this item, doubled each time in a row
	downMax         = time.Hour        // for the agent, too
	forbiddenRest   = 5 * time.Minute  // 403: a person has to give the account the right
	unstartableRest = time.Minute      // the program cannot be started: a person has to look; doubled each time in a row
	unansweredRest  = time.Minute      // the model did not answer: for the agent, doubled each time in a row
	noRoomRest      = time.Minute      // the machine has no room for another process
	noPlaceRest     = time.Minute      // no node can run the agent's sessions, doubled each time in a row
	reassignedRest  = time.Minute      // a person unassigned our agent and is about to assign the item
	limitMin        = time.Minute      // the shortest usage limit, doubled each time in a row
	limitMinMax     = time.Hour
	limitMax        = 7 * 24 * time.Hour // no backend has a longer limit: we do not believe a later reset
	limitUnknown    = 5 * time.Minute    // for a limit without a credible reset time
	remarkMin       = time.Minute        // after a session with comments only, doubled each time in a row
	remarkMax       = time.Hour
	handedRest      = 10 * time.Minute // after the second request for a person, doubled each further time
	handedMax       = 24 * time.Hour
)

// breakerThreshold is how many sessions in a row must find no backend before the thread is parked. A single one may
// have met a restart of the server.
const breakerThreshold = 3

// aloneMost is how many sessions on an item may have no answer while their agents work on others. From that one on,
// each counts as a failed attempt.
const aloneMost = 3

// attemptRest is the time from the end of each failed attempt to the next. There is none after the last attempt.
var attemptRest = [threads.MaxAttempts - 1]time.Duration{
	2 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
}

// ended is a session at its end, with the entries that its end changes.
type ended struct {
	Open
	*End
	at     time.Time
	held   *threads.ChainHistory // of the item itself, which carries the claim
	chain  *threads.ChainHistory
	item   *threads.ItemHistory
	agent  *threads.AgentHistory
	thread *threads.ThreadHistory
	// failing reports that its agent, thread or role failed whatever it did when the session ended.
	failing bool
	repo    *threads.RepoHistory
	author  *threads.AuthorHistory // of the person whose pull request it reviewed; nil if the review does not count
	// writer is the thread on which the chain was written last; see ChainHistory.WrittenOn.
	writer *threads.ThreadHistory
}

// scheduled reports whether the session did scheduled work.
func (e *ended) scheduled() bool { return e.Item.Kind == agents.KindSchedule }

// outcome is a row of the table of outcomes. The first row that fits a session decides the consequences of its end.
type outcome struct {
	name string
	fits func(*ended) bool
	then func(*ended) // nil: no consequence
	// reached reports that the session found its backend, which resets the breaker's count.
	reached bool
}

// outcomes is the table: design section 7.
var outcomes = []outcome{
	{"claim taken", claimFailed(ClaimTaken), (*ended).taken, false},
	{"claim forbidden", claimFailed(ClaimForbidden), (*ended).barred, false},
	// The claim stays in the books, because a write without an answer may have half happened: reconcile removes any part
	// that the forge shows.
	{"claim unanswered", is(agents.ClaimFailed), coolDown(unavailableRest), false},
	// The program, or its account, is missing. No issue is to blame: a typing error in factory.toml must not block the
	// whole backlog.
	{"not started", notStarted, (*ended).unstartable, false},
	{"token rejected", is(agents.TokenRejected), (*ended).rejected, false},
	{"no room", is(agents.NoRoom), func(e *ended) { e.park(e.at.Add(noRoomRest), e.Reason, threads.ThreadDown) }, false},
	{"no place", is(agents.NoPlace), (*ended).placeless, false},
	{"limited", is(agents.Limited), (*ended).limited, false},
	{"no answer", unexplained, (*ended).unanswered, false},
	{"backend down", is(agents.BackendDown), (*ended).backendDown, false},
	{"taken off by a person", takenOff, coolDown(reassignedRest), false},
	{"cancelled", is(agents.Cancelled), nil, false},
	{"lost", is(agents.Lost), nil, false},
	{"setup failed", is(agents.SetupFailed), (*ended).setupFailed, false},
	{"over its limit", overLimit, (*ended).overLimit, true},
	{"refused", func(e *ended) bool { return e.Result == agents.Refused && !e.scheduled() }, (*ended).refused, true},
	{"push refused", pushRefused, (*ended).unpushed, true},
	{"too big", func(e *ended) bool { return e.Result == agents.TooBig && !e.scheduled() }, (*ended).tooBig, true},
	{"question", func(e *ended) bool { return e.Result == agents.Question && !e.scheduled() }, (*ended).asked, true},
	{"plan", func(e *ended) bool { return e.Result == agents.Planned && !e.scheduled() }, (*ended).planned, true},
	{"words only", func(e *ended) bool { return e.Result == agents.Done && e.Remarked }, (*ended).remarked, true},
	{"done", is(agents.Done), (*ended).achieved, true},
	{"failed while failing", func(e *ended) bool { return e.burns() && e.failing }, (*ended).probed, true},
	{"failed", (*ended).burns, (*ended).failed, true},
	{"scheduled work failed", func(e *ended) bool { return e.Result.BurnsAttempt() }, (*ended).failedRun, true},
	// Scheduled work waits for its next due time; a session that a day's budget ended waits for the next day.
	{"scheduled work", func(*ended) bool { return true }, nil, true},
}

func is(r agents.Result) func(*ended) bool { return func(e *ended) bool { return e.Result == r } }

func claimFailed(why ClaimFailure) func(*ended) bool {
	return func(e *ended) bool { return e.Claim == why }
}

func unexplained(e *ended) bool { return e.Result == agents.Unanswered || e.Result == agents.Killed }

func notStarted(e *ended) bool { return e.NeverRan && e.Result == agents.Failed }

func takenOff(e *ended) bool {
	return e.Result == agents.Cancelled && (e.Stop == threads.StopReassigned || e.Stop == threads.StopReleased)
}

func pushRefused(e *ended) bool { return e.Result == agents.PushRefused && !e.scheduled() }

// burns reports whether the session is a failed attempt at its item.
func (e *ended) burns() bool { return e.Result.BurnsAttempt() && !e.scheduled() }

func overLimit(e *ended) bool {
	return e.Result == agents.OverBudget && e.Stop == threads.StopOverLimit && !e.scheduled()
}

func holdAgent(rest time.Duration) func(*ended) {
	return func(e *ended) { e.agent.Hold(e.at.Add(rest), e.Reason) }
}

// barred holds the agent in this repository: its account may have the right in others.
func (e *ended) barred() { e.repo.Bar(e.Agent, e.at.Add(forbiddenRest), e.Reason) }

// rejected holds the agent: every issue would fail in the same way within seconds.
func (e *ended) rejected() { e.agent.HoldAs(threads.TokenRejected, e.at.Add(forbiddenRest), e.Reason) }

// placeless holds the agent, for as long as if it had found no backend. Its thread and its limits decide which nodes
// fit.
func (e *ended) placeless() {
	e.agent.Downs++
	e.agent.HoldAs(threads.NoPlace, e.at.Add(doubled(noPlaceRest, e.agent.Downs, downMax)), e.Reason)
}

// unstartable holds the agent for as long as one without an answer: each start claims an issue and releases it, which
// people are told of, and a machine without an interpreter started 1,440 sessions a day.
func (e *ended) unstartable() {
	e.agent.Downs++
	e.agent.HoldAs(threads.NoAnswer, e.at.Add(doubled(unstartableRest, e.agent.Downs, downMax)), e.Reason)
}

func coolDown(rest time.Duration) func(*ended) {
	return func(e *ended) { e.item.Rest(e.at.Add(rest), e.Reason) }
}

// apply applies the consequences of a session's end.
func (r *End) apply(s *State, at time.Time) {
	if r.Receipt != nil {
		r.Receipt.apply(s, at)
	}
	open, known := s.Open[r.Run]
	if !known {
		return
	}
	delete(s.Open, r.Run)
	end := *r
	if end.Usage != nil {
		open = s.use(open, at, *end.Usage)
	}
	open = s.use(open, at, s.price(open, end.Result))
	if end.Usage = nil; open.Used != (agents.Usage{}) {
		end.Usage = &open.Used
	}
	e := &ended{Open: open, End: &end, at: at}
	e.item, e.held, e.chain = s.item(e.Item.Of()), s.chain(e.Item.Ref), s.chain(e.Chain)
	e.agent, e.thread = Entry(s.Agents, e.Agent), Entry(s.Threads, e.Thread)
	e.writer = Entry(s.Threads, cmp.Or(e.chain.WrittenOn, e.Thread))
	e.author, e.failing = s.Authors[e.Author], s.isFailing(&e.Start)
	e.repo = Entry(s.Repos, e.Item.Ref.Repo)
	e.agent.IdleSince = at
	if e.NeverRan {
		e.neverStarted()
	} else if e.Sticky {
		k := threads.SlotKey{Thread: e.Thread, Slot: e.Slot}
		s.Slots[k] = threads.Warm{Agent: e.Agent, Chain: forge.Ref(e.Chain), Left: at}
		e.thread.Said(e.Agent, forge.Ref(e.Chain), e.Talk, e.Saved)
		e.thread.Forget(e.Model, e.Restored, e.Found)
	}
	e.judged()
	if e.silent() {
		s.count(&e.Start, e.Open.At, -1)
	}
	e.round(s)
	e.setUp()
	e.tally()
	s.appendRecent(e)
	s.leaveTells(r.Run)
	parked := e.thread.ParkedUntil
	i := slices.IndexFunc(outcomes, func(row outcome) bool { return row.fits(e) })
	if row := outcomes[i]; row.then != nil {
		row.then(e)
	}
	if outcomes[i].reached {
		e.reached()
	}
	s.streaks(e)
	s.parked(e, parked)
}

// neverStarted undoes the effects of Start for a session whose program never ran.
func (e *ended) neverStarted() {
	if e.NewWriter {
		e.chain.Writers = slices.DeleteFunc(e.chain.Writers, func(a string) bool { return a == e.Agent })
		if len(e.chain.Writers) == 0 {
			e.chain.Writers = nil
		}
	}
	if slices.Contains(e.chain.Writers, e.WriterBefore) {
		e.chain.Wrote(e.WriterBefore)
	}
	if e.author != nil {
		delete(e.author.Reviews, e.Start.Run)
	}
}

// judged records an approval, and learns from a verdict how soon, and how often, work written on a thread comes back.
// Only the first verdict on a session's work counts. Those of a second reviewer or a second look come later.
func (e *ended) judged() {
	if e.Sticky && e.Item.Kind.Writes() && e.Result == agents.Done && !e.Remarked {
		e.chain.Written, e.chain.WrittenOn, e.writer = e.at, e.Thread, e.thread
	}
	if e.Approved != nil && e.Item.Kind == agents.KindReview && e.Result != agents.TooBig {
		a := *e.Approved
		a.Agent = e.Agent
		e.held.Approve(a)
	}
	if e.Verdict != "" || e.Result == agents.TooBig { // every request was answered, or there would be rework
		e.chain.ClearAttempt(agents.KindRework)
	}
	if c := e.chain; !c.Written.IsZero() && e.Verdict != "" {
		e.writer.Returns = e.writer.Returns.Learn(e.at.Sub(c.Written), e.Verdict == ChangesRequested)
		c.Written, c.WrittenOn = time.Time{}, ""
	}
}

// silent reports whether a session says nothing about its chain: its program never ran, it had no backend, or a person
// ended it by a command. It does not count against the chain's limits.
func (e *ended) silent() bool {
	switch e.Result {
	case agents.Limited, agents.BackendDown, agents.TokenRejected, agents.NoRoom, agents.NoPlace, agents.ClaimFailed,
		agents.SetupFailed:
		return true
	case agents.Unanswered, agents.Killed:
		return !e.alone()
	case agents.Cancelled:
		return e.NeverRan || e.Stop == threads.StopCancelled || e.Stop == threads.StopReleased
	}
	return e.NeverRan
}

// round counts a session that another session of its kind may follow without a burnt attempt. The head of a pull
// request can move in every review, so a cancelled review counts too.
func (e *ended) round(s *State) {
	done := e.Result == agents.Done || e.Result == agents.Cancelled || e.Result == agents.TooBig
	if e.silent() || !done || !tolled(&e.Start) {
		return
	}
	switch toll := Entry(s.Tolls, forge.Ref(e.Chain)); {
	case e.Item.Kind == agents.KindReview:
		toll.Reviews++
	case e.Cause == threads.CauseConflict || e.Cause == threads.CauseChanges:
		toll.Rounds++
	}
}

// tally counts the agent's results. A session that we ended, or that a limit kept from its work, says nothing about
// the agent.
func (e *ended) tally() {
	if e.Result == agents.Done {
		e.agent.Done++
	}
	if e.Result.BurnsAttempt() {
		e.agent.Failed++
	}
	if e.Usage != nil {
		e.thread.Learn(e.Item.Kind, *e.Usage)
	}
	// A run is still due if the backend, a day's budget, or the supervisor's end kept it from its work.
	ran := e.fruitful() || e.Result.BurnsAttempt()
	if (ran || e.Stop == threads.StopOverLimit) && e.scheduled() {
		e.item.LastRun = e.at
	}
	if e.scheduled() && e.fruitful() {
		e.item.Runs = threads.FailedRuns{}
	}
}

// fruitful reports whether the session achieved something.
func (e *ended) fruitful() bool {
	return e.Result == agents.Done || e.Result == agents.Refused || e.Result == agents.PushRefused ||
		e.Result == agents.TooBig || e.talks()
}

// taken drops the claim from the books: it belongs to another supervisor or a person.
func (e *ended) taken() {
	e.held.Claimed, e.held.Login = "", ""
	coolDown(takenRest)(e)
}

// doubled returns a rest that doubles each time in a row, up to most.
func doubled(first time.Duration, times int, most time.Duration) time.Duration {
	rest := first
	for ; times > 1 && rest < most; times-- {
		rest *= 2
	}
	return max(first, min(rest, most))
}

// backendDown opens the breaker of the thread at the third failure in a row. The breaker stays open through every
// probe that fails, because the count continues. While other sessions on the thread find the backend, the count never
// gets there. Then the agent cannot reach the backend, or the item breaks it, and both rest longer each time.
func (e *ended) backendDown() {
	if e.thread.Downs++; e.thread.Downs >= breakerThreshold {
		coolDown(downRest)(e)
		e.park(e.at.Add(e.Breaker), e.Reason, threads.ThreadDown)
		return
	}
	e.item.Downs++
	coolDown(doubled(downRest, e.item.Downs, downMax))(e)
	if e.agent.Downs++; e.agent.Downs >= breakerThreshold {
		holdAgent(doubled(e.Breaker, e.agent.Downs-breakerThreshold+1, downMax))(e)
	}
}

// alone reports whether a session without an answer is a failed attempt, because so many on this item alone had none.
func (e *ended) alone() bool {
	return e.agent.Downs == 0 && !e.scheduled() && e.item.Alone+1 >= aloneMost
}

// unanswered holds the agent, and lets the item rest for longer, so that the agent tries another item first: an item
// that alone has no answers is at fault. Both rests double up to an hour, which bounds the starts of an item to about
// 30 a day. A second agent of the thread in a row without an answer shares the fault, so the thread is parked.
func (e *ended) unanswered() {
	if e.agent.Downs == 0 && !e.scheduled() {
		failed := e.alone()
		if e.item.Alone++; failed {
			e.Reason = fmt.Sprintf("no answer %d times while others had one: %s", e.item.Alone, e.Reason)
			e.failed()
			return
		}
	}
	e.agent.Downs++
	e.item.Downs++
	until := e.at.Add(doubled(unansweredRest, e.agent.Downs, downMax))
	e.agent.HoldAs(threads.NoAnswer, until, e.Reason)
	coolDown(doubled(2*unansweredRest, e.item.Downs, downMax))(e)
	if e.Result == agents.Killed {
		return
	}
	if before := e.thread.Unanswered; before != "" && before != e.Agent {
		e.park(until, e.Reason, threads.ThreadDown)
	}
	e.thread.Unanswered = e.Agent
}

// park never shortens a park: of two sessions that met the limit, the later reset counts.
func (e *ended) park(until time.Time, why string, as threads.Code) {
	if until.After(e.thread.ParkedUntil) {
		e.thread.ParkedUntil, e.thread.ParkedWhy, e.thread.ParkedAs = until, why, as
	}
}

// limited parks the thread until the usage limit is over, within bounds whatever the program reported. Sessions that
// ran beside the first one to meet the limit do not count again.
func (e *ended) limited() {
	if !e.At.Before(e.thread.ParkedUntil) {
		e.thread.Limits++
	}
	until, why := e.at.Add(doubled(limitMin, e.thread.Limits, limitMinMax)), e.Reason
	unknown := e.at.Add(limitUnknown)
	switch {
	case e.RetryAt.After(e.at.Add(limitMax)):
		why += fmt.Sprintf(" (reset in %d is not believed)", e.RetryAt.Year())
		until = later(until, unknown)
	case e.RetryAt.IsZero():
		until = later(until, unknown)
	default:
		until = later(until, e.RetryAt)
	}
	e.park(until, why, "")
}

// talks reports whether the session ended with a question or a plan.
func (e *ended) talks() bool { return e.Result == agents.Question || e.Result == agents.Planned }

func (e *ended) asked() {
	e.speaks(false, &e.held.Questions, threads.MaxQuestions, "it has asked %d questions, and asks: %s")
}

// planned keeps a plan. A split whose words could not be used has none any more.
func (e *ended) planned() {
	if e.Cause == threads.CauseSplit && e.Words == "" {
		e.held.Refused, e.held.RefusedAt, e.held.RefusedAs = e.Reason, e.at, threads.SplitRefused
		return
	}
	e.speaks(true, &e.held.Plans, threads.MaxPlans, "people sent %d plans back, and it plans: %s")
}

// speaks keeps a question or a plan until people have it. One too many counts as a refusal, because a person should
// look at the issue.
func (e *ended) speaks(plan bool, count *int, most int, tooMany string) {
	if *count >= most {
		e.Reason = fmt.Sprintf(tooMany, *count, e.Reason)
		e.refused()
		return
	}
	*count++
	e.held.Dialogue = &threads.Dialogue{
		Plan: plan, Split: plan && e.Cause == threads.CauseSplit, Run: e.Start.Run, Agent: e.Agent, Words: e.Words, At: e.at,
	}
}

func (e *ended) refused() { e.held.Refused, e.held.RefusedAt, e.held.RefusedAs = e.Reason, e.at, "" }

// overLimit hands the item to a person: the next session would use as much again.
func (e *ended) overLimit() {
	e.held.Refused, e.held.RefusedAt, e.held.RefusedAs = e.Reason, e.at, threads.OverLimit
}

// unpushed hands the item to a person: the forge would refuse the next push, too.
func (e *ended) unpushed() {
	e.held.Refused, e.held.RefusedAt, e.held.RefusedAs = e.Reason, e.at, threads.PushRefused
}

// tooBig keeps the head for a person. Each such head is told once.
func (e *ended) tooBig() {
	if e.Unshown != nil {
		e.held.Unshown = &threads.Unshown{Head: e.Unshown.Head, Base: e.Unshown.Base, Words: e.Reason}
	}
	if told := (&threads.Reason{Code: threads.TooBigToReview}).Key(); e.held.Told == told {
		e.held.Told = ""
	}
}

// remarked makes an item rest after a session that left only comments or labels. That is progress, so no attempt is
// burnt. But the item is as open as before, and an agent must not repeat the same comment every minute of the night.
func (e *ended) remarked() {
	e.item.Remarks++
	coolDown(doubled(remarkMin, e.item.Remarks, remarkMax))(e)
}

// achieved clears the chain's failures at this kind of work. Whether a push repaired the checks or resolved the
// conflict shows only later, when a review starts: see Start.apply.
func (e *ended) achieved() {
	if e.Cause != threads.CauseCI && e.Cause != threads.CauseConflict {
		e.chain.ClearAttempt(e.Item.Kind)
	}
	e.item.Remarks, e.item.FailedBy, e.item.FailedAt, e.item.Behind = 0, "", time.Time{}, time.Time{}
	e.held.Dialogue = nil
}

func (e *ended) failed() {
	e.item.FailedBy, e.item.FailedAt = e.Agent, e.at
	a := threads.Attempt{
		Kind: e.Item.Kind, Count: e.Attempt, Failed: e.at, Reason: e.Reason, Allow: e.Refused.Telling().Line(),
	}
	if a.Count >= threads.MaxAttempts {
		a.Tail = e.Tail // for the comment; keeping it for 34,000 unfinished chains took 12 MB
	}
	if a.Count >= 1 && a.Count <= len(attemptRest) {
		a.Until = e.at.Add(attemptRest[a.Count-1])
	}
	e.chain.SetAttempt(a)
	if e.Item.Kind.Writes() {
		e.chain.Failures++
	}
}

// reached closes the breaker after a session that found its backend. A session that started before the park proves
// nothing about the time after it.
func (e *ended) reached() {
	e.thread.Downs, e.agent.Downs, e.item.Downs, e.thread.Limits = 0, 0, 0, 0
	e.thread.Unanswered, e.item.Alone = "", 0
	if !e.At.Before(e.thread.ParkedUntil) {
		e.thread.ParkedUntil, e.thread.ParkedWhy, e.thread.ParkedAs = time.Time{}, "", ""
	}
}
