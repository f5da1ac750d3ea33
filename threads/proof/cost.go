package proof

import (
	"fmt"
	"math"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// night is the time for which no person looks. Midnight, at which budgets begin anew, may be in it.
const night = 12 * time.Hour

// bound is the most that a thread can use in a night, in one unit; infinite without a limit.
type bound struct {
	most float64
	by   string // the key that limits it
	late bool   // sessions that run when the limit is reached go on
}

// cost tells the worst that a night can cost, as far as limits say. Local threads cost no money.
func (p *prover) cost() string {
	var limits, free []string
	total, tokens := 0.0, false
	for i := range p.config.Threads {
		t := &p.config.Threads[i]
		if t.Backend == threads.Local || len(t.Agents) == 0 {
			continue
		}
		usd := p.bounded(t, func(b agents.Budget) float64 { return b.USD })
		used := p.bounded(t, func(b agents.Budget) float64 { return float64(b.Tokens) })
		switch {
		case !math.IsInf(usd.most, 0):
			total += usd.most
			limits = append(limits, fmt.Sprintf("threads.%s $%.2f (%s)%s", t.Name, usd.most, usd.by, p.overrun(t, usd)))
		case !math.IsInf(used.most, 0):
			tokens = true
			limits = append(limits, fmt.Sprintf("threads.%s %.0f tokens (%s)%s", t.Name, used.most, used.by, p.overrun(t, used)))
		default:
			free = append(free, "threads."+t.Name)
			p.spends(t)
		}
	}
	switch {
	case len(free) > 0:
		return ""
	case len(limits) == 0:
		return "a night costs no money: every thread is local"
	case len(limits) == 1 || tokens:
		return "a night of 12 hours uses at most: " + strings.Join(limits, ", ")
	}
	return fmt.Sprintf("a night of 12 hours uses at most $%.2f: %s", total, strings.Join(limits, ", "))
}

// bounded finds the lowest limit of a thread in a night.
func (p *prover) bounded(t *threads.Thread, of func(agents.Budget) float64) bound {
	low := bound{most: math.Inf(1)}
	lower := func(b bound) {
		if b.most > 0 && b.most < low.most {
			low = b
		}
	}
	const days = 2
	lower(bound{most: days * of(t.Budget), by: "budget of two days"})
	each := 0.0
	for _, name := range t.Agents {
		a := p.config.Agent(name)
		if a == nil || of(a.Budget) == 0 {
			each = math.Inf(1)
			break
		}
		each += days * of(a.Budget)
	}
	lower(bound{most: each, by: "budgets of its agents for two days"})
	for _, w := range t.Windows {
		n := math.Ceil(float64(night) / float64(w.Length))
		by := "window of " + w.Name()
		if n > 1 {
			by = fmt.Sprintf("%.0f windows of %s", n, w.Name())
		}
		lower(bound{most: n * of(w.Budget), by: by, late: true})
	}
	return low
}

// overrun tells what a limit does not stop: the sessions that run when a window is used up.
func (p *prover) overrun(t *threads.Thread, b bound) string {
	if !b.late {
		return ""
	}
	return fmt.Sprintf(" and what %s under way then %s", plural(min(t.MaxSessions, len(t.Agents)), "session"),
		map[bool]string{true: "uses", false: "use"}[min(t.MaxSessions, len(t.Agents)) == 1])
}

// spends shows that a thread begins work whatever was used.
func (p *prover) spends(t *threads.Thread) {
	for _, name := range t.Agents {
		w := p.alone(name)
		const much = 1_000_000
		w.spent(t.Name, name, agents.Usage{CostUSD: agents.MaxUSD, InputTokens: agents.MaxTokens}, much/agents.MaxUSD)
		w.say("threads.%s has used $%d today", t.Name, much)
		if s := w.offered(name); s != nil {
			w.say("%s starts %s all the same", s.Agent, named(&s.Item))
			p.tell("cost", Hint, "threads."+t.Name+": a night has no bound, for it has neither budget nor windows: "+
				"budget = { usd_per_day = 20.0 } is one", w.story())
			return
		}
	}
}
