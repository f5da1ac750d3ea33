package supervisor

import (
	"context"
	"io"
	"maps"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
)

// Executor runs the programs of sessions. agents/executortest holds an executor to what is said here. Its methods may
// be called from several goroutines at once.
type Executor interface {
	// Run runs a job's program and returns when no process of the session is left. When ctx is done it ends them, within
	// about the job's grace, and the outcome is Cancelled with the context's cause as the reason. It calls started once,
	// from any goroutine, when the program runs; never, if that could not be started. Every failure is an Outcome with a
	// Result and, unless that is Done, a Reason. A run id may be run again after Run has returned.
	//
	// For a session that this process inherited from its last image, or that Kept has named, Run starts nothing: the job
	// has only its RunID and Spent, started may be nil, and Run waits for the program that runs. Of a run that the
	// executor does not know any more the outcome is Lost. While an executor cannot find out, Run waits. An executor whose
	// sessions outlive the supervisor tells the end of a run again, while its engine remembers: the supervisor may have
	// been killed before it wrote that down.
	//
	// An executor whose sessions outlive the supervisor leaves the session alone when the cause of ctx is
	// agents.ErrDetached. It returns soon: Lost when the program runs or may run, Cancelled when it never will.
	Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome
	// Activity returns what is known of a run whose program runs. ok is false for a run that is unknown, has ended or has
	// not started its program. It is asked for every status and must be fast.
	Activity(runID string) (a agents.Activity, ok bool)
	// Kept returns the run ids of the sessions of an instance whose end Run has not told yet, sorted. An executor whose
	// sessions do not outlive the supervisor ends what is left of them and returns none. After an error it is not known,
	// and asked again. It is called once before the first Run on this machine; elsewhere sessions may run by then.
	Kept(ctx context.Context, instance string) (runs []string, err error)
}

// logger is an executor whose logs are no files of this machine.
type logger interface {
	// Log writes what a run has printed, and with follow what it prints until it ends.
	Log(ctx context.Context, runID string, follow bool, w io.Writer) error
}

// roomer is an executor that measures what the machines have left on which a thread's sessions run.
type roomer interface {
	// Room returns the memory and disk that are free on the machine that has most, in bytes; math.MaxInt64 for what is
	// not known.
	Room(ctx context.Context, thread string) (memory, disk int64, err error)
}

// placer is an executor that can tell before a session is sent that no machine could run it.
type placer interface {
	// Unfit says why no machine elsewhere can run a session with these rules for machines, whatever else runs there; ""
	// where one can. After an error it is not known.
	Unfit(ctx context.Context, rules []agents.NodeRule) (why string, err error)
}

// executor runs the sessions of a thread; nil when there is none of that name.
func (s *Supervisor) executor(name string) Executor {
	if name == "" {
		return s.Executor
	}
	return s.Elsewhere[name]
}

// addActivity adds to the documents of sessions what their executors know.
func (s *Supervisor) addActivity(list []control.SessionDocument) {
	for i := range list {
		if a, ok := s.activity(list[i].RunID); ok {
			list[i].LastOutputAt, list[i].PID, list[i].Place = a.LastOutput, a.PID, a.Place
		}
	}
}

// activity returns what the executor of a run knows of it.
func (s *Supervisor) activity(run string) (a agents.Activity, ok bool) {
	if a, ok = s.Executor.Activity(run); ok {
		return a, ok
	}
	for _, name := range slices.Sorted(maps.Keys(s.Elsewhere)) {
		if a, ok = s.Elsewhere[name].Activity(run); ok {
			return a, ok
		}
	}
	return a, false
}
