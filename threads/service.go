package threads

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Service is a program that the supervisor runs beside the agents, such as llama-server: a [services.NAME] table.
type Service struct {
	Name    string
	Command []string   // at least the program
	Before  [][]string // commands that run to their end, one after the other, before each start of Command
	Needs   []string   // services that have to be ready before it starts, sorted
	User    string     // system account; empty means the supervisor's own
	Limits  agents.Limits
	Oneshot bool     // Command ends; the service can be used once it has ended with 0
	Restart Restart  // after which ends it is started again; empty for RestartAlways, or RestartOnFailure of a Oneshot
	Env     []string // variables as NAME=value, sorted, in addition to the supervisor's
	Cwd     string   // absolute working directory; empty means the service's own home
	// StopSignal is one of agents.StopSignals, for the program alone; empty means TERM to all its processes.
	StopSignal string
	Grace      time.Duration // from the signal to KILL; 0 means the factory's
	Stdout     bool          // its output also goes to the supervisor's stdout

	// ReadyURL is an address that answers with a status of 200 to 299 while the service can be used.
	ReadyURL string
	// ReadyCommand is a command that ends with 0 while the service can be used. Without it, and without ReadyURL, a
	// service can be used when it has run for ReadyAfter.
	ReadyCommand []string

	// The thresholds of readiness; for each, 0 means the default of package threads/services.
	ReadyAfter    time.Duration // see ReadyCommand
	ReadyTimeout  time.Duration // of one check
	ReadyFailures int           // so many failed checks in a row make it unusable
	RestartAfter  time.Duration // it is started again after not answering for so long
}

// Restart says after which ends of its program a service is started again.
type Restart string

// The values of Restart.
const (
	RestartAlways    Restart = "always"
	RestartOnFailure Restart = "on-failure"
	RestartNever     Restart = "never"
)

// Again reports whether the service is started again after its program ended by itself, with status 0 or not.
func (s *Service) Again(zero bool) bool {
	if s.Restart == RestartNever {
		return false
	}
	return !zero || !s.Oneshot && s.Restart != RestartOnFailure
}

// Asks reports whether the service has a check of its readiness.
func (s *Service) Asks() bool { return s.ReadyURL != "" || len(s.ReadyCommand) > 0 }

// Port returns the TCP port on which the service listens, as far as the configuration shows it: the port of ReadyURL,
// or the value of --port in the command; 0 without either.
func (s *Service) Port() int {
	if port := agents.Port(s.ReadyURL); port > 0 {
		return port
	}
	for i, arg := range s.Command {
		value, joined := strings.CutPrefix(arg, "--port=")
		if arg == "--port" && i+1 < len(s.Command) {
			value, joined = s.Command[i+1], true
		}
		if port, err := strconv.Atoi(value); joined && err == nil {
			return port
		}
	}
	return 0
}

// Serves reports whether an inference server's address is this service's: its port, on this machine or on the host of
// ReadyURL.
func (s *Service) Serves(baseURL string) bool {
	u, err := url.Parse(baseURL)
	if err != nil || agents.Port(baseURL) == 0 || agents.Port(baseURL) != s.Port() {
		return false
	}
	ready, err := url.Parse(s.ReadyURL)
	return isLocal(u.Hostname()) || err == nil && strings.EqualFold(u.Hostname(), ready.Hostname())
}

func isLocal(host string) bool {
	ip, _ := netip.ParseAddr(host) // a name has the zero address, which is neither
	return strings.EqualFold(host, "localhost") || ip.IsLoopback() || ip.IsUnspecified()
}

// Service finds a service by name; nil when there is none.
func (c *Config) Service(name string) *Service {
	return find(c.Services, func(s *Service) bool { return s.Name == name })
}

// Outage says why a service cannot be used.
type Outage struct {
	Why   string    // such as "is starting"
	Until time.Time // the next try; zero where none is due
}

// serviceReady keeps a session from starting while the service that serves its model cannot be used. The session
// would find no backend, and three of them would park the thread.
func serviceReady(v *view, c candidate) *Reason {
	if len(v.Outages) == 0 {
		return nil
	}
	address := cmp.Or(c.agent.BaseURL, c.agent.thread.BaseURL)
	i := slices.IndexFunc(v.Config.Services, func(s Service) bool {
		_, out := v.Outages[s.Name]
		return out && s.Serves(address)
	})
	if i < 0 {
		return nil
	}
	name := v.Config.Services[i].Name
	out := v.Outages[name]
	return &Reason{Code: Starting, Thread: c.agent.Thread, Note: name + ", which " + out.Why, Until: out.Until}
}
