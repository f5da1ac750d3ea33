package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents"
)

// Factory is what upstream is told, by files and by its environment.
type Factory struct {
	Root     string // of the checkout with dev/, review/ and projects/
	Self     string // the program that runs the scripts: this one
	Projects []*Project
	// Poll runs upstream's own pollers by the clock, in place of agents by piece of work: its scheduler inside of ours.
	Poll      bool
	LookupEnv func(string) (string, bool)
}

// job is how a role works: by piece of work, and by the clock.
type job struct {
	on             agents.On
	script, poll   string
	args           []string
	every          string // the variable that says how often, in seconds
	seconds        int    // when it does not
	timeout, stall string
}

// jobs are upstream's roles. Its scripts bound themselves (CLAUDE_TIMEOUT is 2 h, a review is waited for 3 h, and there are
// up to nine rounds) and print into files, so that ours are there only for what hangs.
var jobs = map[string]job{
	"dev": {
		on: agents.OnIssue, script: "dev/dev-agent.sh", poll: "dev/dev-poll.sh", args: []string{"{{.Issue}}"},
		every: "POLL_INTERVAL", seconds: 300, timeout: "24h", stall: "4h",
	},
	"review": {
		on: agents.OnReview, script: "review/review-pr.sh", poll: "review/review-poll.sh", args: []string{"{{.Number}}"},
		every: "POLL_INTERVAL", seconds: 300, timeout: "2h", stall: "1h",
	},
	"gardener":   {script: "gardener/gardener-step.sh", every: "POLL_INTERVAL", seconds: 300, timeout: "4h", stall: "3h"},
	"architect":  {script: "architect/architect-run.sh", every: "ARCHITECT_INTERVAL", seconds: 900, timeout: "4h", stall: "3h"},
	"planner":    {script: "planner/planner-run.sh", every: "PLANNER_INTERVAL", seconds: 12 * 60 * 60, timeout: "4h", stall: "3h"},
	"predictor":  {script: "predictor/predictor-run.sh", every: "PREDICTOR_INTERVAL", seconds: 24 * 60 * 60, timeout: "4h", stall: "3h"},
	"supervisor": {script: "supervisor/supervisor-run.sh", every: "SUPERVISOR_INTERVAL", seconds: 20 * 60, timeout: "4h", stall: "3h"},
}

// defaultRoles are those of upstream's entrypoint.
const defaultRoles = "review,dev,gardener,architect,planner,predictor,supervisor"

// The tables of the factory.toml, in the order in which people read them.
type (
	document struct {
		Forge   forgeTable             `toml:"forge"`
		Threads map[string]threadTable `toml:"threads"`
		Agents  map[string]agentTable  `toml:"agents"`
		Roles   map[string]roleTable   `toml:"roles"`
	}
	forgeTable struct {
		URL   string   `toml:"url"`
		Token string   `toml:"token"`
		Repos []string `toml:"repos"`
		Merge string   `toml:"merge,omitempty"`
	}
	threadTable struct {
		Backend string   `toml:"backend"`
		BaseURL string   `toml:"base_url,omitempty"`
		Slots   int      `toml:"max_concurrent,omitzero"`
		Agents  []string `toml:"agents"`
	}
	agentTable struct {
		Roles []string `toml:"roles"`
		Login string   `toml:"forge_user,omitempty"`
		Token string   `toml:"token"`
		Model string   `toml:"model,omitempty"`
	}
	roleTable struct {
		On      agents.On `toml:"on"`
		Every   string    `toml:"every,omitempty"`
		Command []string  `toml:"command"`
		Waits   bool      `toml:"waits_for_review,omitempty"`
		Timeout string    `toml:"timeout"`
		Stall   string    `toml:"stall"`
	}
)

// TOML is the factory.toml that means what upstream's files and environment mean. The error has a line for each thing that
// has no meaning. It is the same text every time, so that it can be compared.
func (f *Factory) TOML() (string, error) {
	d := document{Threads: map[string]threadTable{}, Agents: map[string]agentTable{}, Roles: map[string]roleTable{}}
	problems := []error{f.readForge(&d.Forge), f.readBots(&d), f.readAgents(&d), f.readRoles(&d)}
	if err := errors.Join(problems...); err != nil {
		return "", err
	}
	var b strings.Builder
	encoder := toml.NewEncoder(&b)
	encoder.Indent = ""
	if err := encoder.Encode(d); err != nil {
		return "", fmt.Errorf("cannot write the configuration: %w", err)
	}
	// The encoder writes the tables that have nothing but tables in them, too.
	text := strings.NewReplacer("[threads]\n", "", "[agents]\n", "", "[roles]\n", "").Replace(b.String())
	return strings.NewReplacer("\n\n[", "\n\n[", "\n[", "\n\n[").Replace(text), nil
}

func (f *Factory) getenv(name string) string {
	value, _ := f.LookupEnv(name)
	return value
}

func (f *Factory) readForge(t *forgeTable) error {
	t.Token, t.URL = "$FORGE_TOKEN", f.getenv("FORGE_URL")
	if f.Poll {
		t.Merge = "manual" // dev-poll.sh merges
	}
	var problems []error
	for _, p := range f.Projects {
		if f.getenv("FORGE_URL") == "" && p.ForgeURL != "" {
			if t.URL != "" && t.URL != p.ForgeURL {
				problems = append(problems, fmt.Errorf("%s: forge_url is %q, but that of another project is %q: a factory has one forge", p.Path, p.ForgeURL, t.URL))
			}
			t.URL = p.ForgeURL
		}
		if slices.Contains(t.Repos, p.Repo) {
			problems = append(problems, fmt.Errorf("%s: repo is %q, which another project has too", p.Path, p.Repo))
		}
		t.Repos = append(t.Repos, p.Repo)
	}
	return errors.Join(problems...)
}

