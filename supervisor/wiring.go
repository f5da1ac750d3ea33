package supervisor

import (
	"cmp"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// init derives the unexported fields from the exported ones. Every exported method that may be called before Run calls
// init first: a question or a reload may arrive while Run is still starting.
func (s *Supervisor) init() {
	s.once.Do(func() {
		s.log = s.Log
		if s.log == nil {
			s.log = hclog.NewNullLogger()
		}
		if s.Decide == nil {
			s.Decide = threads.Decide
		}
		if s.Room != nil {
			s.measureRoom = func() threads.Room { return s.Room(s.StateDir) }
		}
		s.changed, s.replug = make(chan struct{}, 1), make(chan struct{}, 1)
		s.scanner = scanner{core: &s.core, scanned: make(chan struct{}, 1)}
		s.inference = inference{core: &s.core, client: s.Inference, saver: s.Saver}
		s.clerk = clerk{core: &s.core, inference: &s.inference, notify: s.Notify, host: s.Host, meters: s.Meters}
		s.receipting = receipting{core: &s.core, stateDir: s.StateDir}
		s.services = serviceRunner{
			core: &s.core, inference: &s.inference, runner: s.Runner, probe: s.Probe, environ: s.Environ, stateDir: s.StateDir,
			stdout: s.Stdout,
		}
		s.sessions = sessionRunner{
			core: &s.core, clerk: &s.clerk, inference: &s.inference, receipting: &s.receipting, local: s.Executor,
			elsewhere: s.Elsewhere, meters: s.Meters, stateDir: s.StateDir, environ: s.Environ,
			hide: s.Hide, collector: s.Collector, forgeAPI: s.ForgeAPI, traceParent: s.TraceParent,
			heard: make(chan struct{}, 1),
		}
		s.cleaner = cleaner{
			core: &s.core, inference: &s.inference, receipting: &s.receipting, sessions: &s.sessions, executor: s.Executor,
			saver: s.SaveWork, stateDir: s.StateDir,
		}
		s.pausing = pausing{core: &s.core, stop: s.Stop, paused: s.Paused, ask: s.Ask, again: s.Upgrades+s.Crashes > 0}
		s.planner = planner{
			core: &s.core, scanner: &s.scanner, sessions: &s.sessions, clerk: &s.clerk, pausing: &s.pausing,
			elsewhere: s.Elsewhere,
		}
		s.commands = commands{core: &s.core, clerk: &s.clerk, planner: &s.planner, sessions: &s.sessions}
		s.history = history{
			core: &s.core, scanner: &s.scanner, sessions: &s.sessions, stateDir: s.StateDir, simulate: s.Foresee,
		}
		s.conversation = conversation{
			core: &s.core, scanner: &s.scanner, clerk: &s.clerk, commands: &s.commands, pausing: &s.pausing,
			history: &s.history, waits: map[int64]time.Time{},
		}
		s.convoys = convoys{core: &s.core, scanner: &s.scanner, clerk: &s.clerk}
		s.forge.set(s.Forge)
		s.initState()
		s.hub = fleet.NewHub(aroundHub{s}, s.ReadHost, s.log)
		s.clerk.hub, s.planner.hub = s.hub, s.hub
	})
}

// initState makes the state, with what the init knows about earlier supervisors.
func (s *Supervisor) initState() {
	s.state = newState(s.Config, s.ConfigError, s.Decide, s.events.HasReaders)
	if !s.Started.IsZero() {
		s.state.life = life{started: s.Started, upgrades: s.Upgrades}
	}
	if s.Upgrades > 0 {
		s.state.life.upgraded = time.Now()
	}
	s.PID = cmp.Or(s.PID, os.Getpid())
	s.state.environ = s.Environ
	s.state.journalled, s.state.meters, s.state.model = s.journalled, s.Meters, s.inference.servers.model
	if s.Runner != nil {
		s.state.outages = s.services.serving.outages
	}
}
