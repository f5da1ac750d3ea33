package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Sessions outlive the supervisor. The journal has everything needed to continue one before its program can run: the
// start, and after the claim the facts by which its end is judged (ledger.Sent). So wherever a kill hits the
// supervisor, the next one either continues the session, or knows that the session was never sent. An executor keeps an
// outcome until it hears that the journal has it (forgetter), so the next supervisor gets it again.

// keptRestMin and keptRestMax bound the back-off while an executor does not answer the question for kept sessions.
const (
	keptRestMin = 5 * time.Second
	keptRestMax = time.Minute
)

var errUnknown = errors.New("the journal does not know it")

// outlives reports whether an open session may continue without the supervisor that started it.
func (rn *sessionRunner) outlives(o *ledger.Open) bool {
	return o.Outlives() && rn.executor(o.Executor) != nil
}

// adopt enters the sessions that the last supervisor left running into the table. The caller resumes them.
func (st *state) adopt(outlives func(*ledger.Open) bool) (list []*session) {
	st.lockToChange()
	defer st.mu.Unlock()
	cfg := cmp.Or(st.cfg, new(threads.Config))
	for _, run := range slices.Sorted(maps.Keys(st.ledger.Open)) {
		o := st.ledger.Open[run]
		if outlives(&o) {
			x := continued(&o, cfg, st.base)
			x.secrets = append(cfg.Hidden(st.environ), proxyPassword(cfg, run))
			st.sessions[run] = x
			list = append(list, x)
		}
	}
	return list
}

// continued restores an open session. Agent, role and thread come from the current configuration, which is nearly
// always the one at the session's start. Where it lacks them, the journal is enough to end the session.
func continued(o *ledger.Open, cfg *threads.Config, base context.Context) *session {
	x := &session{
		Session: o.Session(), config: cfg, reserved: o.At, place: o.Place, sent: true, adopted: true,
		written: o.Used, writtenAt: time.Now(),
		tag: tag(cfg, o.Agent, forge.Ref(o.Item.Ref)), atWork: make(chan struct{}), gone: make(chan struct{}),
	}
	close(x.atWork)
	if a := x.config.Agent(x.Agent); a != nil {
		x.agent = *a
	}
	if r := x.config.Role(x.Role); r != nil {
		x.role = *r
	}
	if t := x.config.Thread(x.Thread); t != nil {
		x.thread = *t
	}
	x.agent.Name, x.agent.Login, x.agent.Model = x.Agent, o.Login, cmp.Or(o.Model, x.agent.Model)
	x.thread.Name, x.thread.Executor = x.Thread, o.Executor
	x.PerSession, x.PerIssue = x.role.PerSession, x.role.PerIssue
	x.ctx, x.cancel = context.WithCancelCause(base)
	if o.Stop != nil {
		x.cancel(stopped{o.Stop.Code, o.Stop.Why})
	}
	return x
}

// resumeAll waits for adopted sessions, and returns how many of them go on. Those on this machine that none of its
// executors keeps have ended with an earlier init, or never began.
func (rn *sessionRunner) resumeAll(list []*session, here []keeper) (goOn int) {
	for _, x := range list {
		keeps := func(k keeper) bool { return slices.Contains(k.runs, x.RunID) }
		if x.thread.Executor != "" || slices.ContainsFunc(here, keeps) {
			goOn++
		}
		rn.inSession(x, rn.resume)
	}
	if goOn > 0 {
		rn.log.Info(fmt.Sprintf("disinto continues %s that started before it", control.Count(goOn, "session")))
	}
	if lost := len(list) - goOn; lost > 0 {
		rn.log.Info(control.Count(lost, "session") + " of an earlier disinto did not outlive it")
	}
	return goOn
}

// tellCrash says in the status that the last supervisor died. The init has logged it.
func (s *Supervisor) tellCrash(sessions int) {
	if s.CrashWhy == "" {
		return
	}
	words := fmt.Sprintf("the supervisor was started again at %s, because it died (%s); %s went on",
		time.Now().Format("15:04"), s.CrashWhy, control.Count(sessions, "session"))
	if s.Crashes > 1 {
		words += fmt.Sprintf("; so far it died %d times", s.Crashes)
	}
	s.problems.setCrash(words)
}

