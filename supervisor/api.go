package supervisor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
)

// Handler serves the control API, except for upgrade.
func (s *Supervisor) Handler() http.Handler {
	s.init()
	return control.Handler(s.unencodable, s.routes()...)
}

// routes returns the control API. To add a command, write its method and its row.
func (s *Supervisor) routes() []control.Route {
	metrics := http.NotFoundHandler()
	if s.Metrics != nil {
		metrics = s.Metrics
	}
	return []control.Route{
		{Pattern: "GET /metrics", Handler: metrics.ServeHTTP},
		control.Get("/v1/state", s.answerState),
		control.Get("/v1/fleet", func(context.Context, url.Values) (*fleet.Status, error) { return s.Fleet(), nil }),
		control.Get("/v1/why", s.history.why),
		control.Get("/v1/forecast", s.history.forecast),
		control.Get("/v1/show", s.history.show),
		control.Get("/v1/history", s.history.history),
		control.Get("/v1/report", s.history.report),
		control.Get("/v1/convoys", command(&s.core, s.convoys.list)),
		control.Events("/v1/events", &s.events),
		control.Logs("/v1/log", s.history.findLogs, s.history.prints),

		control.Post("/v1/cancel", command(&s.core, s.commands.shown(s.commands.cancel))),
		control.Post("/v1/retry", command(&s.core, s.commands.retried)),
		control.Post("/v1/release", command(&s.core, s.commands.shown(s.commands.release))),
		control.Post("/v1/approve", command(&s.core, s.commands.shown(s.commands.approve))),
		control.Post("/v1/tell", command(&s.core, s.commands.tell)),
		control.Post("/v1/pause", command(&s.core, s.pausing.pause)),
		control.Post("/v1/drain", command(&s.core, s.pausing.drain)),
		control.Post("/v1/resume", command(&s.core, s.pausing.resume)),
		control.Post("/v1/adopt-state", command(&s.core, s.adoptState)),
		control.Post("/v1/restart", command(&s.core, s.services.restart)),
		control.Post("/v1/start", command(&s.core, s.services.start)),
		control.Post("/v1/stop", command(&s.core, s.services.stop)),
		control.Post("/v1/sling", command(&s.core, s.commands.sling)),
		control.Post("/v1/convoy", command(&s.core, s.convoys.create)),
		control.Post("/v1/convoy/start", command(&s.core, s.convoys.start)),
		control.Post("/v1/convoy/cancel", command(&s.core, s.convoys.cancel)),
		control.Post("/v1/fleet/rebalance", command(&s.core, s.rebalanceNow)),
	}
}

// serve answers on the control socket until end is called.
func (s *Supervisor) serve() (end func(), err error) {
	listen := s.Listen
	if listen == nil {
		listen = control.ListenUnix
	}
	l, err := listen(filepath.Join(s.StateDir, control.SocketName))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the control socket: %w", err)
	}
	// An upgrade names a program to run, so only our own user may request it, and no port serves it.
	own := append(s.routes(), control.Post("/v1/upgrade", s.replace))
	stop := control.Serve(l, control.Handler(s.unencodable, own...), s.Confined, &s.asked, s.log)
	return func() {
		s.events.Close()
		stop()
	}, nil
}

// keepPorts listens on the configured TCP addresses until end is called.
func (s *Supervisor) keepPorts() (end func()) {
	p := &control.Ports{
		Config: s.state.config, API: s.Handler(), Hooks: s.HookHandler(), Metrics: s.Metrics, Web: s.Web,
		Listen: s.ListenTCP, Problem: s.portProblem, Log: s.log, Asked: &s.asked,
	}
	if p.Listen == nil {
		p.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	return p.Serve(s.replug)
}

// answerState answers GET /v1/state: the status, with all waiting items or those of a control.QueueQuery.
func (s *Supervisor) answerState(_ context.Context, query url.Values) (*control.Document, error) {
	q, err := control.ReadQueueQuery(query)
	if err != nil {
		return nil, err
	}
	d := s.Document()
	if q != nil {
		d.Choose(q)
		if d.Forge.OK { // before the first scan nothing is known to be open
			d.Waiting.Closed = q.Closed(s.state.past(), s.state.knownOpen)
		}
	}
	return d, nil
}

// portProblem shows why the supervisor cannot listen on an address of [factory], and logs it once. An empty why means
// that it can.
func (s *Supervisor) portProblem(key, why string) {
	if s.problems.setPort(key, why) {
		s.logNotices(notice{bad: true, words: why})
		s.touchStatus()
	}
}

// Fleet returns this supervisor's knowledge of its fleet, without querying the other hosts. It may be called from any
// goroutine.
func (s *Supervisor) Fleet() *fleet.Status {
	s.init()
	return s.hub.Status()
}

// HookHandler answers POST /v1/hook, and nothing else.
func (s *Supervisor) HookHandler() http.Handler {
	s.init()
	return control.Hooks{
		Config: s.state.config, Signed: s.scanner.hint, Unsigned: s.scanner.refuseHook, Written: s.conversation.written.add,
	}.Handler()
}
