package proof

import (
	"fmt"
	"math"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// night is the time in which no person looks. It may contain midnight, when budgets start over.
const night = 12 * time.Hour

// bound is the most that a thread can use in a night, in one unit. It is infinite without a limit.
type bound struct {
	most  float64
	by    string  // the key that limits it
	times float64 // how often a night can reach the limit
}

// money and tokens return the limits of a budget in their unit.
func money(b agents.Budget) float64  { return b.USD }
func tokens(b agents.Budget) float64 { return float64(b.Tokens) }

// cost reports the most that a night can cost; "" if a paid thread has no limit. Local threads cost no money.
func (p *prover) cost() string {
	var limits []string
	total, dollars, free := 0.0, true, false
	for i := range p.config.Threads {
		t := &p.config.Threads[i]
		if t.Backend == threads.Local || len(t.Agents) == 0 {
			continue
		}
		usd, used := p.bounded(t, money), p.bounded(t, tokens)
		switch {
		case !math.IsInf(usd.most, 0):
			over, words := p.overrun(t, usd, money, "$%.2f")
			total += usd.most + over
			limits = append(limits, fmt.Sprintf("threads.%s $%.2f (%s)%s", t.Name, usd.most, usd.by, words))
		case !math.IsInf(used.most, 0):
			_, words := p.overrun(t, used, tokens, "%.0f tokens")
			dollars = false
			limits = append(limits, fmt.Sprintf("threads.%s %.0f tokens (%s)%s", t.Name, used.most, used.by, words))
		default:
			free = true
			p.spends(t)
		}
	}
	switch {
	case free:
		return ""
	case len(limits) == 0:
		return "a night costs no money: all threads are local"
	case len(limits) == 1 || !dollars:
		return "a night of 12 hours uses at most: " + strings.Join(limits, "; ")
	}
	return fmt.Sprintf("a night of 12 hours uses at most $%.2f: %s", total, strings.Join(limits, "; "))
}

// bounded returns the lowest limit of a thread in a night.
func (p *prover) bounded(t *threads.Thread, of func(agents.Budget) float64) bound {
	low := bound{most: math.Inf(1)}
	lower := func(b bound) {
		if b.most > 0 && b.most < low.most {
			low = b
		}
	}
	const days = 2
	lower(bound{days * of(t.Budget), "budget of two days", days})
	each := 0.0
	for _, name := range t.Agents {
		a := p.config.Agent(name)
		if a == nil || of(a.Budget) == 0 {
			each = math.Inf(1)
			break
		}
		each += days * of(a.Budget)
	}
	lower(bound{each, "budgets of its agents for two days", days})
	for _, w := range t.Windows {
		n := math.Ceil(float64(night) / float64(w.Length))
		by := "window of " + w.Name()
		if n > 1 {
			by = fmt.Sprintf("%.0f windows of %s", n, w.Name())
		}
		lower(bound{n * of(w.Budget), by, n})
	}
	return low
}

// overrun returns the most that the running sessions can use beyond a limit, each time that it is reached: they
// report their usage late, and a window does not end them. The number is known only if each role of the thread has a
// limit per session.
func (p *prover) overrun(t *threads.Thread, b bound, of func(agents.Budget) float64, unit string) (float64, string) {
	each := 0.0
	for _, name := range t.Agents {
		for _, role := range p.config.Agent(name).Roles {
			r := p.config.Role(role)
			if r == nil || of(r.PerSession) == 0 {
				return 0, " plus what running sessions use beyond that"
			}
			each = max(each, of(r.PerSession))
		}
	}
	over := b.times * each * float64(min(t.MaxSessions, len(t.Agents)))
	return over, fmt.Sprintf(" plus at most "+unit+" by running sessions", over)
}

// spends shows that a thread without limits starts work after any usage.
func (p *prover) spends(t *threads.Thread) {
	for _, name := range t.Agents {
		w := p.alone(name)
		const much = 1_000_000
		w.spent(t.Name, name, agents.Usage{CostUSD: agents.MaxUSD, InputTokens: agents.MaxTokens}, much/agents.MaxUSD)
		w.say("threads.%s has used $%d today", t.Name, much)
		if s := w.offered(name); s != nil {
			w.say("%s still starts %s", s.Agent, named(&s.Item))
			p.tell("cost", Hint, "threads."+t.Name+": no limit for a night, as it has neither budget nor windows: set "+
				"budget = { usd_per_day = 20.0 }", w.story())
			return
		}
	}
}
