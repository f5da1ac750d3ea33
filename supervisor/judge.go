package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

const (
	// lookTime is how long a slot waits for the forge to say how its session ended.
	lookTime = 10 * time.Second
	// lookRestMin and lookRestMax bound the pause between further questions, which hold no slot.
	lookRestMin = 5 * time.Second
	lookRestMax = time.Minute
	// tailMax bounds the output that is kept of a failure, in bytes: the end of a stack trace.
	tailMax = 4 << 10
)

// judge says how a session ended. Where the program did not say so itself the forge is asked, for as long as it
// takes: guessing would burn an attempt, or do the work twice. It returns nil if the supervisor stops before there is
// an answer; the session is then lost, which costs nothing.
func (s *Supervisor) judge(x *session, out agents.Outcome, ran bool) *ledger.End {
	end := &ledger.End{Run: x.RunID, NeverRan: !ran, Breaker: x.thread.BreakerInterval}
	closed := out.Result == agents.Cancelled && s.books.stopCode(x) == threads.StopClosed
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
	s.fill(end, x, out)
	return end
}

// fill copies what is kept of an outcome.
func (s *Supervisor) fill(end *ledger.End, x *session, out agents.Outcome) {
	secrets := secretsOf(x.config)
	end.Result, end.Reason, end.RetryAt = out.Result, agents.Redact(out.Reason, secrets), out.RetryAt
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
		end.Tail = lastLines(agents.Redact(out.Tail, secrets), tailMax)
		if !out.Claimed {
			end.LastLine = lastLine(end.Tail)
		}
	}
	if out.Result == agents.Cancelled {
		end.Stop = s.books.stopCode(x)
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

// lastLine is the last line of a text that has something in it. "exit status 22" helps nobody, and what a program
// prints last most often does.
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
