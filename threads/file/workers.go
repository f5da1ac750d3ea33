package file

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/tomltext"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

var (
	// agentName is the rule of upstream's hire-an-agent. Such a name is valid as a login, a directory and an environment
	// variable.
	agentName = regexp.MustCompile(`^[a-z]([a-z0-9]|-[a-z0-9])*$`)
	otherName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
)

// assignment is the thread of an agent, and the line that names it there.
type assignment struct {
	thread string
	line   int
}

func (d *decoder) readThreads(tables []*table) {
	if len(tables) == 0 {
		d.wrong(0, nil, "no threads: add a [threads.NAME] table with the agents that work there")
	}
	for _, t := range tables {
		d.config.Threads = append(d.config.Threads, d.thread(t))
	}
	slices.SortFunc(d.config.Threads, func(a, b threads.Thread) int { return cmp.Compare(a.Name, b.Name) })
}

// maxHold bounds how long a slot may be kept empty: reading 200,000 tokens at 220 a second takes that long.
const maxHold = 15 * time.Minute

// leastInterval refuses a typing error such as "5ms", which would send the forge 200 requests a second.
const leastInterval = 100 * time.Millisecond

func (d *decoder) thread(t *table) threads.Thread {
	d.checkName(t, otherName)
	backend := t.backend()
	th := threads.Thread{
		Name:            t.name(),
		Backend:         backend,
		Slots:           t.number("max_concurrent", 1, 1),
		Overlap:         t.truth("overlap", backend.Shares()),
		Interval:        t.duration("interval", 5*time.Second, leastInterval),
		IdleInterval:    t.duration("idle_interval", 30*time.Second, leastInterval),
		BreakerInterval: t.duration("breaker_interval", 5*time.Minute, leastInterval),
		Hold:            t.duration("hold", 0, 0),
		BaseURL:         t.baseURL(),
		Budget:          t.budget(),
		Agents:          t.set("agents"),
		EnvAllow:        t.patterns("env_allow"),
		EnvDeny:         t.patterns("env_deny"),
		Vars:            t.vars("env", t.name()),
		RenamedFrom:     t.text("renamed_from"),
	}
	t.removedWait("affinity_wait", 0, "any agent takes an issue")
	th.Windows, th.Reserve = t.windows()
	t.fallback(&th)
	t.executor(&th)
	th.Cache, th.Saved = t.cache(&th)
	switch {
	case th.Hold > 0 && th.Overlap:
		t.wrong("hold", "is %s, and with overlap no slot keeps anything: want 0s, or overlap = false", th.Hold)
	case th.Hold > 0 && th.Cache == threads.CacheServer:
		t.wrong("hold", `is %s, and with cache = "server" no slot keeps anything: want 0s, or cache = "slot"`, th.Hold)
	case th.Hold > maxHold:
		const want = "is %s, want at most %s: it is the time to read one context again"
		t.wrong("hold", want, short(th.Hold), short(maxHold))
	}
	if th.Overlap {
		th.MaxSessions = t.number("max_sessions", max(1, len(th.Agents)), 1)
	} else {
		th.MaxSessions = t.number("max_sessions", th.Slots, 1)
		if th.MaxSessions != th.Slots {
			t.wrong("max_sessions", "is %d, want %d like max_concurrent: without overlap a slot has one session",
				th.MaxSessions, th.Slots)
		}
	}
	for _, name := range th.Agents {
		d.assign(t, name)
	}
	t.done()
	return th
}

// fallback reads where work of the thread goes while it is shut: nowhere, up the ladder, or to other threads as well.
func (t *table) fallback(th *threads.Thread) {
	if _, listed := t.values["fallback"].([]any); listed {
		th.Fallback, th.FallbackTo = true, t.list("fallback")
	} else {
		th.Fallback = t.truth("fallback", true)
	}
	s := t.shapeOf("fallback")
	s.Type, s.Items = []string{"boolean", "array"}, &shape{Type: "string", MinLength: 1}
}

// backend reads the kind of a thread's inference. All APIs are one kind, which has two names in the file.
func (t *table) backend() threads.Backend {
	const api = "api"
	const want = `"api" for any service that keeps nothing between two requests, such as Anthropic's or OpenAI's, ` +
		`or "local" for a server of your own, such as llama-server`
	s, ok := get[string](t, "backend", want)
	words := []string{api}
	for _, b := range agents.Backends() {
		words = append(words, string(b))
	}
	t.shapeOf("backend").Enum = words
	switch {
	case s == api:
		return threads.API
	case slices.Contains(words, s):
		return threads.Backend(s)
	case ok:
		t.wrong("backend", "is %q, want %s", s, want)
	case !t.has("backend"):
		t.wrong("backend", "is not set, want %s", want)
	}
	return ""
}

