package threads

import (
	"fmt"
	"math"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// night is the time in which no person looks. It may contain midnight, when budgets start over.
const night = 12 * time.Hour

// bound is the most that a thread can use in a night, in one unit. It is infinite without a limit.
type bound struct {
	most  float64
	by    string  // the key that limits it
	times float64 // how often a night can reach the limit
}

// cost finds the most that a night can cost, and paid threads without a limit. Local threads cost no money.
func (k *check) cost() {
	var limits []string
	total, known, free := 0.0, true, false
	for i := range k.config.Threads {
		t := &k.config.Threads[i]
		if !t.Backend.Paid() || len(t.Agents) == 0 {
			continue
		}
		usd, used := k.config.bounded(t, inDollars), k.config.bounded(t, inTokens)
		switch {
		case !math.IsInf(usd.most, 0):
			over, words := k.config.overrun(t, usd, inDollars, "$%.2f")
			total += usd.most + over
			limits = append(limits, fmt.Sprintf("threads.%s $%.2f (%s)%s", t.Name, usd.most, usd.by, words))
		case !math.IsInf(used.most, 0):
			_, words := k.config.overrun(t, used, inTokens, "%.0f tokens")
			known = false
			limits = append(limits, fmt.Sprintf("threads.%s %.0f tokens (%s)%s", t.Name, used.most, used.by, words))
		default:
			free = true
			k.report("cost", Hint, "threads.%s: no limit for a night, as it has neither budget nor windows: set "+
				"budget = { usd_per_day = 20.0 }", t.Name)
		}
	}
	switch {
	case free:
	case len(limits) == 0:
		k.report("cost", Fine, "a night costs no money: all threads are local")
	case len(limits) == 1 || !known:
		k.report("cost", Fine, "a night of 12 hours uses at most: %s", strings.Join(limits, "; "))
	default:
		k.report("cost", Fine, "a night of 12 hours uses at most $%.2f: %s", total, strings.Join(limits, "; "))
	}
}

// bounded returns the lowest limit of a thread in a night.
func (c *Config) bounded(t *Thread, of func(agents.Budget) float64) bound {
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
		a := c.Agent(name)
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
func (c *Config) overrun(t *Thread, b bound, of func(agents.Budget) float64, unit string) (float64, string) {
	each := 0.0
	for _, name := range t.Agents {
		for _, role := range c.Agent(name).Roles {
			r := c.Role(role)
			if r == nil || of(r.PerSession) == 0 {
				return 0, " plus what running sessions use beyond that"
			}
			each = max(each, of(r.PerSession))
		}
	}
	over := b.times * each * float64(min(t.MaxSessions, len(t.Agents)))
	return over, fmt.Sprintf(" plus at most "+unit+" by running sessions", over)
}
