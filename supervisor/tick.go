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
func (p *planner) tick(ctx context.Context, thread string, need time.Time) (delay time.Duration) {
	defer func() {
		if v := recover(); v != nil {
			p.panicked("a tick of "+thread, v, debug.Stack())
			delay = p.panicDelay(thread)
		}
	}()
	p.mendJournal()
	p.scanner.scan(ctx, need)
	if ctx.Err() != nil {
		return 0
	}
	p.sessions.recheckRejected(ctx, thread)
	now := time.Now()
	t := p.state.tick(thread, now, p.room())
	if t.more {
		p.kicks.thread(thread, now)
	}
	p.act(t)
	if p.pausing.asking.Load() {
		p.pausing.askFirst()
	}
	p.pausing.endDrain()
	p.rebalance(now)
	return t.delay
}

// act carries out the committed plan.
func (p *planner) act(t todo) {
	for _, x := range t.stops {
		p.of(x.RunID).Info(fmt.Sprintf("%s stopping: %s", x.tag, context.Cause(x.ctx)))
	}
	for _, x := range t.starts {
		p.sessions.inSession(x, p.runThenNext)
	}
	for _, c := range t.chores {
		p.clerk.startChore(&p.running, c)
	}
	began := p.state.scanned().began
	for _, name := range t.kicks {
		p.kicks.thread(name, began)
	}
	p.recordTick(&t)
	p.state.answers.Write(time.Now(), t.answers)
	for _, h := range t.held {
		p.events.Send(control.EventHeld, queueDocument(h))
	}
	for _, v := range p.problems.violated(t.broken) {
		p.log.Error(fmt.Sprintf("%s internal error, not carried out: %s", tag(p.state.config(), "", v.Ref), v.Words))
	}
	p.touchStatus()
}

// recordTick journals what a tick found: claims that are gone, items to forget, the sessions' usage, and ended times
// beside work.
func (p *planner) recordTick(t *todo) {
	for _, r := range t.dropped {
		p.state.record(ledger.Record{At: time.Now(), Released: &ledger.Released{Ref: ledger.Ref(r)}})
	}
	for _, r := range t.gone {
		p.state.record(ledger.Record{At: time.Now(), Forget: &ledger.Forget{Ref: ledger.Ref(r)}})
	}
	for i := range t.used { // each record has a session's whole usage, so the state already counts it
		p.state.record(ledger.Record{At: time.Now(), Used: &t.used[i]})
	}
	for i := range t.idled {
		p.state.record(ledger.Record{At: time.Now(), Free: &t.idled[i]})
	}
}

// panicDelay returns how long a thread rests after a panic.
func (p *planner) panicDelay(thread string) time.Duration {
	if cfg := p.state.config(); cfg != nil && cfg.Thread(thread) != nil {
		return cfg.Thread(thread).IdleInterval
	}
	return longRest
}

// runThenNext runs a session. If another host took the session's item, the slot takes the next item.
func (p *planner) runThenNext(x *session) {
	if lost := p.sessions.run(x); !lost.IsZero() {
		p.takeNext(x.Thread, lost)
	}
}

// takeNext starts the thread's next item after another host took the last one. It does not scan: the present facts are
// good enough, because only the lost item must be read again. On a slow forge two hosts that scanned after each lost
// race also collided on the next item. If two sessions lose at the same time, the first takeNext may find both slots
// free and fill them, which leaves none for the second.
func (p *planner) takeNext(thread string, freed time.Time) {
	now := time.Now()
	t := p.state.tick(thread, now, p.room())
	p.act(t)
	if len(t.starts) == 0 && !p.state.startedSince(thread, freed) {
		p.kicks.thread(thread, now)
	}
}
