package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// releaseTime bounds the releases while the supervisor stops: with the default grace they end within Docker's 10 s.
const releaseTime = 2 * time.Second

// A session's life. Every arrow out of a state is taken on every path; a record behind a slash is journalled before
// the step.
//
//	reserved -> identity checked -> /start -> claimed -> running -> ended -> judged -> /end -> released -> /released
//	    \____________\__________________________\ (claim failed) _____________________/
//
// The slot and the agent are taken from reserved to /end. No decision concerns the item from the start of the claim
// until a scan that was requested after the release.

const (
	// lookRestMin and lookRestMax bound the delay between further looks, which hold no slot.
	lookRestMin = 5 * time.Second
	lookRestMax = time.Minute
)

// sessionRunner runs sessions: it claims an item, starts the program of its agent, judges the result and releases the
// claim.
type sessionRunner struct {
	*core
	clerk      *clerk
	inference  *inference
	receipting *receipting
	local      Executor            // for sessions on this machine
	elsewhere  map[string]Executor // the other executors, by the name that a thread's configuration gives
	accounts   accounts
	fleetFile  *fleet.File
	meters     Meters
	unsure     bool // the journal may have lost sessions; set before the loops start

	heard chan struct{} // a session has heard a message, or one has been told; has room for one

	// What the environment and the sandbox of a session are made of: see the fields of Supervisor.
	stateDir    string
	environ     []string
	hide        []string
	collector   string
	forgeAPI    func(url, repo string) string
	traceParent func(chain forge.Ref, runID string) string
}

// run carries a session from its reservation to its release. lost is the time at which another host's claim on the
// item freed the slot; zero if none did.
func (rn *sessionRunner) run(x *session) (lost time.Time) {
	if !rn.identified(x) || rn.state.append(startOf(x)) != nil {
		rn.state.drop(x) // a later tick retries
		rn.touchStatus()
		return lost
	}
	rn.fleetFile.Write() // before anything runs: the hub gives idle agents more work
	x.write = rn.state.beginWrite(x.Item.Ref)
	began, failed := time.Now(), rn.claim(x)
	rn.claimed(x, began, failed)
	if failed != nil {
		return rn.finish(x, failed)
	}
	x.write.end()
	rn.events.Send(control.EventClaimed, rn.state.show(x))
	out, ran := rn.execute(x)
	rn.conclude(x, out, ran)
	return lost
}

// conclude carries a session from the end of its program to its release. A session that continues without this
// supervisor stays open in the journal.
func (rn *sessionRunner) conclude(x *session, out agents.Outcome, ran bool) {
	if x.left(out) {
		return
	}
	x.write = rn.state.beginWrite(x.Item.Ref)
	rn.state.recordUsage(x, out.Usage)
	rn.hears(x, out.Heard)
	rn.recordHeard()
	x.remains = &remains{Outcome: out, ran: ran}
	rn.inference.save(x, out, ran)
	out, stop := rn.state.atLimit(x, rn.usable(x, x.believed(out)))
	report := x.report(out, ran, stop)
	if report.AsksForge() && !rn.fetchOutcome(x, report) {
		return
	}
	x.remains.pull = x.pullOf(report.Look)
	end := report.End()
	if ran && end.Result.Fails() {
		rn.recheckAccount(x, report)
		end = report.End()
	}
	rn.inference.explainCold(x, end)
	rn.inference.addConversation(x, end)
	rn.finish(x, end)
	rn.inference.warnForgotten(x, end)
}

// claim claims the item on the forge under the agent's login. If it fails, it returns the session's end.
func (rn *sessionRunner) claim(x *session) *ledger.End {
	if !x.claims() {
		return nil
	}
	err := rn.call(x.ctx, callTimeout, func(ctx context.Context, f Forge) error {
		err := f.Claim(ctx, x.Item.Ref, x.agent.Login, x.RunID)
		x.commit = f.ClaimCommit(x.Item.Ref)
		return err
	})
	if err == nil && x.Item.Kind == agents.KindReview {
		err = rn.countReviews(x)
	}
	if err == nil && x.ctx.Err() == nil {
		return nil
	}
	end := &ledger.End{Run: x.RunID, Result: agents.ClaimFailed, Claim: ledger.ClaimUnavailable, NeverRan: true}
	switch {
	case x.ctx.Err() != nil:
		end.Result, end.Claim, end.Reason, end.Stop = agents.Cancelled, "", context.Cause(x.ctx).Error(), x.stop().code
	case errors.Is(err, forge.ErrTaken), errors.Is(err, forge.ErrNotFound):
		end.Claim, end.Reason = ledger.ClaimTaken, text(err)
	case errors.Is(err, forge.ErrForbidden):
		end.Claim, end.Reason = ledger.ClaimForbidden, text(err) // the error names the item
	default:
		end.Reason = text(err)
	}
	return end
}

