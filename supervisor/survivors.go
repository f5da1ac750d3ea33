package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Sessions that run elsewhere outlive the supervisor. The journal has everything needed to continue one before its
// program can run: the start, and after the claim the facts by which its end is judged (ledger.Sent). So wherever a
// kill hits the supervisor, the next one either continues the session, or knows that the session was never sent.

// keptRestMin and keptRestMax bound the back-off while an engine does not answer the question for kept sessions.
const (
	keptRestMin = 5 * time.Second
	keptRestMax = time.Minute
)

var errUnknown = errors.New("the journal does not know it")

// outlives reports whether an open session continues without the supervisor that started it.
func (rn *sessionRunner) outlives(o *ledger.Open) bool {
	return o.Outlives() && rn.elsewhere[o.Executor] != nil
}

// resumeElsewhere continues the sessions elsewhere that the last supervisor, or image, left running.
func (rn *sessionRunner) resumeElsewhere() {
	list := rn.state.resumeElsewhere(rn.outlives)
	for _, x := range list {
		rn.inSession(x, rn.resume)
	}
	if len(list) > 0 {
		rn.log.Info(fmt.Sprintf("disinto continues %s elsewhere that started before it",
			control.Count(len(list), "session")))
	}
}

func (st *state) resumeElsewhere(outlives func(*ledger.Open) bool) (list []*session) {
	st.lockToChange()
	defer st.mu.Unlock()
	for _, run := range slices.Sorted(maps.Keys(st.ledger.Open)) {
		o := st.ledger.Open[run]
		if !outlives(&o) {
			continue
		}
		x := continued(&HandedSession{Session: o.Session(), Login: o.Login, Reserved: o.At}, st.cfg, st.base)
		x.thread.Executor, x.place, x.sent = o.Executor, o.Place, true
		x.PerSession, x.PerIssue = x.role.PerSession, x.role.PerIssue
		x.written, x.writtenAt = o.Used, time.Now()
		st.sessions[run] = x
		list = append(list, x)
	}
	return list
}

// settleElsewhere ends our sessions that an engine keeps and the journal does not know. If the journal may have lost
// some, nothing starts before that is done, or an item could be worked on twice. Otherwise only an older copy of the
// state directory can have left such sessions, and nothing waits.
func (rn *sessionRunner) settleElsewhere(ctx context.Context) {
	for _, name := range rn.usedElsewhere() {
		if rn.unsure {
			rn.settle(ctx, name)
		} else {
			rn.inLoop("the sessions that "+name+" keeps", func() { rn.settle(ctx, name) })
		}
	}
}

// usedElsewhere returns the names of the executors elsewhere that threads use, sorted.
func (rn *sessionRunner) usedElsewhere() []string {
	used := make(map[string]bool)
	if config := rn.state.config(); config != nil {
		for i := range config.Threads {
			if name := config.Threads[i].Executor; rn.elsewhere[name] != nil {
				used[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// settle does settleElsewhere for one executor. It asks until the engine answers.
func (rn *sessionRunner) settle(ctx context.Context, name string) {
	e := rn.elsewhere[name]
	for rest := keptRestMin; ctx.Err() == nil; rest = min(2*rest, keptRestMax) {
		before := rn.state.openRuns()
		runs, err := e.Unreported(ctx, rn.instance)
		if err == nil {
			rn.unsettled("")
			rn.endUnknown(e, slices.DeleteFunc(runs, func(run string) bool { return before[run] }))
			return
		}
		words := fmt.Sprintf("cannot ask %s for the sessions that it keeps: %s", name, text(err))
		if rest == keptRestMin && ctx.Err() == nil {
			rn.log.Warn(words)
		}
		if rn.unsure {
			rn.unsettled(words + ": nothing is started before it answers, because the journal may not know them")
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

// unsettled shows why nothing starts yet; "" means that starts are allowed.
func (rn *sessionRunner) unsettled(words string) {
	rn.problems.setUnsettled(words)
	rn.touchStatus()
}

// endUnknown ends the given runs, except sessions that are open in the ledger, and returns when they have ended.
func (rn *sessionRunner) endUnknown(e Executor, runs []string) {
	open := rn.state.openRuns()
	runs = slices.DeleteFunc(runs, func(run string) bool { return open[run] })
	if rn.unsure && len(runs) > 0 {
		rn.unsettled("nothing is started before the end of " + control.Count(len(runs), "session") +
			" elsewhere that the journal does not know")
		defer rn.unsettled("")
	}
	var all sync.WaitGroup
	for _, run := range runs {
		rn.log.Warn(fmt.Sprintf("ending the session %s: %s", run, errUnknown))
		rn.background(&all, "the end of "+run, func() {
			ctx, end := context.WithCancelCause(rn.base)
			end(errUnknown)
			e.Run(ctx, agents.Job{RunID: run}, nil)
		})
	}
	all.Wait()
}

// openRuns returns the run ids of all sessions that have not ended.
func (st *state) openRuns() map[string]bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	open := make(map[string]bool, len(st.ledger.Open))
	for run := range st.ledger.Open {
		open[run] = true
	}
	return open
}
