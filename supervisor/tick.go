package supervisor

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// tick is one pass of a thread: scan, decide, act. It returns the delay until the next pass. A panic ends here: a bug
// in one pass must not stop the other threads.
func (s *Supervisor) tick(ctx context.Context, thread string, need time.Time) (delay time.Duration) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked("a tick of "+thread, v, debug.Stack())
			delay = s.panicDelay(thread)
		}
	}()
	s.mendJournal()
	s.scanner.scan(ctx, need)
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

// act carries out the committed plan.
func (s *Supervisor) act(t todo) {
	for _, x := range t.stops {
		s.log.Info(fmt.Sprintf("%s stopping: %s", x.tag, context.Cause(x.ctx)))
	}
	for _, x := range t.starts {
		s.sessions.inSession(x, s.runThenNext)
	}
	for _, c := range t.chores {
		s.clerk.inChore(&s.running, c)
	}
	began := s.books.scanned().began
	for _, name := range t.kicks {
		s.kicks.thread(name, began)
	}
	s.remember(&t)
	s.books.answers.Write(time.Now(), t.answers)
	for _, h := range t.held {
		s.events.Send(control.EventHeld, queueDocument(h))
	}
	for _, v := range s.problems.violated(t.broken) {
		s.log.Error(fmt.Sprintf("%s internal error, not carried out: %s", tag(s.books.config(), "", v.Ref), v.Words))
	}
	s.touchStatus()
}

// remember journals what a tick found: claims that are gone, items to forget, the sessions' usage, and ended times
// beside work.
func (s *Supervisor) remember(t *todo) {
	for _, r := range t.dropped {
		s.books.note(ledger.Record{At: time.Now(), Released: &ledger.Released{Ref: ledger.Ref(r)}})
	}
	for _, r := range t.gone {
		s.books.note(ledger.Record{At: time.Now(), Forget: &ledger.Forget{Ref: ledger.Ref(r)}})
	}
	for i := range t.used { // each record has a session's whole usage, so the books already count it
		s.books.note(ledger.Record{At: time.Now(), Used: &t.used[i]})
	}
	for i := range t.stood {
		s.books.note(ledger.Record{At: time.Now(), Free: &t.stood[i]})
	}
}

// panicDelay returns how long a thread rests after a panic.
func (s *Supervisor) panicDelay(thread string) time.Duration {
	if cfg := s.books.config(); cfg != nil && cfg.Thread(thread) != nil {
		return cfg.Thread(thread).IdleInterval
	}
	return longRest
}

// runThenNext runs a session. If another host took the session's item, the slot takes the next item.
func (s *Supervisor) runThenNext(x *session) {
	if lost := s.sessions.run(x); !lost.IsZero() {
		s.takeNext(x.Thread, lost)
	}
}

// takeNext starts the thread's next item after another host took the last one. It does not scan: the present facts are
// good enough, because only the lost item must be read again. On a slow forge two hosts that scanned after each lost
// race also collided on the next item. If two sessions lose at the same time, the first takeNext may find both slots
// free and fill them, which leaves none for the second.
func (s *Supervisor) takeNext(thread string, freed time.Time) {
	now := time.Now()
	t := s.books.tick(thread, now, s.room())
	s.act(t)
	if len(t.starts) == 0 && !s.books.startedSince(thread, freed) {
		s.kicks.thread(thread, now)
	}
}
