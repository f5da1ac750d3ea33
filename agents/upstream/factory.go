package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents"
)

// Factory holds upstream's configuration: its files and its environment.
type Factory struct {
	Root     string // of the checkout with dev/, review/ and projects/
	Self     string // path of this program, which runs the scripts
	Projects []*Project
	// Poll runs upstream's pollers at an interval instead of one script per item: its scheduler inside ours.
	Poll      bool
	LookupEnv func(string) (string, bool)
}

// job describes how a role works: script on an item, or poll at an interval.
type job struct {
	on             agents.On
	script, poll   string
	args           []string
	every          string // the variable that holds the interval, in seconds
	seconds        int    // the default interval
	timeout, stall string
}

// jobs are upstream's roles. Its scripts limit themselves (CLAUDE_TIMEOUT is 2 h, and they wait 3 h for a review, in up
// to nine rounds) and print into files, so our own limits only end scripts that hang.
var jobs = map[string]job{
	"dev": {
		on: agents.OnIssue, script: "dev/dev-agent.sh", poll: "dev/dev-poll.sh", args: []string{"{{.Issue}}"},
		every: "POLL_INTERVAL", seconds: 300, timeout: "24h", stall: "4h",
	},
	"review": {
		on: agents.OnReview, script: "review/review-pr.sh", poll: "review/review-poll.sh", args: []string{"{{.Number}}"},
		every: "POLL_INTERVAL", seconds: 300, timeout: "2h", stall: "1h",
	},
	"gardener":   errand("gardener/gardener-step.sh", "POLL_INTERVAL", 300),
	"architect":  errand("architect/architect-run.sh", "ARCHITECT_INTERVAL", 15*60),
	"planner":    errand("planner/planner-run.sh", "PLANNER_INTERVAL", 12*60*60),
	"predictor":  errand("predictor/predictor-run.sh", "PREDICTOR_INTERVAL", 24*60*60),
	"supervisor": errand("supervisor/supervisor-run.sh", "SUPERVISOR_INTERVAL", 20*60),
}

func errand(script, every string, seconds int) job {
	return job{script: script, every: every, seconds: seconds, timeout: "4h", stall: "3h"}
}

// defaultRoles are the roles of upstream's entrypoint.
const defaultRoles = "review,dev,gardener,architect,planner,predictor,supervisor"

// The tables of factory.toml, in the order of its text.
type (
	document struct {
		Forge   forgeTable            `toml:"forge"`
		Threads map[string]any        `toml:"threads"` // one table per thread, in its encoded form
		Agents  map[string]agentTable `toml:"agents"`
		Roles   map[string]roleTable  `toml:"roles"`

		threads map[string]*threadTable
		placed  map[string]string // thread by agent, for agents that a project assigns
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

		written map[string]any // the table as a project has it; nil for a generated thread
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
		// Write names what the scripts write to: locks in /tmp, and files in their checkout.
		Write []string `toml:"sandbox_write"`
	}
)

// TOML returns the factory.toml that is equivalent to upstream's files and environment. The same input always returns
// the same text, so that it can be compared. The error has a line for each value without an equivalent.
func (f *Factory) TOML() (string, error) {
	d := document{
		Threads: map[string]any{}, Agents: map[string]agentTable{}, Roles: map[string]roleTable{},
		threads: map[string]*threadTable{}, placed: map[string]string{},
	}
	var wrong mistakes
	for _, read := range []func(*document, *mistakes){
		f.readForge, f.readThreads, f.readBots, f.readAgents, f.addNamed, f.readRoles,
	} {
		read(&d, &wrong)
	}
	if err := errors.Join(wrong...); err != nil {
		return "", err
	}
	for name, t := range d.threads {
		d.Threads[name] = t.table()
	}
	var b strings.Builder
	encoder := toml.NewEncoder(&b)
	encoder.Indent = ""
	if err := encoder.Encode(d); err != nil {
		return "", fmt.Errorf("cannot write the configuration: %w", err)
	}
	// The encoder also writes headers for tables that contain only tables.
	text := strings.NewReplacer("[threads]\n", "", "[agents]\n", "", "[roles]\n", "").Replace(b.String())
	return strings.NewReplacer("\n\n[", "\n\n[", "\n[", "\n\n[").Replace(text), nil
}

