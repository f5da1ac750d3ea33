package agents

import (
	"net/url"
	"strconv"
)

// SandboxMode says what a session does without a sandbox.
type SandboxMode string

// The modes.
const (
	SandboxAuto   SandboxMode = "auto"   // as much of a sandbox as the kernel has
	SandboxStrict SandboxMode = "strict" // all of it, or no session
	SandboxOff    SandboxMode = "off"
)

// Sandbox says what the processes of a session may reach, beside the system's own programs and settings. In a role it
// holds what the configuration adds; in a job also what belongs to the session. Without a mode there is none.
type Sandbox struct {
	Mode SandboxMode `json:",omitempty"`
	// Read and Write are absolute paths of folders or files. What may be written may be read.
	Read  []string `json:",omitempty"`
	Write []string `json:",omitempty"`
	// Connect are the TCP ports of any host to which its processes may connect; AnyPort are all, and Ephemeral those that
	// the kernel gives to a server that asks for any, as tests do.
	Connect   []int `json:",omitempty"`
	AnyPort   bool  `json:",omitempty"`
	Ephemeral bool  `json:",omitempty"`
	// Programs are names of programs that the session runs besides its own; their folders may be read.
	Programs []string `json:",omitempty"`
	// Hide are absolute paths that stay out of reach although they are below others. Only paths of Read and Write that
	// lead further into a hidden one are in reach.
	Hide []string `json:",omitempty"`
}

// On reports whether there is to be a sandbox.
func (s *Sandbox) On() bool { return s.Mode == SandboxAuto || s.Mode == SandboxStrict }

// Port is the TCP port of a server's address; 0 where that does not say.
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
