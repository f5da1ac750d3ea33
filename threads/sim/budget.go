package sim

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// account identifies a spender on one day.
type account struct {
	agent, thread string // one of them
	day           int64  // counted from 1970
}

const secondsOfDay = 24 * 60 * 60

// charge counts the usage of a session a second time, for the invariants.
func (b *books) charge(r *run, now time.Time, u agents.Usage) {
	day := now.Unix() / secondsOfDay
	b.bills[account{agent: r.Agent, day: day}] += u.InputTokens + u.OutputTokens
	b.bills[account{thread: r.Thread, day: day}] += u.InputTokens + u.OutputTokens
	b.meter(r.Thread, now, u.InputTokens+u.OutputTokens)
}

// broke reports whether the bills of an agent or of its thread have reached the budget of the day.
func (in *inspection) broke(a *agents.Agent) bool {
	today, bills := in.now.Unix()/secondsOfDay, in.shell.books.bills
	own, common := a.Budget.Tokens, in.cfg.Thread(a.Thread).Budget.Tokens
	return own > 0 && bills[account{agent: a.Name, day: today}] >= own ||
		common > 0 && bills[account{thread: a.Thread, day: today}] >= common
}

// spend returns the usage that a program reports. Three in ten report none.
func (w *world) spend() agents.Usage {
	if w.chance(0.3) {
		return agents.Usage{}
	}
	return agents.Usage{InputTokens: int64(w.number(0, 900)), OutputTokens: int64(w.number(1, 100)), CachedTokens: 5000}
}

// allow lifts all budgets and windows, so that a calm world can finish its work.
func (w *world) allow() {
	cfg := *w.cfg
	cfg.Agents, cfg.Threads = slices.Clone(cfg.Agents), slices.Clone(cfg.Threads)
	for i := range cfg.Agents {
		cfg.Agents[i].Budget = agents.Budget{}
	}
	for i := range cfg.Threads {
		cfg.Threads[i].Budget, cfg.Threads[i].Windows = agents.Budget{}, nil
	}
	w.cfg = &cfg
	w.forge.dirty = true
}
