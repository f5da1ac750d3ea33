package simtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// Engine runs sessions in virtual time, even while no supervisor runs: elsewhere, or on this machine. Their programs
// run on the world's executor, which checks that no agent or item has two of them.
type Engine struct {
	Exec *Executor
	Here bool // sessions run on this machine, and each outcome is kept until a supervisor forgets it
	// Start is the time from a session's registration to the start of its program, and Tell the time from its end to the
	// report of it.
	Start, Tell time.Duration

	mu       sync.Mutex // guards the fields below
	memory   int64      // free memory on the best node; 0: unknown
	down     bool       // it does not answer; sessions continue
	full     bool       // it has no node for a session
	lacking  string     // why no node fits; reported before a session is sent
	sessions map[string]*engaged
}

// engaged is a session of an engine.
type engaged struct {
	job    agents.Job
	cancel context.CancelCauseFunc
	told   bool          // a supervisor knows its end, or on this machine has journalled it; guarded by the engine's mutex
	begun  chan struct{} // closed when the program runs
	at     time.Time     // start of the program
	done   chan struct{} // closed when its end is reported
	out    agents.Outcome

	mu    sync.Mutex // guards the fields below
	spent func(agents.Usage)
	doing func(agents.Doing)
}

var errEngineDown = errors.New("the engine does not answer")

// Elsewhere makes every thread of a world run its sessions on an engine.
func (w *World) Elsewhere() *Engine {
	for i := range w.Config.Threads {
		w.Config.Threads[i].Executor = threads.ExecutorNomad
	}
	w.Engine = &Engine{
		Exec: w.Exec, Start: time.Second, Tell: 500 * time.Millisecond, sessions: make(map[string]*engaged),
	}
	return w.Engine
}

// Outlive makes the sessions of a world's threads on this machine outlive their supervisor, as they do while the
// container lives.
func (w *World) Outlive() *Engine {
	w.Shims = &Engine{Exec: w.Exec, Here: true, sessions: make(map[string]*engaged)}
	return w.Shims
}

// End ends all sessions, as the end of the container does.
func (e *Engine) End() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.sessions {
		x.cancel(errDead)
	}
	e.sessions = make(map[string]*engaged)
}

// Down sets whether the engine is down.
func (e *Engine) Down(down bool) { set(&e.mu, &e.down, down) }

// Free sets the free memory on the best node.
func (e *Engine) Free(memory int64) { set(&e.mu, &e.memory, memory) }

// Full sets whether the engine has no node for a session.
func (e *Engine) Full(full bool) { set(&e.mu, &e.full, full) }

// Lacks sets why no node fits, which the engine reports before a session is sent.
func (e *Engine) Lacks(what string) { set(&e.mu, &e.lacking, what) }

// answers waits until the engine answers.
func (e *Engine) answers(ctx context.Context) bool {
	for {
		e.mu.Lock()
		down := e.down
		e.mu.Unlock()
		if !down {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second):
		}
	}
}

// Unreported returns the sorted sessions of an instance whose end no supervisor knows.
func (e *Engine) Unreported(instance string) ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return nil, errEngineDown
	}
	runs := slices.Sorted(maps.Keys(e.sessions))
	return slices.DeleteFunc(runs, func(run string) bool {
		return e.sessions[run].told || !strings.HasPrefix(run, instance+"-")
	}), nil
}

// register accepts a new session, and returns false for a known one.
func (e *Engine) register(job agents.Job) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions[job.RunID] != nil {
		return false
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	x := &engaged{job: job, cancel: cancel, begun: make(chan struct{}), done: make(chan struct{})}
	job.Spent, job.Doing = x.reportUsage, x.reportDoing
	e.sessions[job.RunID] = x
	go e.live(ctx, x, job)
	return true
}

// live runs a session from its registration to the report of its end.
func (e *Engine) live(ctx context.Context, x *engaged, job agents.Job) {
	defer close(x.done)
	time.Sleep(e.Start)
	x.out = e.Exec.run(ctx, job, func(s agents.Started) {
		x.at = s.At
		close(x.begun)
	}, func() bool { return false })
	time.Sleep(e.Tell)
}

func (x *engaged) reportUsage(u agents.Usage) {
	x.mu.Lock()
	spent := x.spent
	x.mu.Unlock()
	if spent != nil {
		spent(u)
	}
}

func (x *engaged) reportDoing(now agents.Doing) {
	x.mu.Lock()
	doing := x.doing
	x.mu.Unlock()
	if doing != nil {
		doing(now)
	}
}

// find returns a session, or nil.
func (e *Engine) find(run string) *engaged {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessions[run]
}

func (e *Engine) hasNode() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.full
}

