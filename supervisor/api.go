package supervisor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// Handler serves the control API, except for upgrade.
func (s *Supervisor) Handler() http.Handler {
	s.init()
	return control.Handler(s.unencodable, s.routes()...)
}

// routes is the control API. To add a command, write its method and its row.
func (s *Supervisor) routes() []control.Route {
	metrics := http.NotFoundHandler()
	if s.Metrics != nil {
		metrics = s.Metrics
	}
	return []control.Route{
		{Pattern: "GET /metrics", Handler: metrics.ServeHTTP},
		control.Get("/v1/state", s.state),
		control.Get("/v1/fleet", func(context.Context, url.Values) (*fleet.Status, error) { return s.Fleet(), nil }),
		control.Get("/v1/why", s.why),
		control.Get("/v1/forecast", s.forecast),
		control.Get("/v1/show", s.show),
		control.Get("/v1/history", s.history),
		control.Get("/v1/report", s.record),
		control.Get("/v1/convoys", command(s, s.convoys)),
		control.Events("/v1/events", &s.events),
		control.Logs("/v1/log", s.findLogs, s.prints),

		control.Post("/v1/cancel", command(s, s.cancelItem)),
		control.Post("/v1/retry", command(s, s.retryItem)),
		control.Post("/v1/release", command(s, s.releaseItem)),
		control.Post("/v1/approve", command(s, s.approvePlan)),
		control.Post("/v1/pause", command(s, s.pause)),
		control.Post("/v1/resume", command(s, s.unpause)),
		control.Post("/v1/restart", command(s, s.restart)),
		control.Post("/v1/sling", command(s, s.sling)),
		control.Post("/v1/convoy", command(s, s.makeConvoy)),
		control.Post("/v1/convoy/start", command(s, s.startConvoy)),
		control.Post("/v1/convoy/cancel", command(s, s.cancelConvoy)),
		control.Post("/v1/fleet/rebalance", command(s, s.rebalanceNow)),
		control.Post("/v1/simulate", s.simulate),
		control.Post("/v1/advise", s.advise),
	}
}

// command wraps do, which carries out a command and fills in its report. The command is refused while the supervisor
// starts, stops or hands over, and keeps it from ending meanwhile.
func command[T, A any](s *Supervisor, do func(context.Context, T, *A) error) func(context.Context, T) (*A, error) {
	return func(ctx context.Context, request T) (*A, error) {
		leave, err := s.enterCommand()
		if err != nil {
			return nil, err
		}
		defer leave()
		report := new(A)
		return report, do(ctx, request, report)
	}
}

// enterCommand lets a command begin, and keeps the supervisor from ending until leave.
func (s *Supervisor) enterCommand() (leave func(), err error) {
	s.init()
	leave, err = s.gate.enter(&s.running)
	if err == nil && s.books.config() == nil {
		leave()
		return nil, control.NotNow("not now: there is no valid configuration")
	}
	return leave, err
}

// serve answers on the control socket until end.
func (s *Supervisor) serve() (end func(), err error) {
	listen := s.Listen
	if listen == nil {
		listen = control.ListenUnix
	}
	l, err := listen(filepath.Join(s.StateDir, control.SocketName))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the control socket: %w", err)
	}
	// Upgrade names a program to run, so only our own user may ask for it: it is not on any port.
	own := append(s.routes(), control.Post("/v1/upgrade", s.replace))
	stop := control.Serve(l, control.Handler(s.unencodable, own...), s.Confined, s.log)
	return func() {
		s.events.Close()
		stop()
	}, nil
}

// keepPorts listens on TCP where the configuration says, until end.
func (s *Supervisor) keepPorts() (end func()) {
	p := &control.Ports{
		Config: s.books.config, API: s.Handler(), Hooks: s.HookHandler(), Metrics: s.Metrics, Web: s.Web,
		Listen: s.ListenTCP, Problem: s.portProblem, Log: s.log,
	}
	if p.Listen == nil {
		p.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	return p.Keep(s.replug)
}

// state answers GET /v1/state: the status, with at most ?rows= items that wait.
func (s *Supervisor) state(_ context.Context, query url.Values) (*control.Document, error) {
	d := s.Document()
	if said := query.Get("rows"); said != "" {
		rows, err := strconv.Atoi(said)
		if err != nil || rows < 0 {
			return nil, control.Invalid("cannot read %q as a number of rows", said)
		}
		d.Bound(rows)
	}
	return d, nil
}

// why explains one item, an agent or a thread, as things are or as they were at a time.
func (s *Supervisor) why(ctx context.Context, query url.Values) (ex threads.Explanation, err error) {
	said := query.Get("ref")
	if at := query.Get("at"); at != "" {
		return s.whyAt(ctx, said, at)
	}
	if err := s.noConfig(); err != nil {
		return ex, err
	}
	c := s.books.config()
	if c.Agent(said) != nil || c.Thread(said) != nil {
		s.view(func(snap threads.Snapshot) { ex, err = threads.ExplainName(snap, said) })
		return ex, err
	}
	if _, err := forge.ParseRef(said, "owner/name"); err != nil {
		return ex, control.Invalid(
			"cannot explain %q: it is no agent and no thread, and no issue such as 12 or owner/name#12%s", said,
			c.SuggestName(said))
	}
	item, err := s.item("", said)
	if err != nil {
		return ex, err
	}
	return s.whyItem(item)
}

// whyItem explains an item. If it is closed, or no scan has read it, the forge and the journal tell who ended it.
func (s *Supervisor) whyItem(item forge.Ref) (threads.Explanation, error) {
	ex, err := s.explain(item)
	if err == nil && ex.Code != threads.Closed {
		ex.Shadow = s.shadowed(item)
		return ex, nil
	}
	d, failed := s.life("explain", item)
	switch {
	case failed == nil && d.State != control.StateOpen:
		ex = threads.Explanation{
			Repo: item.Repo, Number: item.Number, Kind: agents.Kind(d.Kind), Title: d.Title, Verdict: d.Verdict,
			Code: threads.Closed, Steps: []threads.Step{}, Candidates: []threads.CandidateSteps{},
		}
		if n := len(d.Sessions); n > 0 {
			ex.Verdict += fmt.Sprintf("; sessions: %d (disinto show %d)", n, item.Number)
		}
		return ex, nil
	case err != nil && failed != nil:
		return ex, failed
	case err != nil:
		return ex, control.NotFound("%s", err)
	}
	return ex, nil
}

// noConfig refuses a question that cannot be answered without a valid configuration, with the first error in it.
func (s *Supervisor) noConfig() error {
	config, err := s.books.inForce()
	switch {
	case config != nil:
		return nil
	case err == nil:
		return control.NotNow("cannot explain anything without a configuration")
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return control.NotNow("cannot explain anything without a valid configuration: %s", first)
}

// portProblem shows why an address of [factory] cannot be listened on, and logs it once; "" means that it can.
func (s *Supervisor) portProblem(key, why string) {
	if s.problems.setPort(key, why) {
		s.tell(notice{bad: true, words: why})
		s.touchStatus()
	}
}
