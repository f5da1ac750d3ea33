package hindsight

import (
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

var monday = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// fleet is a factory with a number of slots for three writers, and a reviewer.
func fleet(slots int) *threads.Config {
	c := sim.Fleet(3, slots, 1)
	for i := range c.Threads {
		c.Threads[i].Interval, c.Threads[i].IdleInterval = 30*time.Second, time.Minute
	}
	return c
}

// diary is the journal of some days of a factory, from a Monday on, in which a number of issues is filed each day.
// Sessions of the reviewer cost a quarter dollar. The facts have all issues, as they were filed.
func diary(t testing.TB, c *threads.Config, days, perDay float64, seed uint64) (j sim.Journal, facts *forge.Facts) {
	t.Helper()
	kinds := []sim.Kind{{PerDay: perDay, Together: 1, Minutes: 20, Sigma: 0.6, Sessions: 2, Review: 5, Priority: 5}}
	load := sim.MakeKinds(kinds, days, seed)
	r := sim.Trial{
		Config: c, Load: load, Policy: sim.Ours, Seed: seed, Model: sim.Learn(sim.Journal{}), From: monday, Quiet: true,
	}.Run()
	ended := make(map[int64]time.Time)
	for _, s := range r.Spans {
		p := ledger.Past{
			Agent: s.Agent, Role: "dev", Kind: agents.Kind(s.Kind), Ref: ledger.Ref{Repo: "o/r", Number: s.Chain},
			Thread: s.Thread, Slot: s.Slot, Start: monday.Add(s.From), End: monday.Add(s.To), Outcome: agents.Done, Priority: 5,
		}
		if p.Chain = p.Ref; p.Kind == agents.KindReview {
			p.Verdict, p.Role, p.Usage = ledger.Approved, "review", &agents.Usage{InputTokens: 1000, CostUSD: 0.25}
			for i := range j.Past { // those before it wanted changes
				if b := &j.Past[i]; b.Kind == p.Kind && b.Chain == p.Chain {
					b.Verdict = ledger.ChangesRequested
				}
			}
		} else if p.Kind == agents.KindIssue {
			p.Ready = monday.Add(load[s.Chain-1].At)
		}
		if p.Verdict == ledger.Approved {
			ended[s.Chain] = p.End
		}
		j.Past = append(j.Past, p)
	}
	for n, at := range ended {
		ref := ledger.Ref{Repo: "o/r", Number: n}
		j.Timeline.Merges = append(j.Timeline.Merges, ledger.Merged{Ref: ref, Chain: ref, When: at.Add(3 * time.Second)})
	}
	facts = &forge.Facts{}
	for i, w := range load {
		facts.Issues = append(facts.Issues, forge.Issue{
			Ref: forge.Ref{Repo: "o/r", Number: int64(i + 1)}, Created: monday.Add(w.At), Labels: []string{forge.LabelBacklog},
		})
	}
	slices.SortFunc(j.Timeline.Merges, func(a, b ledger.Merged) int { return a.When.Compare(b.When) })
	return j, facts
}
