package session

import (
	"cmp"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// adapter is all that the session knows of one agent CLI. Its methods are pure.
type adapter interface {
	// command returns the program with its arguments, and variables to set for it; NAME= with nothing behind it removes
	// one. The prompt comes by stdin.
	command(c *call) (argv, vars []string)
	// read adds one line of stdout to the report, and reports whether it is an event at all. It sets Note only where the
	// event says something to people.
	read(line []byte, r *report) bool
	// credentials are the variables, in the order in which the CLI looks at them, and the files below the agent's home
	// that it authenticates with at a paid backend. One of them is enough.
	credentials() (vars, files []string)
}

// call is one run of a CLI.
type call struct {
	Session string // the conversation: a new id, or the one to resume
	Resume  bool
	Model   string  // empty means the CLI's own default
	BaseURL string  // of the backend, without a slash at its end; empty means the CLI's own
	Local   bool    // the backend is a server of the operator's
	Context int     // of the model, in tokens; 0 means unknown
	MaxUSD  float64 // what the run may cost; 0 is no limit
	// Tree is the checkout to review. The CLI starts elsewhere, reads the checkout as it reads any other folder, and
	// takes no setting from it. Empty means that the CLI starts in its checkout.
	Tree    string
	environ []string
}

// diarist is an adapter of a CLI that tells its use in a file, and in its events only at the end of a run. Its methods
// are pure.
type diarist interface {
	// diary returns a pattern that the file of a conversation matches.
	diary(environ []string, session string) string
	// entry reads a line of it: the use of the whole conversation. ok is false for other lines.
	entry(line []byte) (u agents.Usage, ok bool)
}

// adapters has one for each of agents.CLIs; the file of each adds it.
var adapters = map[string]adapter{}

func findAdapter(name string) (adapter, error) {
	a, ok := adapters[name]
	if !ok {
		return nil, fmt.Errorf("there is no agent CLI %q, want one of %s", name, strings.Join(agents.CLIs, ", "))
	}
	return a, nil
}

// host is the backend's address without the version of its API: some CLIs add it, others expect it.
func (c *call) host() string { return strings.TrimSuffix(c.BaseURL, "/v1") }

// v1 is the backend's address with the version, and empty without a backend.
func (c *call) v1() string {
	if c.BaseURL == "" {
		return ""
	}
	return c.host() + "/v1"
}

// unlessSet returns NAME=value for variables that the operator has not set. Values "" and "0" mean unknown.
func (c *call) unlessSet(value string, names ...string) (vars []string) {
	for _, name := range names {
		if cmp.Or(value, "0") != "0" && agents.Getenv(c.environ, name) == "" {
			vars = append(vars, name+"="+value)
		}
	}
	return vars
}

// dummyKey stands for the key of a backend that wants none: CLIs do not start without one.
const dummyKey = "local"
