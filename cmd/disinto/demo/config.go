package demo

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Config returns the factory.toml of the demo. It has an API thread whose slot the agents share, and a llama thread
// with two slots for one agent each. program is the agents' command. Tokens come from the environment. If the demo is
// kept, its scheduled roles run once an hour.
func Config(url, state, web string, program []string, kept bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `[forge]
url = %q
token = "$FORGE_TOKEN"
repos = [%q]

[factory]
state = %q
stop_grace = "2s"
min_free_memory = "0" # the demo also runs on a small machine
min_free_disk = "0"
%s
[threads.anthropic]
backend = "anthropic"
max_concurrent = 1
overlap = true      # agents share the slot
interval = "1s"
idle_interval = "2s"
agents = [%s]

[threads.llama]
backend = "local"
max_concurrent = 2
overlap = false     # sticky: one agent per slot until done
interval = "1s"
idle_interval = "2s"
agents = [%s]
`, url, Repo, state, room(web), members("anthropic"), members("llama"))
	for _, a := range team {
		fmt.Fprintf(&b, "\n[agents.%s]\ntoken = %q\n", a.name, "$"+agents.TokenVar(a.name))
	}
	for _, r := range roles {
		fmt.Fprintf(&b, "\n[roles.%s]\non = %q\ncommand = [%s]\n", r.name, r.on, quotedList(program))
		switch {
		case r.every > 0 && kept:
			b.WriteString("every = \"1h\"\n")
		case r.every > 0:
			fmt.Fprintf(&b, "every = %q\n", r.every)
		}
	}
	return b.String()
}

// roles are the agents' roles. The scheduled roles run a few times during a demo.
var roles = []struct {
	name, on string
	every    time.Duration
}{
	{"dev", "issue", 0},
	{"review", "review", 0},
	{"gardener", "schedule", 6 * time.Second},
	{"planner", "schedule", 8 * time.Second},
}

func members(thread string) string {
	var names []string
	for _, a := range team {
		if a.thread == thread {
			names = append(names, a.name)
		}
	}
	return quotedList(names)
}

func quotedList(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(quoted, ", ")
}

// WebToken is the environment variable of the token for signing in to the control room.
const WebToken = "DISINTO_API_TOKEN"

// room returns the keys for a control room at an address; none if the address is empty.
func room(web string) string {
	if web == "" {
		return ""
	}
	return fmt.Sprintf("listen_web = %q\nlisten_token = %q\n", web, "$"+WebToken)
}
