package supervisor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/services"
)

// restart carries out the command restart.
func (v *serviceRunner) restart(_ context.Context, r control.ServiceRequest, report *control.Report) error {
	v.saveBefore(r.Service)
	return v.byHand("restart", r.Service, report, func(x *service, _ services.Snapshot, now time.Time) {
		if pid := x.endByHand(now); pid > 0 {
			report.Note = fmt.Sprintf("process %d is ended first", pid)
		}
		x.state.Forgive(now)
		report.Add("restarted")
	})
}

// start carries out the command start. It leaves a service alone that runs.
func (v *serviceRunner) start(_ context.Context, r control.ServiceRequest, report *control.Report) error {
	return v.byHand("start", r.Service, report, func(x *service, s services.Snapshot, now time.Time) {
		if x.ctx != nil && x.state.Phase != services.Ending {
			report.Note = "it runs already"
			return
		}
		x.state.Forgive(now)
		report.Add("started")
		if x.pid > 0 {
			report.Note = fmt.Sprintf("process %d ends first", x.pid)
		}
		if lacks := services.Lacks(s, x.Name); lacks != "" {
			report.Pending = "it waits for " + lacks
		}
	})
}

// stop carries out the command stop. The service stays stopped until a person starts it, or the supervisor starts.
func (v *serviceRunner) stop(_ context.Context, r control.ServiceRequest, report *control.Report) error {
	v.saveBefore(r.Service)
	return v.byHand("stop", r.Service, report, func(x *service, s services.Snapshot, now time.Time) {
		if x.state.Phase == services.Stopped {
			report.Note = "stopped already"
			return
		}
		var notes []string
		if pid := x.endByHand(now); pid > 0 {
			notes = append(notes, fmt.Sprintf("process %d is being ended", pid))
		}
		if line := keepRunning(services.Dependants(s, x.Name)); line != "" {
			notes = append(notes, line)
		}
		x.state.Hold(now)
		report.Add("stopped")
		report.Note = strings.Join(notes, "; ")
	})
}

// saveBefore saves the conversations on a service that is about to be ended.
func (v *serviceRunner) saveBefore(name string) {
	if x := v.state.config().Service(name); x != nil {
		v.inference.saveOnService(x)
	}
}

// byHand carries out a person's command about a service.
func (v *serviceRunner) byHand(
	verb, name string, report *control.Report, do func(x *service, s services.Snapshot, now time.Time),
) error {
	cfg, now := v.state.config(), time.Now()
	report.Subject = name
	known := v.serving.byHand(cfg, name, now, func(x *service, s services.Snapshot) { do(x, s, now) })
	if !known {
		var names []string
		for i := range cfg.Services {
			names = append(names, cfg.Services[i].Name)
		}
		return control.NotFound("cannot %s %s: no service has that name%s", verb, name, threads.Suggest(name, names))
	}
	if len(report.Did) > 0 {
		v.log.Info("service " + name + " " + report.Did[0] + " by hand")
		v.serviceChanged()
	}
	return nil
}
