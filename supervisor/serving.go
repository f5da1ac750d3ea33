package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/services"
)

// service is a program that runs beside the agents.
type service struct {
	threads.Service // while the service runs, its definition at the start; otherwise the configured one
	state           services.State
	definition      string // digest of the definition with which it was started
	lacking         bool   // it was adopted, and no valid configuration had its definition

	ctx    context.Context // of its commands, which run one after the other; nil while the service is stopped
	cancel context.CancelCauseFunc
	hurry  chan struct{} // closed to end the grace of its running command
	step   int           // number of completed commands of Before
	run    string        // run id of the present command; empty between two commands
	pid    int
}

// definitionOf returns a digest of a service's definition, because the definition itself may contain secrets.
func definitionOf(x *threads.Service) string {
	text, _ := json.Marshal(x) // strings, numbers and lists only
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// question asks whether a service is ready.
type question struct {
	threads.Service
	ctx context.Context
	run string
}

// serving has the services: the configured ones, and those that still run. The zero value has none.
type serving struct {
	group sync.WaitGroup // the services' goroutines

	mu       sync.Mutex // guards the fields below
	wake     chan struct{}
	all      map[string]*service
	still    bool // the supervisor is about to be replaced: nothing starts
	stopping bool // all services must end
}

// woken is signalled when the services need a new decision.
func (v *serving) woken() chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.wake == nil {
		v.wake = make(chan struct{}, 1)
	}
	return v.wake
}

func (v *serving) poke() {
	select {
	case v.woken() <- struct{}{}:
	default:
	}
}

// withSnapshot updates the services from a configuration, where nil changes nothing, and then calls f with a snapshot
// of them.
func (v *serving) withSnapshot(cfg *threads.Config, now time.Time, f func(services.Snapshot)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all == nil {
		v.all = make(map[string]*service)
	}
	configured := make(map[string]bool)
	for i := 0; cfg != nil && i < len(cfg.Services); i++ {
		def := cfg.Services[i]
		configured[def.Name] = true
		switch x := v.all[def.Name]; {
		case x == nil:
			v.all[def.Name] = &service{Service: def, state: services.New(now)}
		case x.ctx == nil, x.lacking && definitionOf(&def) == x.definition:
			x.Service, x.lacking = def, false
			x.step = len(x.Before) // a command before the program was ended
		}
	}
	s := services.Snapshot{Now: now, Stopping: v.stopping}
	for _, name := range slices.Sorted(maps.Keys(v.all)) {
		x := v.all[name]
		gone := cfg != nil && !configured[name]
		if gone && x.ctx == nil {
			delete(v.all, name)
			continue
		}
		s.Services = append(s.Services, services.Service{Service: x.Service, State: x.state, Gone: gone})
	}
	f(s)
}

// outages returns the configured services that cannot be used.
func (v *serving) outages(cfg *threads.Config, now time.Time) (out map[string]threads.Outage) {
	v.withSnapshot(cfg, now, func(s services.Snapshot) { out = services.Outages(s) })
	return out
}

// alarms returns the faults that a person must fix.
func (v *serving) alarms(cfg *threads.Config, now time.Time) (lines []string) {
	v.withSnapshot(cfg, now, func(s services.Snapshot) {
		for i := range s.Services {
			if line := s.Services[i].Alarm(now); line != "" {
				lines = append(lines, line)
			}
		}
	})
	return lines
}

// duties are what a plan leaves to do.
type duties struct {
	starts  []*service
	asks    []question
	trusted []string      // services that count as ready now
	rest    time.Duration // until the next plan
}

// decide makes a plan and marks its steps as under way.
func (v *serving) decide(cfg *threads.Config, base context.Context, now time.Time) (todo duties) {
	todo.rest = longRest
	v.withSnapshot(cfg, now, func(s services.Snapshot) {
		if v.still || cfg == nil && !v.stopping {
			return
		}
		plan := services.Decide(s)
		for _, step := range plan.Steps {
			x := v.all[step.Name]
			switch step.Do {
			case services.Start:
				x.begin(base)
				x.step, x.definition = 0, definitionOf(&x.Service)
				x.state.Prepare(now)
				todo.starts = append(todo.starts, x)
			case services.Ask:
				x.state.Ask(now)
				todo.asks = append(todo.asks, question{x.Service, x.ctx, x.run})
			case services.Trust:
				x.state.Answer(&x.Service, now, "")
				todo.trusted = append(todo.trusted, x.Name)
			case services.End:
				failing := ""
				if step.Failed {
					failing = step.Why
				}
				x.end(now, step.Why, failing)
			case services.Kill:
				x.end(now, "the time of the stop is over", "")
				x.state.Hurry()
				close(x.hurry)
			}
		}
		if !plan.Next.IsZero() {
			todo.rest = min(todo.rest, plan.Next.Sub(now))
		}
	})
	return todo
}

