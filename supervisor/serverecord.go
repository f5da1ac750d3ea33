package supervisor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/services"
)

// Services outlive the supervisor, as sessions do. A command is in the journal before the runner gets it, and the
// runner keeps its outcome until the journal has what follows. So a command that has succeeded, such as a migration, is
// not run again because a supervisor was killed. A service of an earlier init has nothing that runs, and starts from
// its first command: the container is another one.

// recordOf returns the record of a service. It needs the mutex of serving.
func (x *service) recordOf(life time.Time) ledger.Service {
	r := ledger.Service{Name: x.Name, Life: life, Run: x.run, Definition: x.definition, State: x.state.Kept()}
	if x.run != "" {
		r.Step, r.Program, r.PID = x.step, x.step == len(x.Before), x.pid
	}
	return r
}

// ordered journals the command that a service is about to run. Even if the journal cannot be written, the service
// starts: a supervisor that does not find the run in its journal ends it before it starts anything.
func (v *serviceRunner) ordered(x *service, run string) {
	v.serving.mu.Lock()
	x.run = run
	v.serving.mu.Unlock()
	v.recordChanges()
}

// recordChanges journals the services whose state is not what the journal says. It looks again after it has written,
// because another goroutine may have written a newer record before.
func (v *serviceRunner) recordChanges() {
	for {
		list := v.serving.changed(v.state.services(), v.state.started())
		for i := range list {
			v.state.record(ledger.Record{At: time.Now(), Service: &list[i]})
		}
		if len(list) == 0 {
			return
		}
	}
}

// changed returns the records that the journal lacks. Between two commands the record of the first one counts.
func (v *serving) changed(journalled map[string]ledger.Service, life time.Time) (list []ledger.Service) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(v.all)) {
		x := v.all[name]
		if r := x.recordOf(life); (x.ctx == nil || x.run != "") && r != journalled[name] {
			list = append(list, r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(journalled)) {
		if v.all[name] == nil {
			list = append(list, ledger.Service{Name: name, Life: life, Gone: true})
		}
	}
	return list
}

// services returns the journalled services.
func (st *state) services() map[string]ledger.Service {
	st.mu.Lock()
	defer st.mu.Unlock()
	return maps.Clone(st.ledger.Services)
}

// started returns when the init of this supervisor started.
func (st *state) started() time.Time {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.life.started
}

// adopt enters the services that the last supervisor of this init left, and returns those with a running command. The
// caller continues them.
func (v *serviceRunner) adopt() []*service {
	if v.runner == nil {
		return nil
	}
	return v.serving.adopt(v.state.services(), v.state.config(), v.state.started(), v.base)
}

func (v *serving) adopt(
	journalled map[string]ledger.Service, cfg *threads.Config, life time.Time, base context.Context,
) (running []*service) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = make(map[string]*service)
	for _, name := range slices.Sorted(maps.Keys(journalled)) {
		r := journalled[name]
		if !r.Life.Equal(life) {
			continue
		}
		x := &service{state: r.State, definition: r.Definition}
		if def := serviceOf(cfg, name); def != nil {
			x.Service = *def
		} else {
			x.Service, x.lacking = threads.Service{Name: name, Command: []string{name}}, true
		}
		v.all[name] = x
		if r.Run == "" {
			continue
		}
		x.begin(base)
		x.run, x.step, x.pid = r.Run, r.Step, r.PID
		switch {
		case r.State.Phase == services.Ending:
			x.cancel(errors.New("the last supervisor ended it"))
		case r.Program:
			x.step = len(x.Before)
		case definitionOf(&x.Service) != r.Definition: // nobody knows which command follows
			x.end(time.Now(), "its definition has changed while it was prepared", "")
		}
		running = append(running, x)
	}
	return running
}

// neverRan reports whether the command of an adopted service was lost before it could run: its supervisor was killed
// between the record and the order. The command is then run as if it had not been ordered.
func (v *serving) neverRan(x *service, out agents.Outcome) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	never := out.Result == agents.Lost && x.state.Phase == services.Preparing && x.pid == 0
	if never {
		x.run = ""
	}
	return never
}

// runs reports whether a run is the command of a service.
func (v *serving) runs(run string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, x := range v.all {
		if x.run == run {
			return true
		}
	}
	return false
}
