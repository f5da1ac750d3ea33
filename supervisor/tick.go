package supervisor

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// longRest is the pause of a loop that has no interval of its own: while nothing may begin, and after a panic of a
// thread that is no longer configured.
const longRest = 30 * time.Second

// tick is one pass of a thread: scan, decide, act. It returns how long to wait for the next one. A mistake in one pass
// must not stop what the other threads do, so a panic ends here.
func (s *Supervisor) tick(ctx context.Context, thread string, need time.Time) (delay time.Duration) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked("a tick of "+thread, v, debug.Stack())
			delay = s.panicDelay(thread)
		}
	}()
	s.mendJournal()
	s.scan(ctx, need)
	if ctx.Err() != nil {
		return 0
	}
	now := time.Now()
	t := s.books.tick(thread, now, s.room())
	if t.more {
		s.kicks.thread(thread, now)
	}
	s.act(t)
	if s.asking.Load() {
		s.askFirst()
	}
	s.rebalance(now)
	return t.delay
}

// act does what was committed.
func (s *Supervisor) act(t todo) {
	for _, x := range t.stops {
		s.log.Info(fmt.Sprintf("%s stopping: %s", x.tag, context.Cause(x.ctx)))
	}
	for _, x := range t.starts {
		s.inSession(x, s.run)
	}
	for _, c := range t.chores {
		s.inChore(&s.running, c)
	}
	began := s.books.scanned().began
	for _, name := range t.kicks {
		s.kicks.thread(name, began)
	}
	if t.asked != nil {
		s.books.shadow.Hand(t.asked)
	}
	s.remember(&t)
	for _, h := range t.held {
		s.events.Send(control.EventHeld, queueDocument(h))
	}
	for _, v := range s.problems.violated(t.broken) {
		s.log.Error(fmt.Sprintf("%s internal error, kept back: %s", tag(s.books.config(), "", v.Ref), v.Words))
	}
	s.touchStatus()
}

// remember journals what a tick found to be over.
func (s *Supervisor) remember(t *todo) {
	for _, r := range t.dropped {
		s.books.note(ledger.Record{At: time.Now(), Released: &ledger.Released{Ref: ledger.Ref(r)}})
	}
	for _, r := range t.gone {
		s.books.note(ledger.Record{At: time.Now(), Forget: &ledger.Forget{Ref: ledger.Ref(r)}})
	}
	for i := range t.used { // which adds nothing to the books: each is the whole use of a session
		s.books.note(ledger.Record{At: time.Now(), Used: &t.used[i]})
	}
	for i := range t.stood {
		s.books.note(ledger.Record{At: time.Now(), Free: &t.stood[i]})
	}
}

// panicDelay is how long a thread rests after a panic.
func (s *Supervisor) panicDelay(thread string) time.Duration {
	if cfg := s.books.config(); cfg != nil && cfg.Thread(thread) != nil {
		return cfg.Thread(thread).IdleInterval
	}
	return longRest
}