func (f *Factory) getenv(name string) string {
	value, _ := f.LookupEnv(name)
	return value
}

// mistakes collects errors, so that the operator sees all at once.
type mistakes []error

func (m *mistakes) add(format string, args ...any) { *m = append(*m, fmt.Errorf(format, args...)) }

func (f *Factory) readForge(d *document, wrong *mistakes) {
	t := &d.Forge
	t.Token, t.URL = "$FORGE_TOKEN", f.getenv("FORGE_URL")
	if f.Poll {
		t.Merge = "manual" // dev-poll.sh merges
	}
	for _, p := range f.Projects {
		if f.getenv("FORGE_URL") == "" && p.ForgeURL != "" {
			if t.URL != "" && t.URL != p.ForgeURL {
				wrong.add("%s: forge_url is %q, but that of another project is %q: a factory has one forge",
					p.Path, p.ForgeURL, t.URL)
			}
			t.URL = p.ForgeURL
		}
		if slices.Contains(t.Repos, p.Repo) {
			wrong.add("%s: repo is %q, which another project has too", p.Path, p.Repo)
		}
		t.Repos = append(t.Repos, p.Repo)
	}
}

// readBots adds upstream's own accounts, one for each role in AGENT_ROLES. dev-bot takes the roles without a token of
// their own, because upstream falls back to its token. It does not take review: no account can review its own work.
func (f *Factory) readBots(d *document, wrong *mistakes) {
	list := f.getenv("AGENT_ROLES")
	var bots []string
	for _, role := range words(cmp.Or(list, defaultRoles)) {
		if _, known := jobs[role]; !known {
			wrong.add("AGENT_ROLES has %q in it, which is not one of upstream's roles", role)
			return
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
		if !slices.Contains(bots, bot) {
			bots = append(bots, bot)
		}
	}
	for _, bot := range bots {
		d.place(bot, f.getenv("ANTHROPIC_BASE_URL")) // set in one of upstream's containers for a local model
	}
}

// readThreads adds the threads of the projects, unchanged.
func (f *Factory) readThreads(d *document, wrong *mistakes) {
	seen := map[string]Thread{}
	for _, p := range f.Projects {
		for _, t := range p.Threads {
			if old, ok := seen[t.Name]; ok {
				if !reflect.DeepEqual(old, t) {
					wrong.add("%s: threads.%s is not the same in another project", p.Path, t.Name)
				}
				continue
			}
			seen[t.Name] = t
			d.threads[t.Name] = &threadTable{BaseURL: t.baseURL(), Agents: slices.Clone(t.Agents), written: maps.Clone(t.Table)}
			for _, agent := range t.Agents {
				if other, ok := d.placed[agent]; ok {
					wrong.add("%s: threads.%s.agents has %q in it, which threads.%s has too", p.Path, t.Name, agent, other)
				}
				d.placed[agent] = t.Name
			}
		}
	}
}

// place adds an agent to the thread of its server, with a slot for it, unless a project assigns the agent to a thread.
func (d *document) place(agent, baseURL string) {
	if d.placed[agent] != "" {
		return
	}
	name := threadName(baseURL)
	t := d.threads[name]
	if t == nil {
		t = &threadTable{Backend: "anthropic", BaseURL: baseURL}
		d.threads[name] = t
	}
	t.Agents = append(t.Agents, agent)
	if baseURL != "" {
		t.Backend, t.Slots = "local", t.Slots+1
	}
}

// table returns the thread's table in factory.toml.
func (t *threadTable) table() any {
	if t.written == nil {
		return *t
	}
	t.written["agents"] = t.Agents
	return t.written
}

// addNamed adds the agents that only the agents list of a project's thread names. The beginning of the name is the
// role, as in factory.toml.
func (f *Factory) addNamed(d *document, wrong *mistakes) {
	for _, name := range slices.Sorted(maps.Keys(d.placed)) {
		if _, known := d.Agents[name]; known {
			continue
		}
		role, _, _ := strings.Cut(name, "-")
		if _, known := jobs[role]; !known {
			wrong.add("threads.%s.agents has %q in it, which does not begin with one of upstream's roles and has no [agents.%s]",
				d.placed[name], name, name)
			continue
		}
		d.Agents[name] = agentTable{Roles: []string{role}, Token: "$" + agents.TokenVar(name)}
	}
}

// readAgents adds the agents of the projects. Each server without a [threads] table becomes a thread with a slot for
// each of its agents, because upstream ran each agent in its own container.
func (f *Factory) readAgents(d *document, wrong *mistakes) {
	seen := map[string]Agent{}
	for _, p := range f.Projects {
		for _, a := range p.Agents {
			if old, ok := seen[a.Name]; ok {
				same := old.Login == a.Login && old.BaseURL == a.BaseURL && old.Model == a.Model
				if !same || !slices.Equal(old.Roles, a.Roles) {
					wrong.add("%s: agents.%s is not the same in another project", p.Path, a.Name)
				}
				continue
			}
			if _, bot := d.Agents[a.Name]; bot {
				wrong.add("%s: agents.%s has the name of a role's bot: give it another one", p.Path, a.Name)
			}
			seen[a.Name] = a
			if t := d.threads[d.placed[a.Name]]; t != nil && a.BaseURL != "" && t.BaseURL != a.BaseURL {
				wrong.add("%s: agents.%s.base_url is %q, and threads.%s, which has this agent, has %q", p.Path, a.Name,
					a.BaseURL, d.placed[a.Name], t.BaseURL)
			}
			d.place(a.Name, a.BaseURL)
			d.Agents[a.Name] = agentTable{
				Roles: slices.Clone(a.Roles), Login: a.Login, Token: "$" + agents.TokenVar(a.Login), Model: a.Model,
			}
		}
	}
}

// threadName returns the host and port of a server, and "anthropic" without one.
func threadName(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" {
		return "anthropic"
	}
	return strings.Trim(strings.NewReplacer(":", "-", "[", "", "]", "").Replace(u.Host), "-")
}

