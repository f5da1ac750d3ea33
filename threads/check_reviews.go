package threads

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// reviewers finds authors whose work waits for ever, because nobody may review it. Without review agents, people
// review. An author that no reviewer may be paired with is reported by Problems, and here only prevents the claim that
// everything is fine.
func (k *check) reviewers() {
	waiting := make(map[string][]string) // by the reason
	var texts []string
	writers, reviewed := 0, true
	for i := range k.config.Agents {
		a := &k.config.Agents[i]
		if !k.config.Does(a, agents.KindIssue) {
			continue
		}
		writers++
		reviewed = reviewed && k.config.noReviewer("", a) == nil
		for j := range k.sets {
			set := &k.sets[j]
			if !set.plain() || !slices.Contains(set.able, a.Name) {
				continue
			}
			r := k.config.unreviewed(set.issue(), a.Name)
			if r == nil {
				continue
			}
			text := k.config.apart(set.repo) + ": " + r.Text()
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
			if !slices.Contains(waiting[text], a.Name) {
				waiting[text] = append(waiting[text], a.Name)
			}
		}
	}
	for _, text := range texts {
		k.report("reviewers", Wrong, "the work of %s can wait for ever%s", sentence(waiting[text]), text)
	}
	if slices.ContainsFunc(k.config.places(), k.config.jammed) {
		k.report("reviewers", Wrong, "sessions that wait for a review can take all slots and agents that review: "+
			"give a reviewer a thread of its own, or have the program end once its pull request is open")
	}
	if writers > 0 && reviewed && k.config.hasReviewers() && !k.reported("reviewers") {
		k.report("reviewers", Fine, "every author's work has a reviewer, also after other agents continued it")
	}
}

// unreviewed returns why an author's work on an issue can wait for ever for a review, or nil. Others may continue the
// work: after failures, while the author is paused, as rungs of a ladder. Each becomes a writer unless no review agent
// would be left, whatever the label of its role: see canBeReviewed. So the largest sets of writers are those that
// leave one review agent, and if such a set has a reviewer, every smaller one has.
func (c *Config) unreviewed(is *forge.Issue, author string) *Reason {
	if !c.hasReviewers() {
		return nil
	}
	if _, why := c.fits(is, author); why != nil {
		return why
	}
	others, _ := c.fits(&forge.Issue{Ref: is.Ref, Labels: slices.DeleteFunc(slices.Clone(is.Labels), func(l string) bool {
		return len(forge.Skills([]string{l})) > 0
	})})
	for i := range c.Agents {
		left := &c.Agents[i]
		if !c.Does(left, agents.KindReview) || c.Unpaired(left, []string{author}) != "" ||
			!c.WorksIn(is.Repo, left.Name, agents.KindReview) {
			continue
		}
		writers := []string{author}
		for _, name := range others {
			if name != author && c.Unpaired(left, []string{name}) == "" {
				writers = append(writers, name)
			}
		}
		if _, why := c.fits(is, writers...); why != nil {
			return why
		}
	}
	return nil
}

// jammed reports whether sessions in a repository that wait for a review can take every agent and slot that could give
// it, so that all of them wait until their time limit. It removes sessions that can be reviewed from the set of all
// that wait, until none is left or every reviewer of the rest is in the set, or on a thread that the set fills. A
// decoded configuration has no such set on a single thread: see Deadlocked.
func (c *Config) jammed(repo string) bool {
	reviewers := make(map[string][]string) // by the agents of the set
	for i := range c.Agents {
		a := &c.Agents[i]
		for _, name := range a.Roles {
			r := c.Role(name)
			if r == nil || !r.WaitsForReview {
				continue
			}
			is := &forge.Issue{Ref: forge.Ref{Repo: repo, Number: 1}, Labels: []string{r.Label}}
			if able, _ := c.fits(is); slices.Contains(able, a.Name) {
				reviewers[a.Name], _ = c.fits(is, a.Name)
			}
		}
	}
	blocked := func(name string) bool {
		on := c.Agent(name).Thread
		n := 0
		for member := range reviewers {
			if c.Agent(member).Thread == on {
				n++
			}
		}
		_, waits := reviewers[name]
		return waits || n >= c.Thread(on).MaxSessions
	}
	for left := -1; left != len(reviewers); {
		left = len(reviewers)
		for name, list := range reviewers {
			if !slices.ContainsFunc(list, func(r string) bool { return !blocked(r) }) {
				continue
			}
			delete(reviewers, name)
		}
	}
	for _, list := range reviewers {
		if len(list) > 0 {
			return true
		}
	}
	return false
}
