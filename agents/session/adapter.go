package session

import (
	"fmt"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// adapter is what is particular about one agent CLI. Its methods are pure: what a run is started with, and what its
// events say.
type adapter interface {
	// command is the program with its arguments, and the variables to set for it: NAME= with nothing behind it takes
	// one away. The prompt comes by stdin.
	command(c *call) (argv, env []string)
	// read reads one line of stdout.
	read(line []byte, r *report)
}

// call is one run of a CLI.
type call struct {
	Session string // the conversation: chosen by us, or to go on with
	Resume  bool   // go on with it
	Model   string // empty means the CLI's own default
	BaseURL string // of the backend, without a slash at its end; empty means the CLI's own
	Local   bool
	Context int // of the model, in tokens; 0 means unknown
	Root    bool
	environ []string
}

// adapters has one for each of agents.CLIs.
var adapters = map[string]adapter{
	"claude":   claude{},
	"codex":    codex{},
	"opencode": opencode{},
	"qwen":     qwen{},
}

func findAdapter(name string) (adapter, error) {
	a, ok := adapters[name]
	if !ok {
		return nil, fmt.Errorf("there is no agent CLI %q, want one of %s", name, strings.Join(agents.CLIs, ", "))
	}
	return a, nil
}

// host is the address of a backend without the version of its API: some CLIs add it, some want to be given it.
func (c *call) host() string { return strings.TrimSuffix(c.BaseURL, "/v1") }

// v1 is the address with the version.
func (c *call) v1() string {
	if c.BaseURL == "" {
		return ""
	}
	return c.host() + "/v1"
}

// unless sets a variable that the operator has not set.
func (c *call) unless(name, value string) []string {
	if variable(c.environ, name) != "" || value == "" || value == "0" {
		return nil
	}
	return []string{name + "=" + value}
}

// dummyKey stands for the key of a backend that wants none. CLIs refuse to start without one.
const dummyKey = "local"

func number(n int) string { return strconv.Itoa(n) }
