package supervisor

import (
	"context"
	"time"

	"codeberg.org/johba/disinto/supervisor/fleet"
)

// planner runs a loop for each thread: it scans, decides with the threads' one shared plan, and acts.
type planner struct {
	*core
	scanner   *scanner
	sessions  *sessionRunner
	clerk     *clerk
	pausing   *pausing
	hub       *fleet.Hub
	elsewhere map[string]Executor // measures the room of machines elsewhere
}

// startLoops starts a loop for every configured thread that has none.
func (p *planner) startLoops() {
	cfg := p.state.config()
	if cfg == nil || !p.gate.isOpen() {
		return
	}
	for i := range cfg.Threads {
		name := cfg.Threads[i].Name
		if k := p.kicks.add(name); k != nil {
			p.inLoop("the loop of "+name, func() { p.loop(p.until, name, k.wake) })
		}
	}
}

// loop ticks one thread until ctx is done or the thread is no longer configured.
func (p *planner) loop(ctx context.Context, name string, wake <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	rested := time.Now() // since when the loop waits
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-wake:
		}
		if ctx.Err() != nil {
			return
		}
		t := p.state.config().Thread(name)
		if t == nil {
			p.kicks.remove(name)
			p.startLoops() // a reload may have configured the thread again meanwhile
			return
		}
		// A timer accepts facts that another thread has read since the last tick, so that twenty threads do not scan twenty
		// times as often. A kick requires facts requested after it.
		need := rested
		if half := time.Now().Add(-t.Interval / 2); half.Before(need) {
			need = half
		}
		if k := p.kicks.need(name); k.After(need) {
			need = k
		}
		timer.Reset(p.tick(ctx, name, need))
		rested = time.Now()
	}
}
