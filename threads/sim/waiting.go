package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Await adds to a replay the issues that could be worked on before a time and have no session in the journal. Without
// them, no change could finish more issues than were really finished. Their sessions are drawn from the model.
func (t *Trial) Await(past []ledger.Past, facts *forge.Facts, until time.Time) {
	known := make(map[forge.Ref]bool)
	for i := range past {
		known[forge.Ref(past[i].Chain)] = true
	}
	for i := range facts.Pulls {
		known[threads.ChainOf(&facts.Pulls[i])] = true
	}
	t.Load = slices.Clone(t.Load)
	for i := range facts.Issues {
		is := &facts.Issues[i]
		it := threads.Item{Kind: agents.KindIssue, Ref: is.Ref, Chain: is.Ref, Since: is.Created}
		ready, skills := ledger.ReadySince(facts, &it)
		if known[is.Ref] || !waits(is) || !ready.Before(until) {
			continue
		}
		w := Work{
			At: max(0, ready.Sub(t.From)), Priority: forge.Priority(is.Labels), Skills: skills, Repo: is.Repo, drawn: true,
		}
		if len(is.Assignees) > 0 && !is.Has(forge.LabelInProgress) {
			if w.Pin = ours(t.Config, is.Assignees); w.Pin == "" {
				continue // assigned to a person
			}
		}
		w.fit(t.Config)
		t.Load = append(t.Load, w)
	}
	slices.SortStableFunc(t.Load, func(a, b Work) int { return cmp.Compare(a.At, b.At) })
}

// waits reports whether an issue's labels and blockers allow work on it.
func waits(is *forge.Issue) bool {
	open := func(b forge.Blocker) bool { return b.State != forge.BlockerClosed }
	return !is.Closed && (is.Has(forge.LabelBacklog) || is.Has(forge.LabelInProgress)) &&
		forge.SkipLabel(is.Labels) == "" && !slices.ContainsFunc(is.Blockers, open)
}

// ours returns the first agent with one of the logins, or "".
func ours(c *threads.Config, logins []string) string {
	for i := range c.Agents {
		has := func(login string) bool { return strings.EqualFold(login, c.Agents[i].Login) }
		if slices.ContainsFunc(logins, has) {
			return c.Agents[i].Name
		}
	}
	return ""
}
