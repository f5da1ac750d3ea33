package file

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

const (
	setupTime  = 10 * time.Minute // npm ci of a large project takes two minutes
	verifyTime = 15 * time.Minute
)

// readRepos reads the tables of single repositories. Their names are among those of [forge].
func (d *decoder) readRepos(tables []*table) {
	for _, t := range tables {
		r := threads.Repo{Name: d.repoName(t)}
		r.Setup, r.Verify = t.commands("setup", setupTime), t.commands("verify", verifyTime)
		r.Egress, r.SetupEgress = t.egress("egress", nil), t.egress("setup_egress", nil)
		r.VerifyTries = t.number("verify_tries", 3, 0)
		if t.has("verify_tries") && !t.has("verify") {
			t.wrong("verify_tries", "is set, and verify is not")
		}
		r.Priority = t.urgency()
		r.Budget, r.Prompts = t.budget(), t.text("prompts")
		r.MaxSessions = t.number("max_sessions", 0, 1)
		r.Agents = t.crew("agents", agents.KindIssue, agents.KindSchedule)
		r.Reviewers = t.crew("reviewers", agents.KindReview)
		if t.values != nil && len(t.values) == 0 {
			d.wrong(t.line, t.path, "is empty, want a key such as setup or agents")
		}
		t.done()
		if d.config.RepoTable(r.Name) != nil {
			d.wrong(t.line, t.path, "is the repository of another table, too: the case of letters does not count")
		}
		d.config.Repos = append(d.config.Repos, r)
	}
	slices.SortFunc(d.config.Repos, func(a, b threads.Repo) int { return cmp.Compare(a.Name, b.Name) })
}

// repoName returns the name of a repository's table as [forge] writes it.
func (d *decoder) repoName(t *table) string {
	repos := d.config.Forge.Repos
	if i := slices.IndexFunc(repos, func(r string) bool { return strings.EqualFold(r, t.name()) }); i >= 0 {
		return repos[i]
	}
	if t.noted == nil && len(repos) > 0 {
		d.wrong(t.line, t.path, "is not among the repos of [forge]%s", threads.Suggest(t.name(), repos))
	}
	return t.name()
}

// commands reads a list of commands and their time limit.
func (t *table) commands(key string, unset time.Duration) agents.Commands {
	c := agents.Commands{Argv: t.programs(key), Timeout: t.duration(key+"_timeout", unset, time.Second)}
	if t.has(key+"_timeout") && !t.has(key) {
		t.wrong(key+"_timeout", "is set, and %s is not", key)
	}
	return c
}

// crew reads the names of agents that do some kinds of work.
func (t *table) crew(key string, kinds ...agents.Kind) []string {
	list := t.set(key)
	if t.has(key) && len(list) == 0 {
		t.wrong(key, "is empty, want at least one agent; without the key it is every agent")
	}
	for _, name := range list {
		a := t.d.config.Agent(name)
		switch does := func(k agents.Kind) bool { return t.d.config.Does(a, k) }; {
		case a == nil:
			t.wrong(key, "has %q in it, which is in no thread's agents%s", name, threads.Suggest(name, t.d.agentNames()))
		case !slices.ContainsFunc(kinds, does):
			t.wrong(key, "has %s in it, which has no role for %s", name, kinds[0])
		}
	}
	return list
}

// agentNames returns the names of all agents.
func (d *decoder) agentNames() (names []string) {
	for i := range d.config.Agents {
		names = append(names, d.config.Agents[i].Name)
	}
	return names
}

// urgency reads a priority.
func (t *table) urgency() int {
	n := t.number("priority", forge.DefaultPriority, 1)
	if t.shapeOf("priority").between(1, 10); n > 10 {
		t.wrong("priority", "is %d, want 1 (first) to 10 (last)", n)
	}
	return n
}
