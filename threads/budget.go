package threads

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Spender uses tokens and money: an agent, or a thread or a repository with all its sessions. Exactly one field is set.
type Spender struct{ Thread, Agent, Repo string }

// Spent adds up the usage of one day. A running session counts with the usage that its program has reported so far.
type Spent struct {
	Day    time.Time `json:"day"` // see Day; zero means nothing yet
	Tokens int64     `json:"tokens"`
	USD    float64   `json:"usd"`
}

const (
	dayLength = 24 * time.Hour
	// maxSpent is more than a thousand agents use in a day, in tokens or dollars. A sum exceeds it by one report at
	// most.
	maxSpent = 1_000_000_000_000
)

// Day returns the start of t's day in UTC. A UTC day is the same on every host and never 23 hours long.
func Day(t time.Time) time.Time { return t.UTC().Truncate(dayLength) }

// spent returns what an agent, a thread or a repository spent last.
func (h *History) spent(who Spender) Spent {
	switch {
	case who.Agent != "":
		return h.Agent(who.Agent).Spent
	case who.Repo != "":
		return h.Repo(who.Repo).Spent
	}
	return h.Thread(who.Thread).Spent
}

// Today returns what was spent on now's day. A later day, written while the clock was ahead, counts as today.
func (s Spent) Today(now time.Time) Spent {
	if s.Day.Before(Day(now)) {
		return Spent{}
	}
	return s
}

// Add adds a usage report of a given time. After the clock went back, the later day continues, so no budget is freed.
func (s Spent) Add(at time.Time, u agents.Usage) Spent {
	if day := Day(at); day.After(s.Day) {
		s = Spent{Day: day}
	}
	u = u.Bounded() // records of older versions are unbounded
	total := Used{s.Tokens, s.USD}.Add(u)
	s.Tokens, s.USD = total.Tokens, total.USD
	return s
}

// Used is a sum of usage, for example of all sessions on an issue and its pull requests.
type Used struct {
	Tokens int64   `json:"tokens,omitzero"`
	USD    float64 `json:"usd,omitzero"`
}

// Add adds one usage report.
func (s Used) Add(u agents.Usage) Used {
	s.Tokens = min(max(s.Tokens, 0), maxSpent) + u.Tokens()
	if !(s.USD >= 0) {
		s.USD = 0
	}
	s.USD = min(s.USD, maxSpent) + u.CostUSD
	return s
}

// withinBudget checks the agent's budget before the thread's.
func withinBudget(v *view, c candidate) *Reason {
	if why := v.overBudget(Spender{Agent: c.agent.Name}, c.agent.Budget); why != nil {
		return why
	}
	return v.overBudget(Spender{Thread: c.agent.Thread}, c.agent.thread.Budget)
}

func (v *view) overBudget(who Spender, b agents.Budget) *Reason {
	why := overBudget(&v.History, v.Now, who, b, OverBudget)
	if why != nil {
		v.wake(why.Until)
	}
	return why
}

func overBudget(h *History, now time.Time, who Spender, b agents.Budget, code Code) *Reason {
	s := h.spent(who)
	if s.Day.Before(Day(now)) {
		return nil
	}
	words := b.Reached(s.Tokens, s.USD)
	if words == "" {
		return nil
	}
	return &Reason{
		Code: code, Agent: who.Agent, Thread: who.Thread, Repo: who.Repo, Note: words, Until: s.Day.Add(dayLength),
	}
}

// spendRule returns why a session must not use more; nil when it may.
type spendRule struct {
	name string
	why  func(cfg *Config, h *History, s *Session, now time.Time) *Reason
}

var spendRules = []spendRule{
	{"its session within the limit", sessionSpent},
	{"its issue within the limit", issueSpent},
	{"its agent within the budget", agentSpent},
	{"its thread within the budget", threadSpent},
	{"its repository within the budget", repoSpent},
}

// Overspent returns the running sessions that must end because they have reached a limit. Decide stops the same
// sessions. The supervisor also calls Overspent when a session has used more and nothing else has changed.
func Overspent(cfg *Config, h *History, sessions []Session, now time.Time) (stops []Stop) {
	for i := range sessions {
		if why := overspent(cfg, h, &sessions[i], now); why != nil {
			stops = append(stops, Stop{RunID: sessions[i].RunID, Reason: *why})
		}
	}
	return stops
}

func overspent(cfg *Config, h *History, s *Session, now time.Time) *Reason {
	if s.State != Running {
		return nil
	}
	for i := range spendRules {
		if why := spendRules[i].why(cfg, h, s, now); why != nil {
			return why
		}
	}
	return nil
}

