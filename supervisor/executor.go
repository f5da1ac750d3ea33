package supervisor

import (
	"context"
	"io"
	"maps"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
)

// Executor runs the programs of sessions. agents/executortest tests an executor against this contract. Its methods may
// be called from several goroutines at once.
type Executor interface {
	// Run runs a job's program and returns when no process of the session is left. When ctx is done, Run ends the
	// processes, within about the job's grace, and the outcome is Cancelled with the context's cause as the reason. Run
	// calls started once, from any goroutine, when the program runs; never, if the program could not be started. Every
	// failure is an Outcome with a Result and, unless that is Done, a Reason. A run id may be run again after Run has
	// returned.
	//
	// For a session that an earlier supervisor started, Run starts nothing: the job has only its RunID, Spent and
	// Hurry, started may be nil, and Run waits for the running program. This machine's executor calls started also if
	// the program has ended meanwhile. If the executor does not know the run any more, the outcome is Lost. While it
	// cannot find out, Run waits. It reports the end of a run again, until Forget (see forgetter), or as long as its
	// engine remembers it: the supervisor may have been killed before it journalled the end. If an earlier supervisor
	// has ended the session, its reason counts.
	//
	// An executor of another machine leaves the session alone if the cause of ctx is agents.ErrDetached. Run then
	// returns soon: Lost if the program runs or may run, Cancelled if it never will.
	Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome
	// Activity returns a run's activity. ok is false for a run that is unknown, has ended or has not started its program.
	// Every status calls Activity, so it must be fast.
	Activity(runID string) (a agents.Activity, ok bool)
	// Unreported returns the run ids of an instance's sessions whose end Run has not reported yet, or whose outcome it was
	// not told to forget, sorted. This machine's executor also ends all other processes of earlier supervisors of the
	// instance. After an error the supervisor calls it again. For this machine's executor the call precedes the first Run.
	// Another one may have sessions by then.
	Unreported(ctx context.Context, instance string) (runs []string, err error)
}

// logger is an executor whose logs are not files of this machine.
type logger interface {
	// Log writes a run's output so far, and with follow also the output until the run ends.
	Log(ctx context.Context, runID string, follow bool, w io.Writer) error
}

// roomer is an executor that measures the room of the machines on which a thread's sessions run.
type roomer interface {
	// Room returns the free memory and disk of the emptiest machine, in bytes; math.MaxInt64 means unknown.
	Room(ctx context.Context, thread string) (memory, disk int64, err error)
}

// placer is an executor that can report, before a session is sent, that no machine could run it.
type placer interface {
	// Unfit returns why no machine elsewhere can run such a session, whatever else runs there; "" if one can. The job is
	// one of threads.Config.Placed. After an error the answer is unknown.
	Unfit(ctx context.Context, job agents.Job) (why string, err error)
}

// reacher is an executor whose engine can be down.
type reacher interface {
	// Reach returns why the engine does not answer; nil if it does. It takes at most 2 s.
	Reach(ctx context.Context) error
}

// Runner runs the programs of services on this machine. Its methods keep the promises of Executor's.
type Runner interface {
	Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome
	Unreported(ctx context.Context, instance string) (runs []string, err error)
}

// forgetter is an executor that keeps the outcome of each run until it hears that nobody needs it again. Another
// executor keeps outcomes as long as it likes.
type forgetter interface {
	// Forget drops what is kept of a run that has ended. It does nothing for a run that is unknown or has not ended.
	Forget(runID string)
}

// forget tells a runner that the outcome of a run is in the journal, or that nobody needs it.
func forget(e Runner, run string) {
	if f, ok := e.(forgetter); ok {
		f.Forget(run)
	}
}

// executor returns the executor of that name, "" for this machine's; nil if there is none.
func (rn *sessionRunner) executor(name string) Executor {
	if name == "" {
		return rn.local
	}
	return rn.elsewhere[name]
}

// addActivity adds the executors' knowledge to the documents of sessions.
func (rn *sessionRunner) addActivity(list []control.SessionDocument) {
	for i := range list {
		if a, ok := rn.activity(list[i].RunID); ok {
			list[i].LastOutputAt, list[i].PID, list[i].Place = a.LastOutput, a.PID, a.Place
		}
	}
}

// activity returns a run's activity, from the executor that knows the run.
func (rn *sessionRunner) activity(run string) (a agents.Activity, ok bool) {
	if a, ok = rn.local.Activity(run); ok {
		return a, ok
	}
	for _, name := range slices.Sorted(maps.Keys(rn.elsewhere)) {
		if a, ok = rn.elsewhere[name].Activity(run); ok {
			return a, ok
		}
	}
	return a, false
}