// assign puts an agent on a thread.
func (d *decoder) assign(t *table, name string) {
	if !agentName.MatchString(name) {
		t.wrong("agents", "has %q in it, want names of lower-case letters and digits, single hyphens between them", name)
		return
	}
	if other, ok := d.assigned[name]; ok {
		t.wrong("agents", "has %s in it, which is on thread %s already", name, other.thread)
		return
	}
	key := append(slices.Clone(t.path), "agents")
	d.assigned[name] = assignment{t.name(), d.lines[key.String()]}
}

func (d *decoder) checkName(t *table, grammar *regexp.Regexp) {
	if !grammar.MatchString(t.name()) {
		d.wrong(t.line, t.path, "is not a valid name: want letters and digits, with - _ . between them")
	}
}

// baseURL reads the address of an inference server; "" without one. Every client resolves localhost by itself, perhaps
// to ::1, where another may listen. So over plain HTTP it becomes 127.0.0.1.
func (t *table) baseURL() string {
	s := t.text("base_url")
	if s == "" {
		return ""
	}
	s = t.address("base_url", "", s)
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || !strings.EqualFold(u.Hostname(), "localhost") {
		return s
	}
	u.Host = strings.TrimSuffix("127.0.0.1:"+u.Port(), ":")
	return u.String()
}