// LimitReached returns the reason if a session, or its issue, has reached the limit that the session started with.
func LimitReached(h *History, s *Session) *Reason {
	if why := sessionSpent(nil, h, s, time.Time{}); why != nil {
		return why
	}
	return issueSpent(nil, h, s, time.Time{})
}

func sessionSpent(_ *Config, _ *History, s *Session, _ time.Time) *Reason {
	return limitReached("session", s.Role, s.PerSession, Used{}.Add(s.Used))
}

func issueSpent(_ *Config, h *History, s *Session, _ time.Time) *Reason {
	return limitReached("issue", s.Role, s.PerIssue, h.Chain(s.Item.Chain).Used)
}

// limitReached returns a reason that names the key to raise; nil below the limit.
func limitReached(of, role string, b agents.Budget, used Used) *Reason {
	key := "max_usd"
	if b.Tokens > 0 && used.Tokens >= b.Tokens {
		key = "max_tokens"
	}
	words := b.Reached(used.Tokens, used.USD)
	if words == "" {
		return nil
	}
	note := fmt.Sprintf("the %s has used %s (%s per %s of role %s)", of, words, key, of, role)
	return &Reason{Code: StopOverLimit, Note: note}
}

func agentSpent(cfg *Config, h *History, s *Session, now time.Time) *Reason {
	a := cfg.Agent(s.Agent)
	if a == nil {
		return nil
	}
	return overBudget(h, now, Spender{Agent: s.Agent}, a.Budget, StopOverBudget)
}

func threadSpent(cfg *Config, h *History, s *Session, now time.Time) *Reason {
	t := cfg.Thread(s.Thread)
	if t == nil {
		return nil
	}
	return overBudget(h, now, Spender{Thread: s.Thread}, t.Budget, StopOverBudget)
}

func repoSpent(cfg *Config, h *History, s *Session, now time.Time) *Reason {
	r := cfg.RepoTable(s.Item.Ref.Repo)
	if r == nil {
		return nil
	}
	return overBudget(h, now, Spender{Repo: r.Name}, r.Budget, StopOverBudget)
}

// issueLimit holds an issue and its pull requests when they have used as much as a role allows that may take them. Of
// several such roles, the lowest limit counts.
func issueLimit(v *view, w *work) *Reason {
	for i := range v.Config.Roles {
		r := &v.Config.Roles[i]
		if !r.On.Does(w.Kind) {
			continue
		}
		why := limitReached("issue", r.Name, r.PerIssue, w.chain.Used)
		if why != nil && takes(r, v.filterLabels(w)) {
			return &Reason{Code: OverLimit, Note: why.Note}
		}
	}
	return nil
}

// outOfMoney does not mark an issue that has a session or an open pull request: that may be the last one needed.
func outOfMoney(v *view, w *work) *Reason {
	why := issueLimit(v, w)
	if hasSession(v, w) != nil || w.issue != nil && (notBacklog(v, w) != nil || hasPull(v, w) != nil) {
		return nil
	}
	return why
}

// Reached says which limits of usage a session's agent, thread, repository and chain have reached. It is comparable: as
// long as it is the same, usage of the session changes no plan.
type Reached struct {
	agent, thread, repo, session bool
	issue                        int // roles whose limit per issue its chain has reached
	windows                      [2]fullWindow
}

// fullWindow is the answer of a thread's windows; zero while none keeps a session from starting.
type fullWindow struct {
	full  bool
	until time.Time
}

// ReachedBy finds the limits that a session has reached. Of the snapshot it needs the time, the configuration, the
// sessions and the history.
func ReachedBy(s *Snapshot, x *Session) (r Reached) {
	r.agent = agentSpent(s.Config, &s.History, x, s.Now) != nil
	r.thread = threadSpent(s.Config, &s.History, x, s.Now) != nil
	r.repo = repoSpent(s.Config, &s.History, x, s.Now) != nil
	r.session = LimitReached(&s.History, x) != nil
	for i := range s.Config.Roles {
		role := &s.Config.Roles[i]
		if limitReached("issue", role.Name, role.PerIssue, s.History.Chain(x.Item.Chain).Used) != nil {
			r.issue++
		}
	}
	t := threadState{Thread: s.Config.Thread(x.Thread)}
	if t.Thread == nil || len(t.Windows) == 0 {
		return r
	}
	v := &view{Snapshot: s}
	v.indexGauges(&t)
	for i := range s.Sessions {
		if s.Sessions[i].Thread == x.Thread {
			v.comes(&t, &s.Sessions[i])
		}
	}
	v.weighGauges(&t)
	for i, why := range []*Reason{t.usedUp, t.reserved} {
		if why != nil {
			r.windows[i] = fullWindow{true, why.Until}
		}
	}
	return r
}
