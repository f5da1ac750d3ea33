package threads

import (
	"fmt"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Weight is the importance of a finding.
type Weight int

// The weights, in ascending order.
const (
	Fine  Weight = iota // nothing is wrong
	Hint                // nothing stops, but something is of no use, or has no bound
	Wrong               // some work waits for ever
)

// Finding is one result of Check.
type Finding struct {
	About  string // its subject, such as "reviewers"
	Weight Weight
	Text   string // one line, with the key of factory.toml
}

// Check looks for work that would wait for ever, for slots, agents and rules that are of no use, and for the most that
// a night can cost. open has the open issues of the forge, if these were read: their labels and skills are in use, too.
// Programs and tokens are assumed to exist, and every author to have a reviewer: Problems reports those that lack them.
func (c *Config) Check(open []forge.Issue) []Finding {
	if len(c.Forge.Repos) == 0 || len(c.Agents) == 0 {
		return nil
	}
	k := &check{config: c, open: open}
	k.useLabels()
	k.reviewers()
	k.skills()
	k.crowded()
	k.cost()
	k.slots()
	k.rules()
	return k.found
}

// check collects what it finds.
type check struct {
	config *Config
	open   []forge.Issue
	sets   []labelSet
	found  []Finding
}

func (k *check) report(about string, weight Weight, format string, args ...any) {
	k.found = append(k.found, Finding{about, weight, fmt.Sprintf(format, args...)})
}

// reported reports whether there is a finding about a subject.
func (k *check) reported(about string) bool {
	return slices.ContainsFunc(k.found, func(f Finding) bool { return f.About == about })
}

// fits applies the candidate rules to an issue, or to the review of a pull request for it by some writers. It returns
// the agents that may take the item, sorted by name, or the reason why there are none.
func (c *Config) fits(is *forge.Issue, writers ...string) (able []string, why *Reason) {
	s := &Snapshot{Config: c, Facts: forge.Facts{Issues: []forge.Issue{*is}}}
	item := Item{Kind: agents.KindIssue, Ref: is.Ref, Chain: is.Ref}
	if len(writers) > 0 {
		item.Kind, item.Ref.Number = agents.KindReview, is.Number+1
		s.History.Chains = map[forge.Ref]*ChainHistory{is.Ref: {Writers: writers}}
		s.Facts.Pulls = []forge.Pull{{
			Ref: item.Ref, Author: c.Agent(writers[0]).Login, Labels: is.Labels, Closes: []forge.Ref{is.Ref},
		}}
	}
	v := newCrew(s)
	cl := &class{traits: v.besideTraits(&Hold{Item: item})}
	v.qualify(cl)
	for _, cand := range cl.able {
		able = append(able, cand.agent.Name)
	}
	if len(able) > 0 {
		return able, nil
	}
	return nil, cl.why
}

// labelSet is a set of labels that an issue may carry, with the agents that may take such an issue.
type labelSet struct {
	repo          string   // of the issue
	roles, skills []string // labels that decide who may take it, sorted
	pins          []string // logins of the assigned agents
	refs          []forge.Ref
	routed        bool // a route of the configuration names its skill

	able []string
	why  *Reason // why it waits for ever: nobody may take it, or nobody may review it; nil if it does not
}

// mostSets limits the sets of labels, as a tracker can have one for each issue. Those of the configuration come first,
// then those of the oldest issues.
const mostSets = 200

// useLabels collects the sets of labels in use: no label and each role's label, alone and with each routed skill, and
// the labels of the open issues.
func (k *check) useLabels() {
	var roles []string
	for i := range k.config.Roles {
		if r := &k.config.Roles[i]; r.On.Does(agents.KindIssue) && r.Label != "" {
			roles = append(roles, r.Label)
		}
	}
	for _, repo := range k.config.places() {
		k.use(labelSet{repo: repo})
		routes := k.config.Routes
		if k.config.ownCrew(repo) { // it need not have work for each route
			routes = nil
		}
		for _, r := range routes {
			k.use(labelSet{repo: repo, skills: []string{forge.SkillPrefix + r.Skill}, routed: true})
		}
		for _, l := range roles {
			k.use(labelSet{repo: repo, roles: []string{l}})
			for _, r := range routes {
				k.use(labelSet{repo: repo, roles: []string{l}, skills: []string{forge.SkillPrefix + r.Skill}, routed: true})
			}
		}
	}
	for i := range k.open {
		is := &k.open[i]
		foreign := slices.ContainsFunc(is.Assignees, func(l string) bool { return k.config.AgentByLogin(l) == nil })
		if is.Closed || foreign || !is.Has(forge.LabelBacklog) || is.Has(forge.LabelInProgress) ||
			forge.SkipLabel(is.Labels) != "" {
			continue // it is not for our agents, or not now
		}
		set := labelSet{repo: k.config.place(is.Repo), pins: is.Assignees, refs: []forge.Ref{is.Ref}}
		for _, l := range slices.Compact(slices.Sorted(slices.Values(is.Labels))) {
			switch {
			case len(forge.Skills([]string{l})) > 0:
				set.skills = append(set.skills, l)
			case slices.Contains(roles, l):
				set.roles = append(set.roles, l)
			}
		}
		k.use(set)
	}
}

// use adds a set, and finds out who may take its issues.
func (k *check) use(s labelSet) {
	i := slices.IndexFunc(k.sets, func(o labelSet) bool {
		return o.repo == s.repo && slices.Equal(o.roles, s.roles) && slices.Equal(o.skills, s.skills) &&
			slices.Equal(o.pins, s.pins)
	})
	if i >= 0 {
		k.sets[i].refs, k.sets[i].routed = append(k.sets[i].refs, s.refs...), k.sets[i].routed || s.routed
		return
	}
	if len(k.sets) >= mostSets {
		return
	}
	s.able, s.why = k.config.stalls(s.issue())
	k.sets = append(k.sets, s)
}

// stalls returns the agents that may take an issue, and why it can wait for ever, or nil.
func (c *Config) stalls(is *forge.Issue) (able []string, why *Reason) {
	able, why = c.fits(is)
	for _, name := range able {
		if why = c.unreviewed(is, name); why != nil {
			break
		}
	}
	if why == nil && len(is.Assignees) > 0 { // a session that fails releases the issue
		_, why = c.stalls(&forge.Issue{Ref: is.Ref, Labels: is.Labels})
	}
	return able, why
}

// issue returns an issue with these labels.
func (s *labelSet) issue() *forge.Issue {
	return &forge.Issue{
		Ref: forge.Ref{Repo: s.repo, Number: 1}, Labels: slices.Concat([]string{forge.LabelBacklog}, s.roles, s.skills),
		Assignees: s.pins,
	}
}

// plain reports whether the set asks for no skill and no agent.
func (s *labelSet) plain() bool { return len(s.skills)+len(s.pins) == 0 }

// mostTold limits how many sets of labels get a finding of their own.
const mostTold = 10

// skills finds sets of labels in use whose issues can never be done.
func (k *check) skills() {
	stopped := 0
	for i := range k.sets {
		set := &k.sets[i]
		if set.why == nil || len(set.refs) == 0 && !k.wasted(set) {
			continue
		}
		stopped++
		switch {
		case stopped > mostTold:
		case k.unpicked(set):
			k.report("skills", Hint, "%s: every role for issues requires a label", refsText(set.refs))
		default:
			k.report("skills", Wrong, "%s", k.stops(set))
		}
	}
	if n := stopped - mostTold; n > 0 {
		k.report("skills", Wrong, "%s of labels on open issues cannot be worked on either", count(n, "more set"))
	}
	does := func(r agents.Role) bool { return r.On.Does(agents.KindIssue) }
	if stopped == 0 && slices.ContainsFunc(k.config.Roles, does) {
		k.report("skills", Fine, "every label and skill in use can be worked on")
	}
}

// wasted reports whether a set has a route although the same issue can be done only without the skill.
func (k *check) wasted(set *labelSet) bool {
	return set.routed && slices.ContainsFunc(k.sets, func(o labelSet) bool {
		return o.repo == set.repo && o.plain() && o.why == nil && slices.Equal(o.roles, set.roles)
	})
}

// unpicked reports whether issues with a set of labels wait for a person to pick them: every role for issues requires
// a label, and the set has none of these.
func (k *check) unpicked(set *labelSet) bool {
	free := func(r agents.Role) bool { return r.On.Does(agents.KindIssue) && r.Label == "" }
	return len(set.roles)+len(set.pins) == 0 && !slices.ContainsFunc(k.config.Roles, free)
}

// stops describes the effect on issues with a set of labels that cannot be worked on.
func (k *check) stops(set *labelSet) string {
	words, why := "no label that an agent asks for", set.why.Text()
	if labels := slices.Sorted(slices.Values(slices.Concat(set.roles, set.skills))); len(labels) > 0 {
		words = sentence(labels)
	}
	if len(set.pins) > 0 {
		var names []string
		for _, login := range set.pins {
			names = append(names, k.config.AgentByLogin(login).Name)
		}
		words += ", assigned to " + sentence(names) + ","
	}
	words += k.config.apart(set.repo)
	switch set.why.Code {
	case PinnedTo:
		why = "no other agent takes it"
	case NoSkill:
		why = "no agent that may take it has " + sentence(set.skills)
	}
	if len(set.refs) > 0 {
		return fmt.Sprintf("%s with %s can never be done: %s", refsText(set.refs), words, why)
	}
	return fmt.Sprintf("an issue with %s waits for ever: %s", words, why)
}

// refsText names some items: "#3, #4 and 5 more".
func refsText(list []forge.Ref) string {
	const shown = 3
	var names []string
	for _, r := range list[:min(shown, len(list))] {
		names = append(names, r.Short())
	}
	if n := len(list) - shown; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	return sentence(names)
}