// readAgents reads the agents that threads name, which need no table. A table for any other agent is a mistake: the
// agent would silently never work.
func (d *decoder) readAgents(tables []*table) {
	byName := make(map[string]*table)
	for _, t := range tables {
		byName[t.name()] = t
		if _, ok := d.assigned[t.name()]; ok {
			continue
		}
		if t.name() == "schedule" {
			d.wrong(t.line, t.path, `is upstream's table of intervals, not an agent: write every = "6h" in the table of a role`)
		} else {
			d.wrong(t.line, t.path, "is in no thread's agents%s",
				cmp.Or(threads.Suggest(t.name(), slices.Collect(maps.Keys(d.assigned))), d.lineToAdd(t)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.assigned)) {
		t := byName[name]
		if t == nil {
			t = &table{d: d, path: []string{"agents", name}, line: d.assigned[name].line}
		}
		d.config.Agents = append(d.config.Agents, d.agent(t))
	}
}

// lineToAdd returns the line that puts an agent on a thread: the thread that its table names, else the first.
func (d *decoder) lineToAdd(t *table) string {
	if len(d.config.Threads) == 0 {
		return ""
	}
	named, _ := t.values["thread"].(string)
	isNamed := func(th threads.Thread) bool { return th.Name == named }
	on := &d.config.Threads[max(0, slices.IndexFunc(d.config.Threads, isNamed))]
	line := "agents = " + tomltext.QuoteList(append(slices.Clone(on.Agents), t.name()))
	key := toml.Key{"threads", on.Name}
	if at := d.lineOf(append(key, "agents")); at > 0 {
		return fmt.Sprintf(": in line %d, below [%s], want %s", at, key, line)
	}
	return fmt.Sprintf(": add %s below [%s], line %d", line, key, d.lineOf(key))
}

func (d *decoder) agent(t *table) agents.Agent {
	name := t.name()
	if t.has("thread") {
		t.ignore("thread")
		t.wrong("thread", "is not a key of an agent: threads list their agents, and %s is on %s", name,
			d.assigned[name].thread)
	}
	a := agents.Agent{
		Name:    name,
		Login:   cmp.Or(t.text("forge_user"), name),
		Roles:   d.agentRoles(t),
		Thread:  d.assigned[name].thread,
		Model:   t.text("model"),
		BaseURL: t.baseURL(),
		Token:   t.token("token", name, agents.TokenVar(name)),
		Skills:  t.set("skills"),

		RenamedFrom: t.text("renamed_from"),
		User:        t.text("user"),
		Budget:      t.budget(),
		Limits:      t.limits(),
	}
	a.Escalate, a.EscalateAfter = t.ladder()
	if !forge.ValidRepo(a.Login + "/x") {
		t.wrong("forge_user", "is %q, which cannot be a login", a.Login)
	}
	// Upstream's hire-an-agent writes these three keys, which have no effect. An older version kept the variable of
	// api_key from other agents.
	for _, key := range []string{"api_key", "compact_pct", "poll_interval"} {
		if t.has(key) {
			t.known = append(t.known, key)
		}
	}
	if s, _ := t.values["api_key"].(string); strings.HasPrefix(s, "$") {
		t.wrong("api_key", "no longer keeps %s from other agents: remove it, and name it in env_deny of their threads", s)
	}
	t.done()
	return a
}

// agentRoles reads the roles of an agent: role or roles, else the role with which its name starts.
func (d *decoder) agentRoles(t *table) []string {
	one, many := t.text("role"), t.list("roles")
	switch {
	case t.has("role") && t.has("roles"):
		t.wrong("role", "is set, and roles is too: want one of them")
	case t.has("roles"):
		for i, name := range many {
			if slices.Contains(many[:i], name) {
				t.wrong("roles", "has %q twice", name)
			}
		}
		if list, ok := t.values["roles"].([]any); ok && len(list) == 0 {
			t.wrong("roles", "is empty, want at least one role")
		}
		return many
	case t.has("role"):
		if s, ok := t.values["role"].(string); ok && s == "" {
			t.wrong("role", "is empty")
		}
	default:
		if one = agents.RoleFromName(t.name()); one == "" {
			t.wrong("role", "is not set, and %s does not start with a role, as dev-qwen does", t.name())
		}
	}
	if one == "" {
		return nil
	}
	return []string{one}
}

// builtinRoles returns the roles that need no table. The intervals are those of upstream's scheduler without its
// rounding, except the gardener's: every 5 min would be 288 sessions a day.
func builtinRoles() map[string]agents.Role {
	return map[string]agents.Role{
		"dev":        {On: agents.OnIssue},
		"review":     {On: agents.OnReview},
		"gardener":   {On: agents.OnSchedule, Every: time.Hour},
		"architect":  {On: agents.OnSchedule, Every: 15 * time.Minute},
		"supervisor": {On: agents.OnSchedule, Every: 20 * time.Minute},
		"planner":    {On: agents.OnSchedule, Every: 12 * time.Hour},
		"predictor":  {On: agents.OnSchedule, Every: 24 * time.Hour},
	}
}

// readRoles reads the tables of roles and adds the roles that agents have to the configuration.
func (d *decoder) readRoles(tables []*table) {
	builtin := builtinRoles()
	known := slices.Collect(maps.Keys(builtin))
	used := d.usedRoles()
	roles := make(map[string]agents.Role)
	for _, t := range tables {
		name := t.name()
		known = append(known, name)
		roles[name] = d.role(t, builtin[name])
		if _, ok := builtin[name]; !ok && !slices.Contains(used, name) {
			d.wrong(t.line, t.path, "no agent has this role%s", threads.Suggest(name, used))
		}
	}
	for _, name := range used {
		r, ok := roles[name]
		if _, isBuiltin := builtin[name]; !ok && isBuiltin {
			r, ok = d.role(&table{d: d, path: []string{"roles", name}}, builtin[name]), true
		}
		if ok {
			d.config.Roles = append(d.config.Roles, r)
		} else {
			d.unknownRole(name, known)
		}
	}
}

// usedRoles returns the names of all roles that agents have, sorted.
func (d *decoder) usedRoles() []string {
	var used []string
	for _, a := range d.config.Agents {
		used = append(used, a.Roles...)
	}
	slices.Sort(used)
	return slices.Compact(used)
}

// unknownRole reports a role without a definition at each agent that has it.
func (d *decoder) unknownRole(name string, known []string) {
	for _, a := range d.config.Agents {
		if !slices.Contains(a.Roles, name) {
			continue
		}
		line := d.assigned[a.Name].line
		key := []string{"agents", a.Name, "role"}
		for _, last := range []string{"role", "roles"} {
			k := append(slices.Clone(key[:2]), last)
			if l := d.lineOf(k); l > 0 {
				key, line = k, l
			}
		}
		d.wrong(line, key, "%q is not a built-in role and has no table%s", name,
			cmp.Or(threads.Suggest(name, known), `: add [roles.`+name+`] with on = "issue", "review" or "schedule"`))
	}
}

func (d *decoder) role(t *table, unset agents.Role) agents.Role {
	d.checkName(t, otherName)
	var triggers []string
	for _, on := range agents.Triggers() {
		triggers = append(triggers, string(on))
	}
	on := agents.On(t.oneOf("on", string(unset.On), triggers...))
	if on != unset.On {
		unset.Every = 0
	}
	r := agents.Role{
		Name:           t.name(),
		On:             on,
		Label:          t.text("label"),
		Every:          t.duration("every", unset.Every, time.Second),
		Priority:       t.urgency(),
		CLI:            t.choice("cli", append(agents.CLINames(), agents.ACP)...),
		Command:        t.command("command"),
		Prompt:         agents.PromptBy(t.choice("prompt", string(agents.PromptStdin), string(agents.PromptFile))),
		Cwd:            t.text("cwd"),
		Timeout:        t.duration("timeout", 2*time.Hour, time.Millisecond),
		Stall:          t.duration("stall", 15*time.Minute, time.Millisecond),
		WaitsForReview: t.truth("waits_for_review", false),
		Plan:           t.truth("plan", false),
		Root:           t.truth("root", false),
		EnvAllow:       t.patterns("env_allow"),
		EnvDeny:        t.patterns("env_deny"),
		Sandbox:        t.sandbox(d.sandbox),
	}
	t.listen(&r)
	t.network(&r)
	t.spending(&r)
	r.Escalate, r.EscalateAfter = t.ladder()
	t.builtIn(&r, t.command("acp"))
	t.times(&r)
	if on != "" && !on.Items() && r.Label != "" {
		t.wrong("label", `is set, but on is %q: such work has no labels`, on)
	}
	if on != "" && !on.Writes() && r.WaitsForReview {
		t.wrong("waits_for_review", `is set, but on is %q: only a role with on = "issue" has work to be reviewed`, on)
	}
	if on != "" && !on.Writes() && r.Plan {
		t.wrong("plan", `is set, but on is %q: only a role with on = "issue" has work to be planned`, on)
	}
	t.done()
	return r
}

// builtinProgram stands for our own executable in the command of a role with cli or prompt. The caller replaces it by a
// path.
const builtinProgram = "disinto"

// builtIn sets the command of a role whose program is the built-in one. acp is the agent that speaks ACP.
func (t *table) builtIn(r *agents.Role, acp []string) {
	if r.CLI != "" {
		if t.has("command") {
			t.wrong("command", "is set, and cli is too: want one of them")
		}
		t.checkBuiltIn(r, "cli")
		r.Command = []string{builtinProgram, "agent", "--cli", r.CLI}
	}
	if r.CLI == agents.ACP {
		r.Command = append(append(r.Command, "--"), acp...)
	}
	t.checkACP(r)
	if r.Prompt != "" {
		t.checkPrompt(r)
		r.Command = append([]string{builtinProgram, "agent", "--prompt", string(r.Prompt), "--"}, r.Command...)
	}
}

// checkBuiltIn reports keys that contradict one that selects the built-in program, which works in its own worktree and
// never waits for a review.
func (t *table) checkBuiltIn(r *agents.Role, key string) {
	if r.Cwd != "" {
		t.wrong("cwd", "is set, and %s is too: the built-in program works in the workspace of its item", key)
	}
	if r.WaitsForReview {
		t.wrong("waits_for_review", "is set, and %s is too: the built-in program ends when its pull request is open", key)
	}
}

// checkACP reports keys that contradict an agent that speaks ACP. The protocol counts no tokens, and has no way to keep
// an agent from the settings of the repository that it looks at.
func (t *table) checkACP(r *agents.Role) {
	switch is := r.CLI == agents.ACP; {
	case is && !t.has("acp"):
		t.wrong("cli", `is "acp", and acp is not set: want the agent with its arguments, such as acp = ["gemini", "--acp"]`)
	case !is && t.has("acp"):
		t.wrong("acp", `is set, and cli is not: want cli = "acp"`)
	case is && r.On.Does(agents.KindReview):
		t.wrong("cli", `is "acp", and on is "review": nothing would keep the agent from the settings of a stranger's branch`)
	}
	if r.CLI == agents.ACP && t.has("max_tokens") {
		t.wrong("max_tokens", `is set, and cli is "acp": such agents report no tokens: want max_usd, if it reports its cost`)
	}
}

// checkPrompt reports keys that contradict prompt. The program gets its prompt from the built-in program.
func (t *table) checkPrompt(r *agents.Role) {
	switch {
	case r.CLI != "":
		t.wrong("prompt", "is set, and cli is too: want prompt beside command")
	case !t.has("command"):
		t.wrong("prompt", "is set, and command is not: want the program that gets the prompt")
	default:
		t.checkBuiltIn(r, "prompt")
	}
}

// command reads a program with its arguments, which may be templates.
func (t *table) command(key string) []string {
	const want = `a list such as ["dev/dev-agent.sh", "{{.Number}}"]`
	values, _ := get[[]any](t, key, want)
	t.shapeOf(key).Items = &shape{Type: "string"}
	command := t.words(key, values, t.has(key), want)
	for _, arg := range command {
		if err := agents.CheckArgument(arg); err != nil {
			t.wrong(key, "%q: %v", arg, err)
		}
	}
	return command
}