// readRoles adds the roles that agents have. A poller works with its agent's account, but a role with an interval runs
// once at a time, so each agent that polls gets its own role.
func (f *Factory) readRoles(d *document, wrong *mistakes) {
	for _, name := range slices.Sorted(maps.Keys(d.Agents)) {
		roles := d.Agents[name].Roles
		for i, role := range roles {
			j, known := jobs[role]
			if !known {
				wrong.add("agents.%s.roles has %q in it, which is not one of upstream's roles", name, role)
				continue
			}
			if f.Poll && j.poll != "" && !strings.HasSuffix(name, "-bot") {
				role += "-" + name
			}
			d.Roles[role], roles[i] = f.role(&j, wrong), role
		}
	}
}

func (f *Factory) role(j *job, wrong *mistakes) roleTable {
	r := roleTable{On: j.on, Timeout: j.timeout, Stall: j.stall, Write: []string{f.Root, "/tmp"}}
	script, args := j.script, j.args
	if f.Poll && j.poll != "" {
		script, args = j.poll, nil
		r.On, r.Timeout = "", "24h" // the poller waits for the agents that it starts
	}
	if r.On == "" {
		text := cmp.Or(f.getenv(j.every), strconv.Itoa(j.seconds))
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 {
			wrong.add("%s is %q, want a number of seconds", j.every, text)
		}
		r.On, r.Every = agents.OnSchedule, fmt.Sprintf("%ds", seconds)
	}
	r.Waits = r.On.Does(agents.KindIssue)
	r.Command = append([]string{f.Self, "upstream", "--root", f.Root, script}, args...)
	return r
}
