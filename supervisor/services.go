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

// Runner runs the programs of services on this machine. Its methods keep the promises of Executor's. No program of it
// outlives the supervisor, so Kept names no run.
type Runner interface {
	Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome
	Kept(ctx context.Context, instance string) (runs []string, err error)
}

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

// beginServices runs keepServices in a goroutine that lasts until stopServices.
func (s *Supervisor) beginServices() {
	if s.Runner == nil {
		return
	}
	s.background(&s.serving.group, "the services", func() {
		for !s.safely("the services", s.keepServices) {
			time.Sleep(longRest)
		}
	})
}

// keepServices starts, asks and ends services.
func (s *Supervisor) keepServices() {
	for !s.serving.over() {
		starts, asks, rest := s.serving.decide(s.books.config(), s.base, time.Now())
		for _, x := range starts {
			s.log.Info("service " + x.Name + " starts")
			s.inService(x)
		}
		for _, q := range asks {
			s.background(&s.serving.group, "a question to service "+q.Name, func() { s.ask(q) })
		}
		if len(starts) > 0 {
			s.touchStatus()
		}
		select {
		case <-s.serving.woken():
		case <-time.After(rest):
		}
	}
}

// stopServices ends all services, dependents first, and waits for that until a time.
func (s *Supervisor) stopServices(until time.Time) {
	s.serving.stop()
	done := make(chan struct{})
	go s.safely("the end of the services", func() {
		defer close(done)
		s.serving.group.Wait()
	})
	select {
	case <-done:
	case <-time.After(max(time.Until(until), lastRest)):
		s.log.Warn("stopped before every service had ended: the kernel kills the others")
	}
}

// inService runs a service's goroutine, from its present command to the end of its program.
func (s *Supervisor) inService(x *service) {
	name := x.Name // a reload may change x once the service has ended
	s.background(&s.serving.group, "the end of service "+name, func() {
		why := internalError
		s.safely("service "+name, func() { why = s.live(x) })
		is := s.serving.ended(x, why, time.Now())
		if why == "" {
			s.log.Info("service " + name + " has ended")
		} else {
			s.log.Error(fmt.Sprintf("service %s failed: %s; next try in %s", name, why, control.Age(is.Until.Sub(is.Since))))
		}
		s.serviceTurned()
	})
}

// serviceTurned triggers every decision that depends on which services can be used.
func (s *Supervisor) serviceTurned() {
	s.serving.poke()
	s.kicks.all(time.Time{})
	s.touchStatus()
}

// live runs the commands of a service, or continues the one that the previous image started. It returns how the
// service failed; empty if it ended as ordered.
func (s *Supervisor) live(x *service) (why string) {
	job := agents.Job{RunID: x.run}
	for ; ; s.serving.stepped(x) {
		command := x.Command
		if x.step < len(x.Before) {
			command = x.Before[x.step]
		}
		if x.run == "" {
			job = s.serviceJob(&x.Service, command, "output")
		}
		out := s.Runner.Run(x.ctx, job, func(p agents.Started) {
			s.serving.began(x, job.RunID, p.PID, time.Now())
			s.serviceTurned()
		})
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
func (s *Supervisor) serviceJob(x *threads.Service, command []string, log string) agents.Job {
	cfg := s.books.config()
	if cfg == nil { // an upgrade handed over a service, and the file is no longer valid
		cfg = new(threads.Config)
	}
	dir := filepath.Join(s.StateDir, "services", x.Name)
	_ = os.MkdirAll(dir, 0o711) // other accounts may pass through; if this fails, so does the start
	j := agents.Job{
		RunID: journal.NewRun(s.instance), Instance: s.instance, Service: x.Name, Command: command,
		Home: filepath.Join(dir, "home"),
		User: x.User, OwnUser: cfg.OnlyUser(x.User), Limits: x.Limits, LogPath: filepath.Join(dir, "log", log+".log"),
		MaxLog: cfg.Factory.MaxLog, Grace: cfg.Factory.StopGrace,
	}
	if j.MaxLog == 0 {
		j.MaxLog = serviceLog
	}
	j.Dir = j.Home
	j.Env = agents.ServiceEnviron(s.Environ, &j, cfg.Secrets)
	return j
}

// ask asks whether a service is ready.
func (s *Supervisor) ask(q question) {
	ctx, cancel := context.WithTimeoutCause(q.ctx, askTime, fmt.Errorf("no answer within %s", askTime))
	defer cancel()
	why := internalError
	s.safely("a question to service "+q.Name, func() { why = text(s.usable(ctx, q)) })
	was, is := s.serving.answered(q, why, time.Now())
	switch {
	case was.Phase == is.Phase:
		s.serving.poke()
		return
	case is.Phase == services.Ready && was.Phase == services.Silent:
		s.log.Info("service " + q.Name + " answers again")
	case is.Phase == services.Ready:
		s.log.Info(fmt.Sprintf("service %s is ready after %s", q.Name, control.Age(time.Since(was.Since))))
	case is.Phase == services.Silent:
		s.log.Error("service " + q.Name + " does not answer: " + why)
	}
	s.serviceTurned()
}

// usable returns nil if a service is ready.
func (s *Supervisor) usable(ctx context.Context, q question) error {
	if q.ReadyURL != "" {
		return s.Probe(ctx, q.ReadyURL)
	}
	job := s.serviceJob(&q.Service, q.ReadyCommand, "ready")
	job.MaxLog, job.Grace = askLog, 0
	if out := s.Runner.Run(ctx, job, nil); out.Result != agents.Done {
		return errors.New(out.Reason)
	}
	return nil
}

// restart carries out the command restart.
func (s *Supervisor) restart(_ context.Context, r control.RestartRequest, report *control.Report) error {
	cfg := s.books.config()
	report.Subject = r.Service
	if service := cfg.Service(r.Service); service != nil {
		s.inference.saveServed(service)
	}
	pid, known := s.serving.restart(cfg, r.Service, time.Now())
	if !known {
		var names []string
		for i := range cfg.Services {
			names = append(names, cfg.Services[i].Name)
		}
		return control.NotFound("cannot restart %s: no service has that name%s", r.Service, threads.Suggest(r.Service, names))
	}
	s.log.Info("service " + r.Service + " restarted by hand")
	report.Add("restarted")
	if pid > 0 {
		report.Note = fmt.Sprintf("process %d is ended first", pid)
	}
	s.serviceTurned()
	return nil
}

// addServices adds the services to a status.
func (s *Supervisor) addServices(d *control.Document) {
	if s.Runner == nil {
		return
	}
	cfg, now := s.books.config(), time.Now()
	d.Services = s.serving.documents(cfg, now)
	d.Problems = append(d.Problems, s.serving.alarms(cfg, now)...)
	for i := range d.Services {
		x := &d.Services[i]
		x.Log = ServiceLog(s.StateDir, x.Name)
		x.LastLine = control.LastLine(x.Log, s.secretsOf(cfg))
	}
}
