package session

import (
	"cmp"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// adapter is all that the session knows about one agent CLI. Its methods are pure.
type adapter interface {
	// command returns the program with its arguments, and variables to set for it. NAME= without a value removes a
	// variable. The prompt is passed on stdin.
	command(c *call) (argv, vars []string)
	// read adds one line of stdout to the report, and reports whether the line is an event. It sets Note only if the
	// event is of interest to people.
	read(line []byte, r *report) bool
	// credentials returns what the CLI can authenticate with at a paid backend: variables, in the order in which the
	// CLI checks them, and files relative to the agent's home. One of them is enough.
	credentials() (vars, files []string)
}

// call is one run of a CLI.
type call struct {
	Session string // id of the conversation: a new one, or the one to resume
	Resume  bool
	Model   string  // empty means the CLI's own default
	BaseURL string  // of the backend, without a trailing slash; empty means the CLI's own
	Local   bool    // the backend is a server of the operator
	Context int     // context length of the model, in tokens; 0 means unknown
	MaxUSD  float64 // maximum cost of the run; 0 means no limit
	// Tree is the checkout to review. The CLI starts in another folder, reads the checkout like any other, and takes no
	// settings from it. Empty means that the CLI starts in its checkout.
	Tree    string
	environ []string
	talk    *talk // the CLI's stdin; nil for one that does not talk
}

// diarist is an adapter for a CLI whose own record of a conversation says more than its events: codex reports its usage
// there while it runs, and qwen the answer after which it waits. Its methods are pure.
type diarist interface {
	// diary returns a glob pattern for the record; empty while it says nothing more.
	diary(environ []string, r *report) string
	// readDiary adds a line of the record to the report. before is the usage of the conversation before the run.
	readDiary(line []byte, r *report, before agents.Usage)
}

// talker is an adapter for a CLI that is not given its prompt at once, but asks and is answered while it runs. It has
// the state of one run.
type talker interface {
	// begin starts a run in a folder. before is the usage of the conversation before it.
	begin(c *call, dir, prompt string, before agents.Usage)
	// say returns what to write to the CLI after its last line, and how far the two are.
	say() (text []byte, at stage)
}

// adapters has an entry for each of agents.CLIs, added by that adapter's file.
var adapters = map[string]adapter{}

func findAdapter(name string) (adapter, error) {
	a, ok := adapters[name]
	if !ok {
		return nil, fmt.Errorf("there is no agent CLI %q, want one of %s", name, strings.Join(agents.CLINames(), ", "))
	}
	return a, nil
}

// host is the backend's address without the API version, which some CLIs add and others expect.
func (c *call) host() string { return strings.TrimSuffix(c.BaseURL, "/v1") }

// v1 is the backend's address with the API version; empty without a backend.
func (c *call) v1() string {
	if c.BaseURL == "" {
		return ""
	}
	return c.host() + "/v1"
}

// unlessSet returns NAME=value for the names that the operator has not set. The values "" and "0" mean unknown.
func (c *call) unlessSet(value string, names ...string) (vars []string) {
	for _, name := range names {
		if cmp.Or(value, "0") != "0" && agents.Getenv(c.environ, name) == "" {
			vars = append(vars, name+"="+value)
		}
	}
	return vars
}

// dummyKey is the key for a backend that needs none, because CLIs do not start without a key.
const dummyKey = "local"