// countReviews records the newest review of a pull request before a review session, because an older approval is not
// the session's. The scan may have missed a review.
func (rn *sessionRunner) countReviews(x *session) error {
	var newest int64
	err := rn.call(x.ctx, callTimeout, func(ctx context.Context, f Forge) error {
		look, err := f.FetchItem(ctx, x.Item.Ref, time.Now())
		if look.Pull != nil {
			for _, r := range look.Pull.Reviews {
				newest = max(newest, r.ID)
			}
		}
		return err
	})
	if err == nil {
		rn.state.reviewed(x, newest)
	}
	return err
}

// execute runs the program and waits until no process of it is left. ran is false if the program never started.
func (rn *sessionRunner) execute(x *session) (out agents.Outcome, ran bool) {
	job, err := rn.job(x)
	if err != nil {
		return x.redacted(agents.Outcome{Result: agents.Failed, Reason: text(err), Claimed: true}), false
	}
	rn.inference.restoreConversation(x)
	if err := rn.send(x); err != nil {
		return agents.Outcome{Result: agents.Cancelled, Reason: text(err)}, false
	}
	if rn.executor(x.thread.Executor) == nil {
		why := "internal error: there is no executor " + x.thread.Executor
		return agents.Outcome{Result: agents.Failed, Reason: why, Claimed: true}, false
	}
	out = rn.order(x, job, func(begun agents.Started) {
		ran = true
		rn.safely("the start of "+x.tag+" "+x.RunID, func() { rn.started(x, begun) })
	})
	return out, ran
}

// started records and reports that the session's program runs.
func (rn *sessionRunner) started(x *session, begun agents.Started) {
	defer rn.deliver(x)
	defer close(x.atWork)
	rn.state.began(x, begun)
	rn.placed(x, begun)
	rn.of(x.RunID).Info(fmt.Sprintf("%s running %s%s", x.tag, task(&x.Item), because(&x.Item)))
	rn.tellLate(x)
	rn.events.Send(control.EventStarted, rn.state.show(x))
	rn.touchStatus()
}

// tellLate logs how many runs of a role with cron were missed, because one went on or no supervisor ran.
func (rn *sessionRunner) tellLate(x *session) {
	role := rn.state.config().Role(x.Item.Role)
	if role == nil || x.Item.Since.IsZero() {
		return
	}
	if n := role.Missed(x.Item.Since, time.Now(), x.Item.Ref.Repo); n > 0 {
		rn.of(x.RunID).Info(fmt.Sprintf("%s runs late: it was due at %s; missed since then: %s", x.tag,
			x.Item.Since.Format("2006-01-02 15:04"), control.Count(n, "more run")))
	}
}

// finish journals the end, frees slot and agent, and releases the claim. lost is as in run.
func (rn *sessionRunner) finish(x *session, end *ledger.End) (lost time.Time) {
	at := time.Now()
	end.Receipt = rn.receipting.receipt(x, end, at)
	showing := rn.receipting.beginShowing(end.Receipt)
	news, ended := ending(rn.stateDir, x, end), x.recent(end, at)
	freed := at
	err := rn.state.recordThen(ledger.Record{At: at, End: end}, func(b *state) {
		freed = time.Now()
		delete(b.sessions, x.RunID)
	})
	if err == nil { // otherwise the next supervisor has to get the outcome again; it then tells the executor
		forget(rn.executor(x.thread.Executor), x.RunID)
	}
	rn.logNotices(news)
	rn.events.Send(control.EventEnded, ended)
	rn.touchStatus()
	if end.Claim == ledger.ClaimTaken {
		x.write.end()
		return freed
	}
	rn.kicks.thread(x.Thread, at)
	rn.receipting.showNow(showing)
	if x.claims() {
		rn.labelBeforeRelease(x)
		rn.release(x)
	}
	rn.kicks.thread(x.Thread, x.write.end())
	return lost
}

// recent returns the document of a session that ended.
func (x *session) recent(e *ledger.End, at time.Time) control.RecentDocument {
	return control.RecentDocument{
		RunID: x.RunID, Agent: x.Agent, Repo: x.Item.Ref.Repo, Number: x.Item.Ref.Number, Kind: x.Item.Kind,
		Outcome: e.Result, Reason: e.Reason, LastLine: e.LastLine, StartedAt: x.reserved, EndedAt: at,
	}
}

// labelBeforeRelease writes the label that keeps every supervisor's agents off the item, if one is due. If the forge
// does not answer, and while the supervisor stops, a later plan writes the label.
func (rn *sessionRunner) labelBeforeRelease(x *session) {
	if rn.until.Err() != nil {
		return
	}
	if c := rn.state.labelBeforeRelease(x.Item.Ref, time.Now(), rn.room()); c != nil {
		rn.clerk.do(c)
	}
}

