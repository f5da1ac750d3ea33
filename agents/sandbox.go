package agents

import (
	"net/url"
	"slices"
	"strconv"
)

// SandboxMode says how a session starts where the kernel cannot provide a complete sandbox.
type SandboxMode string

// The modes.
const (
	SandboxAuto   SandboxMode = "auto"   // as much of a sandbox as the kernel supports
	SandboxStrict SandboxMode = "strict" // a complete sandbox, or the session does not start
	SandboxOff    SandboxMode = "off"
)

// Sandbox lists what the processes of a session may reach, in addition to the system's own programs and settings. In a
// role it holds what the configuration adds; in a job also what belongs to the session. An empty Mode means no sandbox.
type Sandbox struct {
	Mode SandboxMode `json:",omitempty"`
	// Read and Write are absolute paths of folders or files. Write includes reading.
	Read  []string `json:",omitempty"`
	Write []string `json:",omitempty"`
	// Connect lists the TCP ports, of any host, to which the processes may connect. AnyPort allows all ports; Ephemeral
	// allows those that the kernel assigns to a server that requests any port, as tests do.
	Connect   []int `json:",omitempty"`
	AnyPort   bool  `json:",omitempty"`
	Ephemeral bool  `json:",omitempty"`
	// Egress lists the hosts that the processes may reach, as words of package egress; nil means all. They then connect
	// to ports of this machine, and to other machines through a proxy. SetupEgress lists more, until the repository is
	// set up.
	Egress      []string `json:",omitempty"`
	SetupEgress []string `json:",omitempty"`
	// OwnNetwork gives the session a network of its own, which has loopback alone: all of its ports are free, but for
	// those of Connect, which lead to this machine's 127.0.0.1. It needs Egress.
	OwnNetwork bool `json:",omitempty"`
	// Listen lists more TCP ports on which the processes may listen, and to which they may connect. They may listen on
	// any free port that the kernel chooses.
	Listen []Ports `json:",omitempty"`
	// Taken lists the TCP ports that the configuration names, which no session may listen on.
	Taken []int `json:",omitempty"`
	// Programs are names of further programs that the session runs; their folders may be read.
	Programs []string `json:",omitempty"`
	// Hide lists absolute paths that cannot be reached although a parent folder can. Only paths of Read and Write below
	// a hidden path can be reached.
	Hide []string `json:",omitempty"`
}

// Ports are the TCP ports from the first to the last.
type Ports struct{ First, Last int }

// On reports whether the mode requests a sandbox.
func (s *Sandbox) On() bool { return s.Mode == SandboxAuto || s.Mode == SandboxStrict }

// Open adds the ports that every session connects to: those of SSH and HTTPS, and those of the servers at addresses. In
// a network of its own, only ports of 127.0.0.1 lead to this machine, and all other servers are reached by the proxy.
func (s *Sandbox) Open(addresses ...string) {
	s.Connect = slices.Clone(s.Connect)
	if !s.OwnNetwork {
		s.Connect = append(s.Connect, 22, 443)
	}
	for _, address := range addresses {
		u, err := url.Parse(address)
		local := err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1")
		if port := Port(address); port > 0 && (local || !s.OwnNetwork) {
			s.Connect = append(s.Connect, port)
		}
	}
}

// Port is the TCP port of a server's address, or 0 if the address does not determine one.
func Port(address string) int {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return 0
	}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	return map[string]int{"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}[u.Scheme]
}
