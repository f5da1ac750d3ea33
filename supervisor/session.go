package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// A session's life. Every arrow out of a box is taken on every path; what is written behind a slash is journalled
// first.
//
//	reserved -> identity checked -> /start -> claimed -> running -> ended -> judged -> /end -> released -> /released
//	    \____________\__________________________\ (claim failed) _____________________/
//
// The slot and the agent are taken from reserved to /end; the item cannot be decided on from the claim's beginning
// until a scan that was asked for after the release.

var errShutdown = errors.New("the supervisor stops")

// run is a session from its reservation to its release.
func (s *Supervisor) run(x *session) {
	defer close(x.gone)
	defer x.cancel(nil)
	if !s.identified(x) || s.append(startOf(x)) != nil {
		s.books.drop(x) // a later tick tries again
		s.touchStatus()
		return
	}
	s.fleetFile.Write() // before anything runs: the hub gives an idle agent more to do
	grip := s.books.grip(x.Item.Ref)
	if failed := s.claim(x); failed != nil {
		s.finish(x, failed, grip)
		return
	}
	grip.letGo()
	s.events.Send(control.EventClaimed, s.books.show(x))
	out, ran := s.execute(x)
	s.conclude(x, out, ran)
}

// conclude is a session after the end of its program.
func (s *Supervisor) conclude(x *session, out agents.Outcome, ran bool) {
	grip := s.books.grip(x.Item.Ref)
	if end := s.judge(x, out, ran); end != nil {
		s.finish(x, end, grip)
	}
}

func startOf(x *session) ledger.Record {
	return ledger.Record{At: time.Now(), Start: &ledger.Start{
		Run: x.RunID, Thread: x.Thread, Slot: x.Slot, Sticky: !x.thread.Overlap, Agent: x.Agent, Login: x.agent.Login,
		Role: x.Role, Item: ledger.KeyOf(x.Item.Key()), Chain: ledger.Ref(x.Item.Chain), Cause: x.Item.Cause,
		Attempt:    x.Attempt,
		PassedOver: ledger.KeyOf(x.over), Ready: x.ready, Priority: x.Item.Priority, Skills: x.skills,
	}}
}

// claim takes the item on the forge under the agent's login. It returns how the session ended if it could not.
func (s *Supervisor) claim(x *session) *ledger.End {
	if !x.claims() {
		return nil
	}
	err := s.call(x.ctx, callTimeout, func(ctx context.Context, f Forge) error {
		return f.Claim(ctx, x.Item.Ref, x.agent.Login, x.RunID)
	})
	if err == nil && x.ctx.Err() == nil {
		return nil
	}
	end := &ledger.End{Run: x.RunID, Result: agents.ClaimFailed, Claim: ledger.ClaimUnavailable, NeverRan: true}
	switch {
	case x.ctx.Err() != nil:
		end.Result, end.Claim, end.Reason, end.Stop = agents.Cancelled, "", context.Cause(x.ctx).Error(), s.books.stopCode(x)
	case errors.Is(err, forge.ErrTaken), errors.Is(err, forge.ErrNotFound):
		end.Claim, end.Reason = ledger.ClaimTaken, text(err)
	case errors.Is(err, forge.ErrForbidden):
		end.Claim, end.Reason = ledger.ClaimForbidden, text(err) // it names the item
	default:
		end.Reason = text(err)
	}
	return end
}

// execute runs the program and waits until nothing of it is left. ran is false when it never began.
func (s *Supervisor) execute(x *session) (out agents.Outcome, ran bool) {
	job, err := s.job(x)
	if err != nil {
		return agents.Outcome{Result: agents.Failed, Reason: text(err), Claimed: true}, false
	}
	out = s.Executor.Run(x.ctx, job, func(begun agents.Started) {
		ran = true
		s.books.began(x, begun)
		s.log.Info(fmt.Sprintf("%s running %s", x.tag, task(&x.Item)))
		s.events.Send(control.EventStarted, s.books.show(x))
		close(x.atWork)
		s.touchStatus()
	})
	return out, ran
}

// finish journals the end, frees slot and agent, and takes the claim off the forge.
func (s *Supervisor) finish(x *session, end *ledger.End, grip *grip) {
	ended := ledger.Record{At: time.Now(), End: end}
	s.noteThen(ended, func(b *books) { delete(b.sessions, x.RunID) })
	s.tell(ending(s.StateDir, x, end))
	s.events.Send(control.EventEnded, x.recent(end, ended.At))
	s.kicks.thread(x.Thread, ended.At)
	s.touchStatus()
	if x.claims() && end.Claim != ledger.ClaimTaken {
		s.release(x)
	}
	s.kicks.thread(x.Thread, grip.letGo())
}

// recent is the document of a session that ended.
func (x *session) recent(e *ledger.End, at time.Time) control.RecentDocument {
	return control.RecentDocument{
		RunID: x.RunID, Agent: x.Agent, Repo: x.Item.Ref.Repo, Number: x.Item.Ref.Number, Kind: x.Item.Kind,
		Outcome: e.Result, Reason: e.Reason, LastLine: e.LastLine, StartedAt: x.reserved, EndedAt: at,
	}
}

// release takes the claim off. What does not succeed is left to reconcile, which finds a claim without a session.
func (s *Supervisor) release(x *session) {
	limit := callTimeout
	if s.until.Err() != nil {
		limit = releaseTime
	}
	err := s.call(s.base, limit, func(ctx context.Context, f Forge) error {
		return f.Release(ctx, x.Item.Ref, x.agent.Login)
	})
	if err != nil {
		s.log.Warn(fmt.Sprintf("%s claim not released yet: %s", x.tag, text(err)))
		return
	}
	s.note(ledger.Record{At: time.Now(), Released: &ledger.Released{Ref: ledger.Ref(x.Item.Ref)}})
}
