package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// releaseTime bounds the releases while the supervisor stops: with the default grace it ends under Docker's 10 s.
const releaseTime = 2 * time.Second

// A session's life. Every arrow out of a box is taken on every path; what is written behind a slash is journalled
// first.
//
//	reserved -> identity checked -> /start -> claimed -> running -> ended -> judged -> /end -> released -> /released
//	    \____________\__________________________\ (claim failed) _____________________/
//
// The slot and the agent are taken from reserved to /end; the item cannot be decided on from the claim's beginning
// until a scan that was asked for after the release.

const (
	// lookTime is how long a slot waits for the forge to say how its session ended.
	lookTime = 10 * time.Second
	// lookRestMin and lookRestMax bound the pause between further questions, which hold no slot.
	lookRestMin = 5 * time.Second
	lookRestMax = time.Minute
	// tailMax bounds the output that is kept of a failure, in bytes: the end of a stack trace.
	tailMax = 4 << 10
)

var errShutdown = errors.New("the supervisor stops")

// run is a session from its reservation to its release.
func (s *Supervisor) run(x *session) {
	if !s.identified(x) || s.books.append(startOf(x)) != nil {
		s.books.drop(x) // a later tick tries again
		s.touchStatus()
		return
	}
	s.fleetFile.Write() // before anything runs: the hub gives an idle agent more to do
	x.grip = s.books.grip(x.Item.Ref)
	if failed := s.claim(x); failed != nil {
		s.finish(x, failed)
		return
	}
	x.grip.letGo()
	s.events.Send(control.EventClaimed, s.books.show(x))
	out, ran := s.execute(x)
	s.conclude(x, out, ran)
}

// conclude is a session after the end of its program.
func (s *Supervisor) conclude(x *session, out agents.Outcome, ran bool) {
	x.grip = s.books.grip(x.Item.Ref)
	if end := s.judge(x, out, ran); end != nil {
		s.finish(x, end)
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
		s.safely("the start of "+x.tag, func() { s.started(x, begun) })
	})
	return out, ran
}

// started notes that the session's program runs.
func (s *Supervisor) started(x *session, begun agents.Started) {
	defer close(x.atWork)
	s.books.began(x, begun)
	s.log.Info(fmt.Sprintf("%s running %s", x.tag, task(&x.Item)))
	s.events.Send(control.EventStarted, s.books.show(x))
	s.touchStatus()
}

// finish journals the end, frees slot and agent, and takes the claim off the forge.
func (s *Supervisor) finish(x *session, end *ledger.End) {
	at := time.Now()
	news, ended := ending(s.StateDir, x, end), x.recent(end, at)
	s.books.noteThen(ledger.Record{At: at, End: end}, func(b *books) { delete(b.sessions, x.RunID) })
	s.tell(news)
	s.events.Send(control.EventEnded, ended)
	s.kicks.thread(x.Thread, at)
	s.touchStatus()
	if x.claims() && end.Claim != ledger.ClaimTaken {
		s.release(x)
	}
	s.kicks.thread(x.Thread, x.grip.letGo())
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
	s.books.note(ledger.Record{At: time.Now(), Released: &ledger.Released{Ref: ledger.Ref(x.Item.Ref)}})
}

// judge says how a session ended. Where the program did not say so itself the forge is asked, for as long as it
// takes: guessing would burn an attempt, or do the work twice. It returns nil if the supervisor stops before there is
// an answer; the session is then lost, which costs nothing.
func (s *Supervisor) judge(x *session, out agents.Outcome, ran bool) *ledger.End {
	end := &ledger.End{Run: x.RunID, NeverRan: !ran, Breaker: x.thread.BreakerInterval}
	if out.Result == agents.Cancelled {
		end.Stop = s.books.stopCode(x)
	}
	closed := end.Stop == threads.StopClosed
	if ran && (closed || threads.AsksForge(x.Item, out)) {
		look, err := s.look(x)
		switch {
		case errors.Is(err, forge.ErrNotFound):
			out.Result, out.Reason = agents.Cancelled, "gone from the forge"
		case err != nil:
			return nil
		default:
			var effect threads.Effect
			out, effect = threads.Judge(x.Item, x.agent.Login, out, look, x.Item.HeadSHA)
			end.Remarked = effect == threads.Remarked
			end.Verdict = ledger.VerdictOf(threads.VerdictOf(x.Item, x.agent.Login, look))
		}
	}
	fill(end, out, x.secrets)
	return end
}

