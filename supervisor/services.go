package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/services"
)

const (
	// askTime is how long a service may take to report that it is ready.
	askTime = 5 * time.Second
	// lastRest is the shortest time that services have to end, after sessions that used up the whole grace.
	lastRest = 500 * time.Millisecond
	// serviceLog is the limit of a service's log without max_log, because a service may run forever.
	serviceLog = 64 << 20
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
}

// beginServices runs keepServices in a goroutine that lasts until stopServices.
func (v *serviceRunner) beginServices() {
	if v.runner == nil {
		return
	}
	v.background(&v.serving.group, "the services", func() {
		for !v.safely("the services", v.keepServices) {
			time.Sleep(longRest)
		}
	})
}

// keepServices starts, asks and ends services.
func (v *serviceRunner) keepServices() {
	for !v.serving.over() {
		starts, asks, rest := v.serving.decide(v.state.config(), v.base, time.Now())
		for _, x := range starts {
			v.log.Info("service " + x.Name + " starts")
			v.inService(x)
		}
		for _, q := range asks {
			v.background(&v.serving.group, "a question to service "+q.Name, func() { v.checkReady(q) })
		}
		if len(starts) > 0 {
			v.touchStatus()
		}
		select {
		case <-v.serving.woken():
		case <-time.After(rest):
		}
	}
}

// stopServices ends all services, dependents first, and waits for that until a time.
func (v *serviceRunner) stopServices(until time.Time) {
	v.serving.stop()
	done := make(chan struct{})
	go v.safely("the end of the services", func() {
		defer close(done)
		v.serving.group.Wait()
	})
	select {
	case <-done:
	case <-time.After(max(time.Until(until), lastRest)):
		v.log.Warn("stopped before every service had ended: the kernel kills the others")
	}
}

// inService runs a service's goroutine, from its present command to the end of its program.
func (v *serviceRunner) inService(x *service) {
	name := x.Name // a reload may change x once the service has ended
	v.background(&v.serving.group, "the end of service "+name, func() {
		why := internalError
		v.safely("service "+name, func() { why = v.live(x) })
		is := v.serving.ended(x, why, time.Now())
		if why == "" {
			v.log.Info("service " + name + " has ended")
		} else {
			v.log.Error(fmt.Sprintf("service %s failed: %s; next try in %s", name, why, control.Age(is.Until.Sub(is.Since))))
		}
		v.serviceChanged()
	})
}

// serviceChanged triggers every decision that depends on which services can be used.
func (v *serviceRunner) serviceChanged() {
	v.serving.poke()
	v.kicks.all(time.Time{})
	v.touchStatus()
}

// live runs the commands of a service, or continues the one that the previous image started. It returns how the
// service failed; empty if it ended as ordered.
func (v *serviceRunner) live(x *service) (why string) {
	job := agents.Job{RunID: x.run}
	for ; ; v.serving.stepped(x) {
		command := x.Command
		if x.step < len(x.Before) {
			command = x.Before[x.step]
		}
		if x.run == "" {
			job = v.serviceJob(&x.Service, command, "output")
		}
		out := v.runner.Run(x.ctx, job, func(p agents.Started) {
			v.serving.began(x, job.RunID, p.PID, time.Now())
			v.serviceChanged()
		})
		forget(v.runner, job.RunID)
		end := toEnd{}
		switch {
		case errors.As(context.Cause(x.ctx), &end) && end.failed:
			return end.why
		case x.ctx.Err() != nil:
			return ""
		case x.step == len(x.Before) && out.Reason == "":
			return command[0] + ": exit status 0"
		case x.step == len(x.Before):
			return out.Reason
		case out.Result != agents.Done:
			return "before its start: " + out.Reason
		}
	}
}

// serviceJob returns the job of a service's command or question.
func (v *serviceRunner) serviceJob(x *threads.Service, command []string, log string) agents.Job {
	cfg := v.state.config()
	if cfg == nil { // an upgrade handed over a service, and the file is no longer valid
		cfg = new(threads.Config)
	}
	dir := filepath.Join(v.stateDir, "services", x.Name)
	_ = os.MkdirAll(dir, 0o711) // other accounts may pass through; if this fails, so does the start
	j := agents.Job{
		RunID: journal.NewRun(v.instance), Instance: v.instance, Service: x.Name, Command: command,
		Home: filepath.Join(dir, "home"),
		User: x.User, OwnUser: cfg.OnlyUser(x.User), Limits: x.Limits, LogPath: filepath.Join(dir, "log", log+".log"),
		MaxLog: cfg.Factory.MaxLog, Grace: cfg.Factory.StopGrace,
	}
	if j.MaxLog == 0 {
		j.MaxLog = serviceLog
	}
	j.Dir = j.Home
	j.Env = agents.ServiceEnviron(v.environ, &j, cfg.Secrets)
	return j
}

// ask asks whether a service is ready.
func (v *serviceRunner) checkReady(q question) {
	ctx, cancel := context.WithTimeoutCause(q.ctx, askTime, fmt.Errorf("no answer within %s", askTime))
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
		v.log.Error("service " + q.Name + " does not answer: " + why)
	}
	v.serviceChanged()
}

// usable returns nil if a service is ready.
func (v *serviceRunner) usable(ctx context.Context, q question) error {
	if q.ReadyURL != "" {
		return v.probe(ctx, q.ReadyURL)
	}
	job := v.serviceJob(&q.Service, q.ReadyCommand, "ready")
	job.MaxLog, job.Grace = askLog, 0
	out := v.runner.Run(ctx, job, nil)
	forget(v.runner, job.RunID)
	if out.Result != agents.Done {
		return errors.New(out.Reason)
	}
	return nil
}

// restart carries out the command restart.
func (v *serviceRunner) restart(_ context.Context, r control.RestartRequest, report *control.Report) error {
	cfg := v.state.config()
	report.Subject = r.Service
	if service := cfg.Service(r.Service); service != nil {
		v.inference.saveOnService(service)
	}
	pid, known := v.serving.restart(cfg, r.Service, time.Now())
	if !known {
		var names []string
		for i := range cfg.Services {
			names = append(names, cfg.Services[i].Name)
		}
		return control.NotFound("cannot restart %s: no service has that name%s", r.Service, threads.Suggest(r.Service, names))
	}
	v.log.Info("service " + r.Service + " restarted by hand")
	report.Add("restarted")
	if pid > 0 {
		report.Note = fmt.Sprintf("process %d is ended first", pid)
	}
	v.serviceChanged()
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
		x.LastLine = control.LastLine(x.Log, v.secretsOf(cfg))
	}
}
