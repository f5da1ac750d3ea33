package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// account is an agent, a thread or a repository on one day.
type account struct {
	agent, thread, repo string // exactly one is set
	day                 int64  // days since 1970
}

const secondsOfDay = 24 * 60 * 60

// charge counts a session's usage independently for the invariants. A report below the previous one is a lie, and
// adds nothing.
func (b *books) charge(r *run, now time.Time, u agents.Usage) {
	day, tokens := now.Unix()/secondsOfDay, u.InputTokens+u.OutputTokens
	more := max(tokens, r.billed) - r.billed
	r.billed += more
	b.bills[account{agent: r.Agent, day: day}] += more
	b.bills[account{thread: r.Thread, day: day}] += more
	b.bills[account{repo: r.Item.Ref.Repo, day: day}] += more
	if r.Item.Kind != agents.KindSchedule {
		b.dues[r.Item.Chain] += more
	}
}

// limits are the tokens that a session, and all sessions on its issue, may use. 0 means any number.
type limits struct{ session, issue int64 }

// dear names the limit that a session has reached, or returns "".
func (b *books) dear(r *run) string {
	switch {
	case r.most.session > 0 && r.billed >= r.most.session:
		return "its session's"
	case r.most.issue > 0 && r.Item.Kind != agents.KindSchedule && b.dues[r.Item.Chain] >= r.most.issue:
		return "its issue's"
	}
	return ""
}

// reportUsage handles the end of a model's turn, after which the program reports its usage so far. No turn may start
// once an earlier one has reached a limit, so a session exceeds a limit by at most one turn.
func (sh *shell) reportUsage(r *run, u agents.Usage) {
	if r.dead || r.State != threads.Running || r.life != sh.life {
		return
	}
	sh.w.log("uses   %s %d tokens", r, u.Tokens())
	limit := sh.books.dear(r)
	if limit == "" && sh.w.broke(r.Agent, r.Item.Ref.Repo) {
		limit = "the day's"
	}
	if limit != "" {
		err := fmt.Errorf("%s used %d tokens and has reached %s limit", r, r.billed, limit)
		sh.w.fail("no session continues beyond a limit", err)
	}
	sh.books.charge(r, sh.w.Now, u)
	sh.record(ledger.Record{Used: &ledger.Used{Run: r.RunID, Usage: u}})
	r.Used = sh.books.Open[r.RunID].Used
	s := sh.snapshot()
	for _, stop := range threads.Overspent(s.Config, &s.History, s.Sessions, s.Now) {
		sh.w.seen.Codes[stop.Reason.Code]++
		sh.stop(stop)
	}
}

// atLimit checks the claim of a program that it has reached a limit.
func (sh *shell) atLimit(r *run, out agents.Outcome) agents.Outcome {
	if out.Result != agents.OverBudget || r.stopped != "" {
		return out
	}
	r.Used = r.Used.Max(out.Usage)
	sh.record(ledger.Record{Used: &ledger.Used{Run: r.RunID, Usage: out.Usage}})
	if why := threads.LimitReached(&sh.books.History, &r.Session); why != nil {
		r.stopped = why.Code
		return out
	}
	out.Result = agents.Failed
	return out
}

// broke reports whether an agent, its thread or the repository it works in has used up the day's budget.
func (w *world) broke(agent, repo string) bool {
	a := w.cfg.Agent(agent)
	if a == nil {
		return false
	}
	today, bills := w.Now.Unix()/secondsOfDay, w.shell.books.bills
	own, common := a.Budget.Tokens, w.cfg.Thread(a.Thread).Budget.Tokens
	if r := w.cfg.RepoTable(repo); r != nil && r.Budget.Tokens > 0 &&
		bills[account{repo: repo, day: today}] >= r.Budget.Tokens {
		return true
	}
	return own > 0 && bills[account{agent: a.Name, day: today}] >= own ||
		common > 0 && bills[account{thread: a.Thread, day: today}] >= common
}

// turns is the number of turns in which a program reports its usage.
const turns = 4

// use makes a program report its usage in equal turns. One program in ten reports less each time, which is a lie.
func (w *world) use(r *run, length time.Duration, all agents.Usage) {
	if all == (agents.Usage{}) {
		return
	}
	lies := w.trouble(0.1)
	for turn := range int64(turns) {
		part := agents.Usage{InputTokens: all.InputTokens * (turn + 1) / turns, OutputTokens: all.OutputTokens}
		if lies {
			part.InputTokens = all.InputTokens * (turns - turn) / turns
		}
		w.After(length*time.Duration(turn+1)/(turns+1), func() { w.shell.reportUsage(r, part) })
	}
}

// spend returns the usage that a program reports. Three in ten report none.
func (w *world) spend() agents.Usage {
	if w.chance(0.3) {
		return agents.Usage{}
	}
	return agents.Usage{InputTokens: int64(w.number(0, 900)), OutputTokens: int64(w.number(1, 100)), CachedTokens: 5000}
}

// allow lifts all budgets, windows and limits, so that a calm world can finish its work.
func (w *world) allow() {
	cfg := *w.cfg
	cfg.Agents, cfg.Threads, cfg.Roles = slices.Clone(cfg.Agents), slices.Clone(cfg.Threads), slices.Clone(cfg.Roles)
	for i := range cfg.Roles {
		cfg.Roles[i].PerSession, cfg.Roles[i].PerIssue = agents.Budget{}, agents.Budget{}
	}
	for i := range cfg.Agents {
		cfg.Agents[i].Budget = agents.Budget{}
	}
	for i := range cfg.Threads {
		cfg.Threads[i].Budget, cfg.Threads[i].Windows = agents.Budget{}, nil
	}
	cfg.Repos = slices.Clone(cfg.Repos)
	for i := range cfg.Repos {
		cfg.Repos[i].Budget = agents.Budget{}
	}
	w.cfg = &cfg
	w.forge.dirty = true
}
