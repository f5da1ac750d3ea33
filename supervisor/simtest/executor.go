package simtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Script describes one session.
type Script struct {
	Takes   time.Duration
	Do      func()         // its effect, at the end; nil means none
	Outcome agents.Outcome // the zero value: exit code 0 without a result file
	// Each turn of length Turn uses Uses. If Turn is 0, the session uses nothing.
	Turn time.Duration
	Uses agents.Usage
	// Cut is called when the session must end. May be nil.
	Cut func()
	// Stubborn makes the program ignore TERM, so that it takes the whole grace to end.
	Stubborn bool
	// Undead makes the program also ignore KILL, like a process in an uninterruptible wait.
	Undead bool
}

// Run is a session that has started.
type Run struct {
	Job        agents.Job
	Begin, End time.Time // End is zero while it runs
	Outcome    agents.Outcome
}

// Executor runs sessions in virtual time. It checks three rules: one session per agent, per item and per sticky slot.
type Executor struct {
	// Script describes the n-th session of a kind on an item; n counts from 1.
	Script func(job agents.Job, n int) Script
	// Sticky are the threads whose slots hold one session each.
	Sticky []string

	// Hears is how long a session takes to hear what it is told; 0 means that it hears nothing.
	Hears time.Duration

	mu         sync.Mutex // guards the fields below
	inboxes    map[string][]agents.Message
	runs       []*Run
	violations []string
}

// Run sleeps for the time of the script, then performs its effect.
func (e *Executor) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	return e.run(ctx, job, started, func() bool { return false })
}

func (e *Executor) run(
	ctx context.Context, job agents.Job, started func(agents.Started), dead func() bool,
) agents.Outcome {
	if ctx.Err() != nil {
		return agents.Outcome{Result: agents.Cancelled, Reason: context.Cause(ctx).Error()}
	}
	run, script := e.begin(job)
	started(agents.Started{PID: 1000 + len(e.Runs()), At: time.Now()})
	out := script.Outcome
	if out.Result == "" {
		out.Result = agents.Done
	}
	out.Usage = out.Usage.Max(spend(ctx, job, &script))
	select {
	case <-time.After(script.Takes):
		if script.Do != nil && !dead() {
			script.Do()
		}
	case <-ctx.Done():
		if script.Cut != nil {
			script.Cut()
		}
		pause := 100 * time.Millisecond
		if script.Stubborn {
			pause = job.Grace
		}
		if script.Undead {
			pause = script.Takes
		}
		if !dead() {
			time.Sleep(pause)
		}
		out = agents.Outcome{Result: agents.Cancelled, Reason: context.Cause(ctx).Error(), Usage: out.Usage}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	run.End, run.Outcome = time.Now(), out
	return out
}

// spend plays the turns of a session, which reports its usage after each. It subtracts their time from the script.
func spend(ctx context.Context, job agents.Job, script *Script) (used agents.Usage) {
	for script.Turn > 0 && script.Takes >= script.Turn {
		select {
		case <-ctx.Done():
			return used
		case <-time.After(script.Turn):
		}
		script.Takes -= script.Turn
		used = used.Add(script.Uses)
		if job.Spent != nil {
			job.Spent(used)
		}
	}
	return used
}

func (e *Executor) begin(job agents.Job) (*Run, Script) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 1
	for _, r := range e.runs {
		if r.Job.Kind == job.Kind && r.Job.Number == job.Number {
			n++
		}
		if r.End.IsZero() {
			e.check(r.Job, job)
		}
	}
	run := &Run{Job: job, Begin: time.Now()}
	e.runs = append(e.runs, run)
	return run, e.Script(job, n)
}

// check compares a new session with a running one.
func (e *Executor) check(old, job agents.Job) {
	violated := func(what string) {
		e.violations = append(e.violations, fmt.Sprintf("%s: %s #%d by %s beside %s #%d by %s", what,
			job.Kind, job.Number, job.Agent, old.Kind, old.Number, old.Agent))
	}
	if old.Agent == job.Agent {
		violated("agent twice")
	}
	if old.Number == job.Number {
		violated("item twice")
	}
	thread := variable(job, "DISINTO_THREAD")
	same := thread == variable(old, "DISINTO_THREAD") && variable(job, "DISINTO_SLOT") == variable(old, "DISINTO_SLOT")
	if same && slices.Contains(e.Sticky, thread) {
		violated("sticky slot twice")
	}
}

// variable returns a variable of a job's environment.
func variable(job agents.Job, name string) string {
	for _, v := range slices.Concat(job.Env, job.Secrets) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// Activity knows no session.
func (e *Executor) Activity(string) (a agents.Activity, ok bool) { return a, false }

// Unreported returns none: sessions die with their life.
func (e *Executor) Unreported(context.Context, string) ([]string, error) { return nil, nil }

// Runs returns all sessions, in the order of their starts.
func (e *Executor) Runs() []Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]Run, len(e.runs))
	for i, r := range e.runs {
		list[i] = *r
	}
	return list
}

// RunsOf returns the sessions of one kind on one item.
func (e *Executor) RunsOf(kind agents.Kind, number int64) []Run {
	return slices.DeleteFunc(e.Runs(), func(r Run) bool { return r.Job.Kind != kind || r.Job.Number != number })
}

// Violations returns the violations of the rules.
func (e *Executor) Violations() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.violations)
}
