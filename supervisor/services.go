package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/services"
)

const (
	// lastRest is the shortest time that services have to end, after sessions that used up the whole grace.
	lastRest = 500 * time.Millisecond
	// askLog is the limit of the log of ready_command.
	askLog = 64 << 10
)

// serviceRunner runs the programs of [services].
type serviceRunner struct {
	*core
	inference *inference
	serving   serving
	runner    Runner // nil runs none, and then no service holds back a session
	probe     func(ctx context.Context, url string) error
	environ   []string // the supervisor's own environment
	stateDir  string
	stdout    io.Writer // for services with stdout = true; nil drops their output
	begun     sync.Once
}

// beginServices runs keepServices in a goroutine that lasts until stopServices. Further calls do nothing.
func (v *serviceRunner) beginServices() {
	if v.runner == nil {
		return
	}
	v.begun.Do(func() {
		v.background(&v.serving.group, "the services", func() {
			for !v.safely("the services", v.keepServices) {
				time.Sleep(longRest)
			}
		})
	})
}

// keepServices starts, asks and ends services.
func (v *serviceRunner) keepServices() {
	for !v.serving.over() {
		todo := v.serving.decide(v.state.config(), v.base, time.Now())
		v.recordChanges()
		for _, x := range todo.starts {
			v.log.Info("service " + x.Name + " starts")
			v.inService(x)
		}
		for _, q := range todo.asks {
			v.background(&v.serving.group, "a question to service "+q.Name, func() { v.checkReady(q) })
		}
		for _, name := range todo.trusted {
			v.log.Info("service " + name + " is ready: it runs, and has no check")
			v.serviceChanged()
		}
		if len(todo.starts) > 0 {
			v.touchStatus()
		}
		select {
		case <-v.serving.woken():
		case <-time.After(todo.rest):
		}
	}
}

// stopServices ends all services, dependants first, and waits for that until a time.
func (v *serviceRunner) stopServices(until time.Time) {
	if soonest := time.Now().Add(lastRest); until.Before(soonest) {
		until = soonest
	}
	v.serving.stop(time.Now(), until)
	v.beginServices() // a stop may come before the adopted ones are served
	done := make(chan struct{})
	go v.safely("the end of the services", func() {
		defer close(done)
		v.serving.group.Wait()
	})
	select {
	case <-done:
	case <-time.After(time.Until(until)):
		v.log.Info("stopped before every service had ended: the kernel kills the others")
	}
}

// inService runs a service's goroutine, from its present command to the end of its program.
func (v *serviceRunner) inService(x *service) {
	name := x.Name // a reload may change x once the service has ended
	v.background(&v.serving.group, "the end of service "+name, func() {
		run, how := "", services.Exit{Why: internalError}
		v.safely("service "+name, func() { run, how = v.live(x) })
		is, needing := v.serving.ended(x, how, time.Now())
		v.recordChanges()
		forget(v.runner, run)
		switch {
		case is.Phase == services.Resting:
			v.log.Info(failure(name, &is, needing))
		case is.Phase == services.Ended && is.Fails > 0:
			v.log.Warn(failure(name, &is, needing))
		default:
			v.log.Info("service " + name + " has ended")
		}
		v.serviceChanged()
	})
}

// resumeAll continues adopted services.
func (v *serviceRunner) resumeAll(list []*service) {
	for _, x := range list {
		v.inService(x)
	}
	if len(list) > 0 {
		v.log.Info(fmt.Sprintf("disinto continues %s that started before it", control.Count(len(list), "service")))
	}
}

// failure says that a service failed, when it is started again, and which running services need it.
func failure(name string, is *services.State, needing []string) string {
	line := fmt.Sprintf("service %s failed: %s; ", name, is.Why)
	if is.Phase == services.Resting {
		line += "next try in " + control.Age(is.Until.Sub(is.Since))
	} else {
		line += "it is not started again"
	}
	return strings.TrimSuffix(line+"; "+keepRunning(needing), "; ")
}

// keepRunning says which running services need one that does not run any more; empty without any.
func keepRunning(needing []string) string {
	switch len(needing) {
	case 0:
		return ""
	case 1:
		return needing[0] + ", which needs it, keeps running"
	}
	return strings.Join(needing, ", ") + ", which need it, keep running"
}

// serviceChanged triggers every decision that depends on which services can be used.
func (v *serviceRunner) serviceChanged() {
	v.serving.poke()
	v.kicks.all(time.Time{})
	v.touchStatus()
}