// begin makes the context of a run.
func (x *service) begin(base context.Context) {
	x.ctx, x.cancel = context.WithCancelCause(base)
	x.hurry = make(chan struct{})
}

// end ends a service's run. failing is empty unless that counts as a failure.
func (x *service) end(now time.Time, why, failing string) {
	x.state.End(now, failing)
	x.cancel(errors.New(why))
}

// began records that a command of a service runs: a before command, or the program itself.
func (v *serving) began(x *service, pid int, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x.pid = pid
	if x.step == len(x.Before) && x.state.Phase == services.Preparing {
		x.state.Start(now)
	}
}

// present returns a service's definition, and the number of its commands before the program that have succeeded.
func (v *serving) present(x *service) (threads.Service, int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return x.Service, x.step
}

// stepped records that a command before a service's program has succeeded.
func (v *serving) stepped(x *service) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x.step, x.run, x.pid = x.step+1, "", 0
}

// answered records whether a service is ready, and returns its state before and after. The two are the same for an
// answer that comes too late.
func (v *serving) answered(q question, why string, now time.Time) (was, is services.State) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.all[q.Name]
	if x == nil || x.run != q.run {
		return was, is
	}
	was = x.state
	x.state.Answer(&x.Service, now, why)
	return was, x.state
}

// ended records that no process of a service is left, and returns its state, and the running services that need it.
func (v *serving) ended(x *service, how services.Exit, now time.Time) (is services.State, needing []string) {
	v.withSnapshot(nil, now, func(s services.Snapshot) {
		x.cancel(nil)
		x.ctx, x.cancel, x.hurry, x.run, x.pid, x.step = nil, nil, nil, "", 0, 0
		x.state.Ended(&x.Service, now, how)
		is, needing = x.state, services.Dependants(s, x.Name)
	})
	return is, needing
}

// byHand calls do for a person's command about a service, with a snapshot of all. It reports whether there is such a
// service.
func (v *serving) byHand(
	cfg *threads.Config, name string, now time.Time, do func(x *service, s services.Snapshot),
) (known bool) {
	v.withSnapshot(cfg, now, func(s services.Snapshot) {
		x := v.all[name]
		if known = x != nil; known {
			do(x, s)
		}
	})
	return known
}

// endByHand ends a service's run, if it has one, and returns its process; 0 without one.
func (x *service) endByHand(now time.Time) (pid int) {
	if x.ctx != nil && x.state.Phase != services.Ending {
		x.end(now, "ended by hand", "")
	}
	return x.pid
}

// stop ends all services until a time.
func (v *serving) stop(now, until time.Time) {
	v.withSnapshot(nil, now, func(s services.Snapshot) {
		v.stopping = true
		for name, share := range services.Shares(s, until) {
			v.all[name].state.Divide(share)
		}
	})
	v.poke()
}

// over reports whether all services have ended after stop.
func (v *serving) over() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	runs := func(x *service) bool { return x.ctx != nil }
	return v.stopping && !slices.ContainsFunc(slices.Collect(maps.Values(v.all)), runs)
}

// keepStill stops or resumes all starts.
func (v *serving) keepStill(still bool) {
	v.mu.Lock()
	v.still = still
	v.mu.Unlock()
	v.poke()
}

// begins returns the first service that is about to run a command; "" without one.
func (v *serving) begins() (why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(v.all)) {
		if x := v.all[name]; x.ctx != nil && x.pid == 0 {
			return "service " + name + " begins"
		}
	}
	return ""
}

// documents returns the services for the status.
func (v *serving) documents(cfg *threads.Config, now time.Time) (list []control.ServiceDocument) {
	v.withSnapshot(cfg, now, func(s services.Snapshot) {
		for i := range s.Services {
			x := &s.Services[i]
			d := control.ServiceDocument{
				Name: x.Name, State: string(x.Phase), Since: x.Since, PID: v.all[x.Name].pid,
				Restarts: max(0, x.Starts-1), Fails: x.Fails, Why: services.Why(s, x.Name),
				NeedsPerson: x.Alarm(now) != "",
			}
			if x.Phase == services.Resting {
				d.Until = x.Until
			}
			if def := serviceOf(cfg, x.Name); def != nil {
				d.Changed = v.all[x.Name].ctx != nil && definitionOf(def) != v.all[x.Name].definition
			}
			list = append(list, d)
		}
	})
	return list
}

func serviceOf(cfg *threads.Config, name string) *threads.Service {
	if cfg == nil {
		return nil
	}
	return cfg.Service(name)
}