// attend waits for a session until it ends or ctx is done. It returns false if the session continues.
func (c *engineClient) attend(
	ctx context.Context, x *engaged, job agents.Job, started func(agents.Started),
) (over bool) {
	x.mu.Lock()
	x.spent, x.doing = job.Spent, job.Doing
	x.mu.Unlock()
	begun := x.begun
	begin := func() {
		if begun = nil; started != nil && (c.e.Here || ctx.Err() == nil) {
			started(x.where(c.e.Here))
		}
	}
	for {
		select {
		case <-begun:
			begin()
		case <-x.done:
			if c.e.Here && begun != nil && !x.at.IsZero() {
				begin()
			}
			return c.e.answers(ctx)
		case <-ctx.Done():
			if c.p.off.Load() || errors.Is(context.Cause(ctx), agents.ErrDetached) {
				return false
			}
			x.cancel(context.Cause(ctx))
			if <-x.done; c.e.Here && begun != nil && !x.at.IsZero() {
				begin()
			}
			return true
		}
	}
}

func (x *engaged) where(here bool) agents.Started {
	if here {
		return agents.Started{PID: 7, At: x.at, Sandbox: "sandboxed"}
	}
	return agents.Started{At: x.at, Place: "box1/" + x.job.RunID}
}

// reportRun records that a supervisor knows the end of a session. The engine still remembers the session.
func (e *Engine) reportRun(run string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.sessions[run]; x != nil {
		x.told = true
	}
}

// forget drops a session.
func (e *Engine) forget(run string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, run)
}

// engineClient is the engine's interface for one life.
type engineClient struct {
	e *Engine
	p *power
}

func (c *engineClient) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	ctx, die := context.WithCancelCause(ctx)
	defer die(nil)
	killed := c.p.life.Killed
	go func() {
		select {
		case <-killed:
			die(errDead)
		case <-ctx.Done():
		}
	}()
	lost := agents.Outcome{Result: agents.Lost, Reason: "nothing runs as " + job.RunID}
	if job.Command != nil {
		if out, taken := c.begin(ctx, job); !taken {
			return out
		}
	} else if !c.e.answers(ctx) {
		return lost
	}
	x := c.e.find(job.RunID)
	if x == nil || !c.attend(ctx, x, job, started) {
		return lost
	}
	report := func() error {
		if !c.e.Here {
			c.e.reportRun(job.RunID)
		}
		return nil
	}
	if err := c.p.use("ended", report); err != nil {
		<-c.p.life.Killed // otherwise this life could journal the end after its death
		return lost
	}
	return x.out
}

// begin registers a new session. If it cannot, the outcome says why.
func (c *engineClient) begin(ctx context.Context, job agents.Job) (out agents.Outcome, taken bool) {
	if ctx.Err() != nil || !c.e.answers(ctx) {
		return agents.Outcome{Result: agents.Cancelled, Reason: context.Cause(ctx).Error()}, false
	}
	if !c.e.hasNode() {
		time.Sleep(30 * time.Second)
		return agents.Outcome{Result: agents.NoPlace, Reason: "no node has meta.llama = box2"}, false
	}
	err := c.p.use("send", func() error { taken = c.e.register(job); return nil })
	if err != nil {
		<-c.p.life.Killed
		return agents.Outcome{Result: agents.Lost, Reason: err.Error()}, false
	}
	return agents.Outcome{Result: agents.Failed, Reason: job.RunID + " runs already"}, taken
}

// Forget drops the outcome of a session on this machine.
func (c *engineClient) Forget(run string) {
	x := c.e.find(run)
	if !c.e.Here || x == nil {
		return
	}
	select {
	case <-x.done:
		_ = c.p.use("forget", func() error { c.e.reportRun(run); return nil })
	default:
	}
}

func (c *engineClient) Activity(run string) (a agents.Activity, ok bool) {
	x := c.e.find(run)
	if x == nil {
		return a, false
	}
	if c.e.Here {
		return agents.Activity{LastOutput: time.Now(), PID: 7}, true
	}
	return agents.Activity{LastOutput: time.Now(), Place: "box1/" + run}, true
}

func (c *engineClient) Unreported(_ context.Context, instance string) (runs []string, err error) {
	err = c.p.use("kept", func() (err error) { runs, err = c.e.Unreported(instance); return err })
	return runs, err
}

// Log writes a greeting, and another line when the session has ended.
func (c *engineClient) Log(ctx context.Context, run string, follow bool, w io.Writer) error {
	x := c.e.find(run)
	if x == nil {
		return fmt.Errorf("there is no %s", run)
	}
	if _, err := fmt.Fprintf(w, "hello from %s\n", run); err != nil || !follow {
		return err
	}
	select {
	case <-x.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := fmt.Fprintln(w, "goodbye")
	return err
}

// Reach returns an error while the engine is down.
func (c *engineClient) Reach(context.Context) error {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.e.down {
		return errEngineDown
	}
	return nil
}

// Unfit returns why no node fits, or "".
func (c *engineClient) Unfit(_ context.Context, job agents.Job) (why string, err error) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.e.down {
		return "", errEngineDown
	}
	if c.e.lacking != "" {
		return fmt.Sprintf("no node for %s: %s", job.Agent, c.e.lacking), nil
	}
	return "", nil
}

// Room returns the free memory on the best node.
func (c *engineClient) Room(context.Context, string) (memory, disk int64, err error) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.e.memory == 0 {
		return 0, 0, errEngineDown
	}
	return c.e.memory, 1 << 50, nil
}