// live runs the commands of a service, from the present one on. It returns how its run ended, and the newest command's
// run id.
func (v *serviceRunner) live(x *service) (run string, how services.Exit) {
	def, _ := v.serving.present(x)
	defer v.echo(&def, x.run != "")()
	for ; ; v.serving.stepped(x) {
		last := run
		var out agents.Outcome
		run, out = v.runCommand(x, last)
		def, step := v.serving.present(x)
		switch {
		case x.ctx.Err() != nil: // the state says whether that is a failure
			return run, services.Exit{}
		case step == len(def.Before) && out.Result == agents.Done:
			return run, services.Exit{Zero: true, Why: def.Command[0] + ": exit status 0"}
		case step == len(def.Before):
			return run, services.Exit{Why: out.Reason}
		case out.Result != agents.Done:
			return run, services.Exit{Why: "before its start: " + out.Reason}
		}
	}
}

// runCommand runs the present command of a service, or continues it if an earlier supervisor has ordered it. The
// runner forgets the last command when the journal has this one.
func (v *serviceRunner) runCommand(x *service, last string) (run string, out agents.Outcome) {
	job := agents.Job{RunID: x.run}
	for {
		if x.run == "" {
			def, step := v.serving.present(x)
			command := def.Command
			if step < len(def.Before) {
				command = def.Before[step]
			}
			job = v.newJob(&def, command, "output")
			if _, err := os.Stat(job.Dir); err != nil && def.Cwd != "" {
				return last, agents.Outcome{Result: agents.Failed, Reason: "cannot start it in cwd: " + text(err)}
			}
			v.ordered(x, job.RunID)
			forget(v.runner, last)
		}
		job.Hurry = x.hurry
		out = v.runner.Run(x.ctx, job, func(p agents.Started) {
			v.serving.began(x, p.PID, time.Now())
			v.serviceChanged()
		})
		if job.Command != nil || !v.serving.neverRan(x, out) {
			return job.RunID, out
		}
	}
}

// newJob returns the job of a service's command or question, and makes the service's folder.
func (v *serviceRunner) newJob(x *threads.Service, command []string, log string) agents.Job {
	cfg := v.state.config()
	if cfg == nil { // an upgrade handed over a service, and the file is no longer valid
		cfg = new(threads.Config)
	}
	_ = os.MkdirAll(serviceFolder(v.stateDir, x.Name), 0o711) // other accounts may pass; if this fails, so does the start
	return ServiceJob(cfg, x, ServiceCommand{
		Instance: v.Instance(), RunID: journal.NewRun(v.Instance()), Command: command, Log: log,
		StateDir: v.stateDir, Environ: v.environ,
	})
}

// checkReady asks whether a service is ready.
func (v *serviceRunner) checkReady(q question) {
	limit := cmp.Or(q.ReadyTimeout, services.AskTime)
	ctx, cancel := context.WithTimeoutCause(q.ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	why := internalError
	v.safely("a question to service "+q.Name, func() { why = text(v.usable(ctx, q)) })
	was, is := v.serving.answered(q, why, time.Now())
	switch {
	case was.Phase == is.Phase:
		v.serving.poke()
		return
	case is.Phase == services.Ready && was.Phase == services.Silent:
		v.log.Info("service " + q.Name + " answers again")
	case is.Phase == services.Ready:
		v.log.Info(fmt.Sprintf("service %s is ready after %s", q.Name, control.Age(time.Since(was.Since))))
	case is.Phase == services.Silent:
		v.log.Warn("service " + q.Name + " does not answer: " + why)
	}
	v.serviceChanged()
}

// usable returns nil if a service is ready.
func (v *serviceRunner) usable(ctx context.Context, q question) error {
	if q.ReadyURL != "" {
		return v.probe(ctx, q.ReadyURL)
	}
	job := v.newJob(&q.Service, q.ReadyCommand, "ready")
	job.MaxLog, job.Grace = askLog, 0
	out := v.runner.Run(ctx, job, nil)
	forget(v.runner, job.RunID)
	if out.Result != agents.Done {
		return errors.New(out.Reason)
	}
	return nil
}

// addServices adds the services to a status.
func (v *serviceRunner) addServices(d *control.Document) {
	if v.runner == nil {
		return
	}
	cfg, now := v.state.config(), time.Now()
	d.Services = v.serving.documents(cfg, now)
	d.Problems = append(d.Problems, v.serving.alarms(cfg, now)...)
	for i := range d.Services {
		x := &d.Services[i]
		x.Log = ServiceLog(v.stateDir, x.Name)
		x.LastLine = control.LastLine(x.Log, v.state.secretsOf(cfg))
	}
}
