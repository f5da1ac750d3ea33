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
	// For a session that this process inherited from its previous image, or that Unreported has named, Run starts nothing:
	// the job has only its RunID and Spent, started may be nil, and Run waits for the running program. If the executor
	// does not know the run any more, the outcome is Lost. While it cannot find out, Run waits. An executor whose sessions
	// outlive the supervisor reports the end of a run again, as long as its engine remembers it: the supervisor may have
	// been killed before it journalled the end.
	//
	// An executor whose sessions outlive the supervisor leaves the session alone if the cause of ctx is
	// agents.ErrDetached. Run then returns soon: Lost if the program runs or may run, Cancelled if it never will.
	Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome
	// Activity returns a run's activity. ok is false for a run that is unknown, has ended or has not started its program.
	// Every status calls Activity, so it must be fast.
	Activity(runID string) (a agents.Activity, ok bool)
	// Unreported returns the run ids of an instance's sessions whose end Run has not reported yet, sorted. An executor
	// whose sessions do not outlive the supervisor ends their processes and returns none. After an error the supervisor
	// calls it again. For this machine's executor the call precedes the first Run. Another one may have sessions by then.
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
	// Unfit returns why no machine elsewhere can run a session with these node rules, whatever else runs there; "" if one
	// can. After an error the answer is unknown.
	Unfit(ctx context.Context, rules []agents.NodeRule) (why string, err error)
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
