// Package proof proves properties of a configuration before any work is done: every author has a reviewer, every
// label and skill in use can be worked on, and no class of work keeps another waiting for ever. It also finds the
// most that a night can cost, and slots, agents and rules that can never be of use.
//
// It searches small worlds (world.go): the configuration, and a forge with an issue or two. The real threads.Decide
// decides, and the real ledger remembers. A search follows every outcome until no new state is left, so what it does
// not find cannot happen in such a world. It repeats no rule of the scheduler.
//
//	world.go    a forge, sessions and the ledger, and the story of each step
//	journey.go  one issue from its filing to its merge: reviewers, labels and skills
//	jam.go      sessions that wait for reviews, in every slot at once
//	order.go    an issue that others go before
//	cost.go     the most that a night can use
//	crew.go     agents that never run, and slots that no agent uses
//	mute.go     rules without effect
//
// Programs and tokens are assumed to exist: Config.Problems reports missing ones.
package proof

import (
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Weight is the importance of a finding.
type Weight int

// The weights, in ascending order.
const (
	Proven Weight = iota // nothing is wrong
	Hint                 // nothing stops, but something is of no use, or has no bound
	Wrong                // some work waits for ever
)

// Finding is one result of a proof.
type Finding struct {
	Claim  string // its subject, such as "reviewers"
	Weight Weight
	Text   string // one line, with the key of factory.toml
	// Story has the shortest sequence of steps that shows it, one a line; nil if it needs none.
	Story []string
}

// Prove returns the findings about a configuration, in the order of the claims. open has the open issues of the
// forge, if these were read: their labels and skills are in use, too.
func Prove(c *threads.Config, open []forge.Issue) []Finding {
	p := &prover{file: c, config: given(c), open: open, climbs: make(map[rung]bool), stuck: make(map[string]bool)}
	p.quiet = p.withoutSchedules()
	if len(c.Forge.Repos) == 0 || len(c.Agents) == 0 {
		return nil
	}
	for _, claim := range claims {
		before := len(p.found)
		all := claim.prove(p)
		p.found = append(p.found, p.told...)
		p.told = nil
		if len(p.found) == before && all != "" {
			p.found = append(p.found, Finding{Claim: claim.name, Text: all})
		}
	}
	return p.found
}

// claims are proven one after the other. Each returns the text that is reported if it has no finding; "" reports
// nothing.
var claims = []struct {
	name  string
	prove func(*prover) string
}{
	{"reviewers", (*prover).reviewers},
	{"skills", (*prover).skills},
	{"order", (*prover).order},
	{"cost", (*prover).cost},
	{"slots", (*prover).slots},
	{"rules", (*prover).rules},
}

// prover collects what it finds.
type prover struct {
	file   *threads.Config // as given
	config *threads.Config // with every program and token
	quiet  *threads.Config // the same without scheduled roles
	open   []forge.Issue
	found  []Finding
	told   []Finding // of the claim that is being proven

	sets    []labelSet // see inUse
	climbs  map[rung]bool
	stuck   map[string]bool // agents whose work waits for ever
	waiting []*stuck        // work that waits for ever, one entry for each reason
}

// rung is a rung of a ladder: the agent whose ladder it is, and the agent that takes over.
type rung struct{ of, by string }

func (p *prover) tell(claim string, weight Weight, text string, story []string) {
	same := func(f Finding) bool { return f.Claim == claim && f.Text == text }
	if !slices.ContainsFunc(p.told, same) {
		p.told = append(p.told, Finding{claim, weight, text, story})
	}
}

// given returns the configuration with a program for each role, a token for each agent, and without plans, which
// people approve. It limits the slots to one more than there are agents; more would change nothing.
func given(c *threads.Config) *threads.Config {
	all := *c
	all.Agents, all.Roles, all.Threads = slices.Clone(c.Agents), slices.Clone(c.Roles), slices.Clone(c.Threads)
	for i := range all.Threads {
		t := &all.Threads[i]
		enough := len(t.Agents) + 1
		t.Slots, t.MaxSessions = min(t.Slots, enough), min(t.MaxSessions, enough)
	}
	for i := range all.Agents {
		all.Agents[i].Token = "given"
	}
	for i := range all.Roles {
		all.Roles[i].Command, all.Roles[i].Plan = []string{"given"}, false
	}
	return &all
}

// withoutSchedules returns the configuration in which no agent has a scheduled role.
func (p *prover) withoutSchedules() *threads.Config {
	quiet := *p.config
	quiet.Agents = slices.Clone(quiet.Agents)
	for i := range quiet.Agents {
		a := &quiet.Agents[i]
		a.Roles = slices.DeleteFunc(slices.Clone(a.Roles), func(name string) bool {
			r := quiet.Role(name)
			return r == nil || r.On == agents.OnSchedule
		})
	}
	scheduled := func(r agents.Role) bool { return r.On == agents.OnSchedule }
	quiet.Roles = slices.DeleteFunc(slices.Clone(quiet.Roles), scheduled)
	return &quiet
}

// kin returns one agent of each group of agents that differ only in name, account and token, and so have the same
// permissions. An agent that a route or a ladder names forms its own group.
func (p *prover) kin() []*agents.Agent {
	var first []*agents.Agent
	seen := make(map[string]bool)
	for i := range p.config.Agents {
		a := &p.config.Agents[i]
		if key := p.kind(a); !seen[key] {
			seen[key] = true
			first = append(first, a)
		}
	}
	return first
}

// kind returns the key of an agent's group.
func (p *prover) kind(a *agents.Agent) string {
	if p.named(a.Name) {
		return a.Name
	}
	return strings.Join([]string{
		a.Thread, strings.Join(a.Roles, ","), strings.Join(a.Skills, ","), strings.Join(a.Escalate, ","),
		itoa(a.EscalateAfter),
	}, "\n")
}

// named reports whether a route or a ladder names the agent.
func (p *prover) named(agent string) bool {
	has := func(list []string) bool { return slices.Contains(list, agent) }
	return slices.ContainsFunc(p.config.Routes, func(r threads.Route) bool { return has(r.Agents) }) ||
		slices.ContainsFunc(p.config.Agents, func(a agents.Agent) bool { return has(a.Escalate) }) ||
		slices.ContainsFunc(p.config.Roles, func(r agents.Role) bool { return has(r.Escalate) })
}

// mostSets limits the sets of labels that are tried, as a tracker can have one for each issue. The sets of the
// configuration come first, then those of the oldest issues.
const mostSets = 200

// labelSet is a set of labels that an issue may carry.
type labelSet struct {
	labels []string // those that decide who may work on it, sorted
	agents string   // assigned agents in the format of join; empty for none
	refs   []forge.Ref
	routed bool // a route of the configuration names its skill
	config bool // from the configuration, not only from an issue
}

// words describes the set in a finding.
func (s labelSet) words() string {
	words := "no label that an agent asks for"
	if len(s.labels) > 0 {
		words = join(s.labels)
	}
	if s.agents != "" {
		words += ", assigned to " + s.agents + ","
	}
	return words
}

// inUse returns the sets of labels in use: no label and each role's label, alone and with each routed skill, and the
// labels of the open issues.
func (p *prover) inUse() []labelSet {
	if p.sets != nil {
		return p.sets
	}
	roles := []string{""}
	for i := range p.config.Roles {
		if l := p.config.Roles[i].Label; l != "" && p.config.Roles[i].On == agents.OnIssue {
			roles = append(roles, l)
		}
	}
	for _, l := range roles {
		p.use(labelSet{labels: compact(l), config: true})
		for i := range p.config.Routes {
			p.use(labelSet{labels: compact(l, forge.SkillPrefix+p.config.Routes[i].Skill), routed: true, config: true})
		}
	}
	for i := range p.open {
		is := &p.open[i]
		names, ours := p.assignees(is)
		if is.Closed || !is.Has(forge.LabelBacklog) || !ours || forge.SkipLabel(is.Labels) != "" {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(is.Labels), func(l string) bool {
			return !strings.HasPrefix(l, forge.SkillPrefix) && !slices.Contains(roles, l)
		})
		p.use(labelSet{labels: compact(kept...), agents: names, refs: []forge.Ref{is.Ref}})
	}
	return p.sets
}

// assignees returns the agents that an issue is reserved for, empty without one. ours is false if the issue is in
// progress, or is assigned to a person or another host's agent: nothing is proven of such an issue.
func (p *prover) assignees(is *forge.Issue) (names string, ours bool) {
	var list []string
	for _, login := range is.Assignees {
		a := p.config.AgentByLogin(login)
		if a == nil {
			return "", false
		}
		list = append(list, a.Name)
	}
	return join(list), !is.Has(forge.LabelInProgress)
}

func (p *prover) use(s labelSet) {
	same := func(o labelSet) bool { return o.agents == s.agents && slices.Equal(o.labels, s.labels) }
	i := slices.IndexFunc(p.sets, same)
	if i < 0 && len(p.sets) < mostSets {
		p.sets = append(p.sets, s)
	}
	if i < 0 {
		return
	}
	p.sets[i].refs, p.sets[i].routed = append(p.sets[i].refs, s.refs...), p.sets[i].routed || s.routed
}

func compact(labels ...string) []string {
	labels = slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return l == "" })
	slices.Sort(labels)
	return slices.Compact(labels)
}

// join joins names in English: "a, b and c".
func join(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// listed splits names that join put together. No agent's name has a space.
func listed(names string) []string {
	return strings.Fields(strings.NewReplacer(" and ", " ", ",", "").Replace(names))
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return itoa(n) + " " + noun + "s"
}