// fill copies what is kept of an outcome, without the secrets that the program printed.
func fill(end *ledger.End, out agents.Outcome, secrets []string) {
	hide := func(text string) string { return agents.Redact(text, secrets) }
	end.Result, end.Reason, end.RetryAt = out.Result, hide(out.Reason), out.RetryAt
	end.Session, end.CPU, end.MaxRSS = out.SessionID, out.CPU, out.MaxRSS
	if out.Usage != (agents.Usage{}) {
		end.Usage = &out.Usage
	}
	switch {
	case out.Signal != "":
		end.Exit = out.Signal
	case out.ExitCode != 0:
		end.Exit = fmt.Sprint(out.ExitCode)
	}
	if out.Result.BurnsAttempt() {
		end.Tail = lastLines(hide(out.Tail), tailMax)
		if !out.Claimed {
			end.LastLine = lastLine(end.Tail)
		}
	}
}

// lastLines is the end of a text in at most limit bytes, from the beginning of a line if there is one.
func lastLines(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, whole, found := strings.Cut(text, "\n"); found {
		text = whole
	}
	return strings.ToValidUTF8(text, "")
}

// lineMax bounds a last line in runes: it stands in a table.
const lineMax = 200

// lastLine returns the last line of a text that is not blank. It most often says more than "exit status 22".
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	line := []rune(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]))
	if len(line) > lineMax {
		line = append(line[:lineMax-1], '…')
	}
	return string(line)
}

// look asks the forge about the session's item until it answers. After the first time without an answer the slot and
// the agent go on to other work; the item itself stays out of reach.
func (s *Supervisor) look(x *session) (forge.Look, error) {
	limit, rest := lookTime, lookRestMin
	for {
		var look forge.Look
		err := s.call(s.base, limit, func(ctx context.Context, f Forge) (err error) {
			look, err = f.Look(ctx, x.Item.Ref, x.begun())
			return err
		})
		if err == nil || errors.Is(err, forge.ErrNotFound) {
			return look, err
		}
		if limit == lookTime {
			s.retire(x, err)
		}
		limit = callTimeout
		select {
		case <-s.until.Done():
			return look, err
		case <-time.After(rest):
		}
		rest = min(2*rest, lookRestMax)
	}
}

// begun is when the program began. Nothing changes it any more once the program ended.
func (x *session) begun() time.Time { return x.Started }

// retire frees the slot and the agent of a session that is over but not judged.
func (s *Supervisor) retire(x *session, err error) {
	s.books.drop(x)
	s.log.Warn(fmt.Sprintf("%s ended; how will be known when the forge answers: %s", x.tag, text(err)))
	s.kicks.thread(x.Thread, time.Now())
	s.touchStatus()
}

// task names what an agent does with an item.
func task(it *threads.Item) string {
	switch it.Kind {
	case agents.KindIssue:
		return "implementation"
	case agents.KindSchedule:
		return "scheduled " + it.Role
	}
	return string(it.Kind)
}

// ending is the log line of a session that ended.
func ending(stateDir string, x *session, e *ledger.End) notice {
	words := fmt.Sprintf("%s %s %s", x.tag, task(&x.Item), e.Result)
	if e.Result.BurnsAttempt() && !e.NeverRan && x.Item.Kind != agents.KindSchedule {
		words += fmt.Sprintf(" (attempt %d of %d)", x.Attempt, threads.MaxAttempts)
	}
	for _, why := range []string{e.Reason, e.LastLine} {
		if why != "" {
			words += ": " + why
		}
	}
	if e.Result.BurnsAttempt() && !e.NeverRan {
		words += " (" + logPath(stateDir, x.Agent, x.RunID) + ")"
	}
	return notice{bad: e.Result.BurnsAttempt(), words: words}
}
