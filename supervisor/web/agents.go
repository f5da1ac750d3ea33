package web

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// agents shows each agent: what it does now, its record of the last 30 days, and what is left of today's budgets.
func (s *Site) agents(ctx context.Context, _ url.Values) (*board, error) {
	var d control.Document
	if err := s.API.Get(ctx, "/v1/state?rows=0", &d); err != nil {
		return nil, err
	}
	var record control.RecordDocument
	if err := s.API.Get(ctx, "/v1/report?since=30d&by=agent", &record); err != nil {
		return nil, err
	}
	sec := section{
		ID: "agents", Title: control.Count(len(d.Agents), "agent"), Note: "with their numbers of 30 days",
		Head: columns("Agent", "Status", "Now", "Merged#", "First-pass#", "Rounds#", "Minutes#", "Failed#",
			"Cost per merge#", "Idle#", "Today#", ""),
		Empty: "No agent is configured: disinto hire-an-agent makes one.",
	}
	for i := range d.Agents {
		c := worker{AgentDocument: &d.Agents[i], Pill: agentPill(&d.Agents[i]), Numbers: numbersOf(nil, 0)}
		for _, x := range d.Sessions {
			if x.Agent == c.Name {
				c.Session = &x
			}
		}
		for _, row := range record.Rows(ledger.ByAgent) {
			if row.Key == c.Name {
				c.Numbers = numbersOf(&row, time.Since(record.From))
			}
		}
		if c.Code == threads.TokenRejected || c.Code == threads.NoToken {
			c.Renew = c.Name
		}
		sec.Rows = append(sec.Rows, render("agent", c.Name, &c))
	}
	return &board{Title: "Agents", State: &d, Sections: []section{sec}}, nil
}

// worker is an agent as the page shows it.
type worker struct {
	*control.AgentDocument
	Pill    pill
	Session *control.SessionDocument // nil while it is idle or held
	Renew   string                   // its name if its token has to be renewed
	// Numbers are the cells of its record, in the order of their columns.
	Numbers []cell
}

// cell is a number with the name of its column, for a screen without the heading.
type cell struct{ Name, Value string }

// About returns the agent's role, thread, model and skills.
func (w *worker) About() string {
	parts := []string{w.Role, w.Thread}
	if w.Model != "" {
		parts = append(parts, w.Model)
	}
	return strings.Join(append(parts, w.Skills...), " · ")
}

// Today returns what is used of today's budget.
func (w *worker) Today() string {
	switch s := &w.Spent; {
	case s.USDPerDay > 0:
		return spentUSD(s.USD) + " of " + usd(s.USDPerDay)
	case s.TokensPerDay > 0:
		return control.Tokens(s.Tokens) + " of " + control.Tokens(s.TokensPerDay) + " tokens"
	case s.USD > 0:
		return usd(s.USD)
	case s.Tokens > 0:
		return control.Tokens(s.Tokens) + " tokens"
	}
	return unknown
}

// unknown stands for a number that nobody reported.
const unknown = "–"

// numbersOf returns the cells of an agent's record in a time; nil is that of an agent without a session.
func numbersOf(t *ledger.Tally, span time.Duration) []cell {
	list := []cell{
		{"merged", unknown},
		{"first-pass", unknown},
		{"rounds", unknown},
		{"minutes", unknown},
		{"failed", unknown},
		{"cost per merge", unknown},
		{"idle", unknown},
	}
	if t == nil {
		return list
	}
	list[0].Value, list[4].Value = strconv.Itoa(t.Merged.Pulls), strconv.Itoa(t.Failed.Sessions)
	list[6].Value = fmt.Sprintf("%.0f %%", 100*max(0, 1-t.Minutes/span.Minutes()))
	if n := t.Merged.Reviewed; n > 0 {
		list[1].Value = fmt.Sprintf("%d of %d", t.Merged.FirstRound, n)
	}
	if r := t.PerMerge; r != nil {
		list[2].Value, list[3].Value = fmt.Sprintf("%.1f", r.Rounds), fmt.Sprintf("%.0f", r.Minutes)
		list[5].Value = usdKnown(r.USD, t.Unpriced)
	}
	return list
}

// usdKnown writes a sum of dollars: with "≥" if missing sessions did not report their cost, "–" if none did.
func usdKnown(sum *float64, missing int) string {
	if sum == nil {
		return unknown
	}
	return atLeast(missing) + usd(*sum)
}

// tokensKnown formats a sum of tokens: with "≥" if missing sessions did not report theirs, "–" if none did.
func tokensKnown(sum *int64, missing int) string {
	if sum == nil {
		return unknown
	}
	return atLeast(missing) + control.Tokens(*sum)
}

func atLeast(missing int) string {
	if missing > 0 {
		return "≥ "
	}
	return ""
}