// release releases the claim. If that fails, reconcile finds a claim without a session.
func (rn *sessionRunner) release(x *session) {
	limit := callTimeout
	if rn.until.Err() != nil {
		limit = releaseTime
	}
	err := rn.call(rn.base, limit, func(ctx context.Context, f Forge) error {
		return f.Release(ctx, x.Item.Ref, x.agent.Login)
	})
	if err != nil {
		rn.of(x.RunID).Info(fmt.Sprintf("%s cannot release the claim yet: %s", x.tag, text(err)))
		return
	}
	rn.state.record(ledger.Record{At: time.Now(), Released: &ledger.Released{Ref: ledger.Ref(x.Item.Ref)}})
}

// report returns everything known about a session at the end of its program. ran is false if the program never
// started.
func (x *session) report(out agents.Outcome, ran bool, stop threads.Code) *ledger.Report {
	r := &ledger.Report{
		Run: x.RunID, Item: x.Item, Login: x.agent.Login, Breaker: x.thread.BreakerInterval,
		Outcome: out, Ran: ran,
	}
	if out.Result == agents.Cancelled || out.Result == agents.OverBudget {
		r.Stop = stop
	}
	return r
}

// fetchOutcome adds the forge's view of the session's item, and asks until the forge answers. After the first failure
// the slot and the agent take other work; the item itself stays excluded. answered is false if the supervisor stops
// first; the session is then lost, which burns no attempt.
func (rn *sessionRunner) fetchOutcome(x *session, report *ledger.Report) (answered bool) {
	for limit, rest := lookTime, lookRestMin; ; rest = min(2*rest, lookRestMax) {
		var look forge.ItemFacts
		err := rn.call(rn.base, limit, func(ctx context.Context, f Forge) (err error) {
			look, err = f.FetchItem(ctx, x.Item.Ref, x.begun())
			return err
		})
		switch {
		case err == nil:
			report.Look = &look
			return true
		case errors.Is(err, forge.ErrNotFound):
			report.Gone = true
			return true
		case limit == lookTime:
			rn.retire(x, err)
		}
		limit = callTimeout
		select {
		case <-rn.until.Done():
			return false
		case <-time.After(rest):
		}
	}
}

// begun returns when the program started. The time does not change after the program has ended.
func (x *session) begun() time.Time { return x.Started }

// retire frees the slot and the agent of a session that has ended but is not judged.
func (rn *sessionRunner) retire(x *session, err error) {
	rn.state.drop(x)
	rn.of(x.RunID).Info(fmt.Sprintf("%s ended; its outcome waits for the forge: %s", x.tag, text(err)))
	rn.kicks.thread(x.Thread, time.Now())
	rn.touchStatus()
}

// ending returns the log line of a session that ended.
func ending(stateDir string, x *session, e *ledger.End) notice {
	if e.Claim == ledger.ClaimTaken { // not a fault: this is how hosts share the work
		return notice{run: x.RunID, words: x.tag + " goes to another: " + e.Reason}
	}
	words := fmt.Sprintf("%s %s %s", x.tag, task(&x.Item), e.Result)
	if e.Result.BurnsAttempt() && !e.NeverRan && x.Item.Kind != agents.KindSchedule {
		words += fmt.Sprintf(" (attempt %d of %d)", x.Attempt, threads.MaxAttempts)
	}
	for _, why := range []string{e.Reason, e.LastLine} {
		if why != "" {
			words += ": " + why
		}
	}
	if e.Result.Fails() && !e.NeverRan {
		words += " (" + logPath(stateDir, x.Agent, x.RunID) + ")"
	}
	// One failed attempt needs nobody: the next one follows, and an agent that fails again and again is an alarm.
	return notice{run: x.RunID, warn: e.Result == agents.TokenRejected || e.Result == agents.NoPlace, words: words}
}

// inSession runs a session's goroutine. After a panic the session counts as failed, and its claim, slot and agent are
// freed.
func (rn *sessionRunner) inSession(x *session, live func(*session)) {
	rn.background(&rn.running, "the end of "+x.tag+" "+x.RunID, func() {
		defer close(x.gone)
		defer x.cancel(nil)
		if !rn.safely("the session "+x.tag+" "+x.RunID, func() { live(x) }) {
			old := x.write
			x.write = rn.state.beginWrite(x.Item.Ref)
			defer x.write.end()
			if old != nil {
				old.end()
			}
			rn.finish(x, &ledger.End{Run: x.RunID, Result: agents.Failed, Reason: internalError})
		}
	})
}