// readBots adds upstream's own accounts, one for each role that AGENT_ROLES names. A role without a token of its own is done
// by dev-bot, as upstream falls back to its token; but nobody can review with the account that wrote.
func (f *Factory) readBots(d *document) error {
	list := f.getenv("AGENT_ROLES")
	var t threadTable
	for _, role := range words(cmp.Or(list, defaultRoles)) {
		if _, known := jobs[role]; !known {
			return fmt.Errorf("AGENT_ROLES has %q in it, which is no role of upstream's", role)
		}
		bot, variable := role+"-bot", "FORGE_"+strings.ToUpper(role)+"_TOKEN"
		switch {
		case role == "review" && f.getenv(variable) == "" && f.getenv("REVIEW_BOT_TOKEN") != "":
			variable = "REVIEW_BOT_TOKEN"
		case role == "review" && f.getenv(variable) == "" && list == "":
			continue // people review
		case role == "dev", role != "review" && f.getenv(variable) == "":
			bot, variable = "dev-bot", "FORGE_TOKEN"
		}
		a := d.Agents[bot]
		a.Roles, a.Token, a.Model = append(a.Roles, role), "$"+variable, f.getenv("CLAUDE_MODEL")
		d.Agents[bot] = a
		if !slices.Contains(t.Agents, bot) {
			t.Agents = append(t.Agents, bot)
		}
	}
	t.Backend = "anthropic"
	if f.getenv("ANTHROPIC_BASE_URL") != "" { // one of upstream's containers for a local model
		t.Backend, t.BaseURL, t.Slots = "local", f.getenv("ANTHROPIC_BASE_URL"), len(t.Agents)
	}
	d.Threads[threadName(t.BaseURL)] = t
	return nil
}

// readAgents adds the agents of the projects: a thread for each server, with a slot for each agent, as upstream ran each in a
// container of its own.
func (f *Factory) readAgents(d *document) error {
	seen := map[string]Agent{}
	var problems []error
	for _, p := range f.Projects {
		for _, a := range p.Agents {
			if old, ok := seen[a.Name]; ok {
				if old.Login != a.Login || old.BaseURL != a.BaseURL || old.Model != a.Model || !slices.Equal(old.Roles, a.Roles) {
					problems = append(problems, fmt.Errorf("%s: agents.%s is not what another project says of it", p.Path, a.Name))
				}
				continue
			}
			if _, bot := d.Agents[a.Name]; bot {
				problems = append(problems, fmt.Errorf("%s: agents.%s is called as the bot of a role: give it another name", p.Path, a.Name))
			}
			seen[a.Name] = a
			name := threadName(a.BaseURL)
			t := d.Threads[name]
			t.Backend, t.BaseURL, t.Slots, t.Agents = "local", a.BaseURL, t.Slots+1, append(t.Agents, a.Name)
			d.Threads[name] = t
			d.Agents[a.Name] = agentTable{Roles: slices.Clone(a.Roles), Login: a.Login, Token: "$" + agents.TokenVar(a.Login), Model: a.Model}
		}
	}
	return errors.Join(problems...)
}

// threadName is the host and port of a server, and anthropic for none.
func threadName(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" {
		return "anthropic"
	}
	return strings.Trim(strings.NewReplacer(":", "-", "[", "", "]", "").Replace(u.Host), "-")
}

// readRoles adds the roles that agents have. A poller is for the agent whose account it runs with: by the clock a role
// works once at a time, so where several agents poll, each has a role of its own.
func (f *Factory) readRoles(d *document) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(d.Agents)) {
		roles := d.Agents[name].Roles
		for i, role := range roles {
			j, known := jobs[role]
			if !known {
				problems = append(problems, fmt.Errorf("agents.%s.roles has %q in it, which is no role of upstream's", name, role))
				continue
			}
			if f.Poll && j.poll != "" && !strings.HasSuffix(name, "-bot") {
				role += "-" + name
			}
			r, err := f.role(&j)
			problems = append(problems, err)
			d.Roles[role], roles[i] = r, role
		}
	}
	return errors.Join(problems...)
}

func (f *Factory) role(j *job) (roleTable, error) {
	r := roleTable{On: j.on, Timeout: j.timeout, Stall: j.stall}
	script, args := j.script, j.args
	if f.Poll && j.poll != "" {
		script, args = j.poll, nil
		r.On, r.Timeout = "", "24h" // the agents that it starts count too
	}
	var err error
	if r.On == "" {
		r.On = agents.OnSchedule
		r.Every, err = f.interval(j)
	}
	r.Waits = r.On == agents.OnIssue
	r.Command = append([]string{f.Self, "upstream", "--root", f.Root, script}, args...)
	return r, err
}

// interval reads upstream's seconds.
func (f *Factory) interval(j *job) (string, error) {
	seconds := j.seconds
	if text := f.getenv(j.every); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return "", fmt.Errorf("%s is %q, want a number of seconds", j.every, text)
		}
		seconds = n
	}
	return fmt.Sprintf("%ds", seconds), nil
}
