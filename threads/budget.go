package threads

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Spender uses tokens and money: one agent, or one thread for all of its agents. The other field is empty.
type Spender struct{ Thread, Agent string }

// Spent adds up the use of one day. Only sessions that ended count: the use of the others is not known yet.
type Spent struct {
	Day    time.Time `json:"day"` // see Day; zero means nothing yet
	Tokens int64     `json:"tokens"`
	USD    float64   `json:"usd"`
}

const (
	dayLength = 24 * time.Hour
	// maxSpent is more than a thousand agents use in a day, in tokens or dollars. Sums stay near it.
	maxSpent = 1_000_000_000_000
)

// Day is the beginning of the day of t in UTC, which is the same on every host and never 23 hours long.
func Day(t time.Time) time.Time { return t.UTC().Truncate(dayLength) }

// spent is the entry of an agent or a thread.
func (h *History) spent(who Spender) Spent {
	if who.Agent != "" {
		return h.Agent(who.Agent).Spent
	}
	return h.Thread(who.Thread).Spent
}

// Today returns what was spent on the day of a time, or later by a clock that was ahead; zero when that is nothing.
func (s Spent) Today(now time.Time) Spent {
	if s.Day.Before(Day(now)) {
		return Spent{}
	}
	return s
}

// Add counts a session that ended at a time. A clock that went back goes on with the later day, so that it frees
// nothing.
func (s Spent) Add(at time.Time, u agents.Usage) Spent {
	if day := Day(at); day.After(s.Day) {
		s = Spent{Day: day}
	}
	u = u.Bounded() // an older journal has what a program said
	s.Tokens = min(max(s.Tokens, 0), maxSpent) + u.InputTokens + u.OutputTokens
	if !(s.USD >= 0) {
		s.USD = 0
	}
	s.USD = min(s.USD, maxSpent) + u.CostUSD
	return s
}

// withinBudget asks for the agent first, as notPaused does. Running sessions may exceed the budget: a session that is
// ended half-way has cost as much and achieved nothing.
func withinBudget(v *view, c candidate) *Reason {
	if why := v.overBudget(Spender{Agent: c.agent.Name}, c.agent.Budget); why != nil {
		return why
	}
	return v.overBudget(Spender{Thread: c.agent.Thread}, c.agent.thread.Budget)
}

func (v *view) overBudget(who Spender, b agents.Budget) *Reason {
	s := v.History.spent(who)
	if s.Day.Before(Day(v.Now)) {
		return nil
	}
	var words string
	switch {
	case b.Tokens > 0 && s.Tokens >= b.Tokens:
		words = fmt.Sprintf("%d of %d tokens", s.Tokens, b.Tokens)
	case b.USD > 0 && s.USD >= b.USD:
		words = fmt.Sprintf("$%.2f of $%.2f", s.USD, b.USD)
	default:
		return nil
	}
	tomorrow := s.Day.Add(dayLength)
	v.wake(tomorrow)
	return &Reason{Code: OverBudget, Agent: who.Agent, Thread: who.Thread, Note: words, Until: tomorrow}
}
