package hindsight

import (
	"fmt"
	"math"
	"math/rand/v2"
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

// fleet is a factory with three writers, who share a number of slots, and a reviewer.
func fleet(slots int) *threads.Config {
	c := sim.Fleet(3, slots, 1)
	for i := range c.Threads {
		c.Threads[i].Interval, c.Threads[i].IdleInterval = 30*time.Second, time.Minute
	}
	return c
}

// load is the work of some days, with a mean number of issues each day. Sessions take lognormal times, one of twenty
// fails, and three of ten reviews request changes. The issues are pinned to the writers in turn.
func load(days, perDay float64, seed uint64, change func(w *sim.Work)) (all sim.Load) {
	rng := rand.New(rand.NewPCG(seed, 7))
	long := func(mean time.Duration) time.Duration {
		return time.Duration(float64(mean) * math.Exp(0.6*rng.NormFloat64()-0.18))
	}
	for at := 0.0; ; {
		if at += rng.ExpFloat64() / perDay; at > days {
			return all
		}
		w := sim.Work{
			At: time.Duration(at * float64(day)), Priority: 5, Pulls: true, Pin: fmt.Sprint("dev-", len(all)%3),
		}
		for len(w.Steps) < 5 {
			w.Steps = append(w.Steps, sim.Step{Took: long(20 * time.Minute), Result: agents.Done})
			if rng.Float64() < 0.05 {
				w.Steps[len(w.Steps)-1].Result = agents.Failed
				continue
			}
			look := sim.Step{
				Took: long(5 * time.Minute), Result: agents.Done, Verdict: ledger.Approved,
				Usage: &agents.Usage{InputTokens: 1000, CostUSD: 0.25},
			}
			if rng.Float64() < 0.3 && len(w.Steps) < 4 {
				look.Verdict = ledger.ChangesRequested
			}
			if w.Looks = append(w.Looks, look); look.Verdict == ledger.Approved {
				break
			}
		}
		if change != nil {
			change(&w)
		}
		all = append(all, w)
	}
}

// diary returns the journal of a factory that does the given work from a Monday on, and the facts with all issues as
// they were filed.
func diary(t testing.TB, c *threads.Config, work sim.Load) (j sim.Journal, facts *forge.Facts) {
	t.Helper()
	r := sim.Trial{
		Config: c, Load: work, Policy: sim.Ours, Model: sim.Learn(sim.Journal{}), From: monday, Quiet: true,
		Drain: 3 * day,
	}.Run()
	ended, done := make(map[int64]time.Time), make(map[string]int)
	for _, s := range r.Spans {
		p := ledger.Past{
			Agent: s.Agent, Role: "dev", Kind: agents.Kind(s.Kind), Ref: ledger.Ref{Repo: "o/r", Number: s.Chain},
			Thread: s.Thread, Slot: s.Slot, Start: monday.Add(s.From), End: monday.Add(s.To), Outcome: agents.Done, Priority: 5,
		}
		p.Chain = p.Ref
		w, kind := &work[s.Chain-1], "write"
		if p.Kind == agents.KindReview {
			kind = "review"
		}
		at := fmt.Sprint(kind, s.Chain)
		switch n := done[at]; {
		case kind == "review" && n < len(w.Looks):
			p.Verdict, p.Role, p.Usage = w.Looks[n].Verdict, "review", w.Looks[n].Usage
		case n < len(w.Steps):
			p.Outcome = w.Steps[n].Result
		}
		done[at]++
		if p.Kind == agents.KindIssue {
			p.Ready = monday.Add(w.At)
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
	slices.SortFunc(j.Timeline.Merges, func(a, b ledger.Merged) int { return a.When.Compare(b.When) })
	facts = &forge.Facts{}
	for i, w := range work {
		facts.Issues = append(facts.Issues, forge.Issue{
			Ref: forge.Ref{Repo: "o/r", Number: int64(i + 1)}, Created: monday.Add(w.At), Labels: []string{forge.LabelBacklog},
		})
	}
	return j, facts
}