// resume waits for a program that an earlier supervisor started, and concludes its session.
func (rn *sessionRunner) resume(x *session) {
	here, ran := x.thread.Executor == "", false
	job := agents.Job{
		RunID: x.RunID, Spent: func(u agents.Usage) { rn.spent(x, u) }, Doing: func(now agents.Doing) { rn.doing(x, now) },
	}
	out := rn.order(x, job, func(begun agents.Started) {
		ran = true
		if here {
			rn.state.began(x, begun)
			rn.deliver(x) // the last supervisor may have been killed before it did
		} else {
			rn.placed(x, begun)
		}
	})
	switch why := x.stop(); {
	case out.Result == agents.Lost && why.code != "": // it was being ended when its machine ended
		out.Result, out.Reason = agents.Cancelled, why.why
	case here && !ran && out.Result == agents.Killed: // its shim was killed with the last supervisor
		out.Result, ran = agents.Lost, true
	case here && !ran && out.Result == agents.Lost:
		out.Reason = endedUnder
	}
	rn.conclude(x, out, ran || !here) // an engine may have forgotten when the program of a session that ended began
}

// keeper is an executor with the runs that it keeps.
type keeper struct {
	Runner
	runs []string
}

// keepersHere returns this machine's executors with the runs that they keep. All other processes of earlier supervisors
// on this machine have ended when it returns. Nothing is released or started before that, because outside a PID
// namespace agents outlive a kill -9.
func (s *Supervisor) keepersHere(ctx context.Context) (list []keeper) {
	here := []Runner{s.Executor, s.Runner}
	if here[0] == here[1] {
		here = here[:1]
	}
	for _, e := range here {
		if e == nil {
			continue
		}
		if runs, err := s.sessions.kept(ctx, "this machine", e, true); err == nil {
			list = append(list, keeper{e, runs})
		}
	}
	return list
}

// settleElsewhere ends our sessions that an engine keeps and the journal does not know. If the journal may have lost
// some, nothing starts before that is done, or an item could be worked on twice. Otherwise only an older copy of the
// state directory can have left such sessions, and nothing waits.
func (rn *sessionRunner) settleElsewhere(ctx context.Context) {
	for _, name := range rn.usedElsewhere() {
		settle := func() {
			before := rn.state.openRuns()
			e := rn.elsewhere[name]
			if runs, err := rn.kept(ctx, name, e, rn.unsure); err == nil {
				runs = slices.DeleteFunc(runs, func(run string) bool { return before[run] })
				rn.endUnknown(keeper{e, runs}, rn.unsure)
			}
		}
		if rn.unsure {
			settle()
		} else {
			rn.inLoop("the sessions that "+name+" keeps", settle)
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

// kept returns the runs that an executor keeps. It asks until the executor answers; an error means that ctx is done.
// waits says that nothing starts before.
func (rn *sessionRunner) kept(ctx context.Context, name string, e Runner, waits bool) (runs []string, err error) {
	for rest := keptRestMin; ctx.Err() == nil; rest = min(2*rest, keptRestMax) {
		runs, err := e.Unreported(ctx, rn.Instance())
		if err == nil {
			rn.unsettled("")
			return runs, nil
		}
		words := fmt.Sprintf("cannot ask %s for the sessions that it keeps: %s", name, text(err))
		if rest == keptRestMin && ctx.Err() == nil {
			rn.log.Warn(words)
		}
		if waits {
			rn.unsettled(words + ": nothing is started before it answers, because the journal may not know them")
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
	return nil, ctx.Err()
}

// unsettled shows why nothing starts yet; "" means that starts are allowed.
func (rn *sessionRunner) unsettled(words string) {
	rn.problems.setUnsettled(words)
	rn.touchStatus()
}

// endUnknown ends the kept runs that the journal does not know as open, and returns when they have ended. waits says
// that nothing starts before.
func (rn *sessionRunner) endUnknown(k keeper, waits bool) {
	open, ended := rn.state.openRuns(), rn.state.endedRuns()
	var runs []string
	for _, run := range k.runs {
		switch _, forgets := k.Runner.(forgetter); {
		case open[run]:
		case forgets && ended[run]: // the last supervisor was killed after its `end` record
			forget(k.Runner, run)
		default:
			runs = append(runs, run)
		}
	}
	if waits && len(runs) > 0 {
		rn.unsettled("nothing is started before the end of " + control.Count(len(runs), "session") +
			" that the journal does not know")
		defer rn.unsettled("")
	}
	var all sync.WaitGroup
	for _, run := range runs {
		rn.of(run).Info("ending a session: " + errUnknown.Error())
		rn.background(&all, "the end of "+run, func() {
			ctx, end := context.WithCancelCause(rn.base)
			end(errUnknown)
			k.Run(ctx, agents.Job{RunID: run}, nil)
			forget(k.Runner, run)
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

// endedRuns returns the run ids of the sessions whose end is remembered.
func (st *state) endedRuns() map[string]bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	ended := make(map[string]bool, len(st.ledger.Past))
	for i := range st.ledger.Past {
		ended[st.ledger.Past[i].Run] = true
	}
	for i := range st.ledger.Recent {
		ended[st.ledger.Recent[i].RunID] = true
	}
	return ended
}
