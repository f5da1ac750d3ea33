package web

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/supervisor/control"
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
	sec := section{ID: "agents", Title: "Now, and the last 30 days", Empty: "No agent is configured."}
	for i := range d.Agents {
		c := &card{AgentDocument: &d.Agents[i]}
		for _, x := range d.Sessions {
			if x.Agent == c.Name {
				c.Session = &x
			}
		}
		for _, row := range record.Rows(ledger.ByAgent) {
			if row.Key == c.Name {
				c.Tiles = tiles(&row)
			}
		}
		sec.Rows = append(sec.Rows, render("agent", c.Name, c))
	}
	return &board{Title: "Agents", Sections: []section{sec}}, nil
}

// card is an agent as the page shows it.
type card struct {
	*control.AgentDocument
	Session *control.SessionDocument // nil while it is idle or held
	Tiles   []tile                   // empty before its first session
}

// tile is a number with its name.
type tile struct{ Name, Value string }

// About returns the agent's role, thread, model and skills.
func (c *card) About() string {
	parts := []string{c.Role, "on " + c.Thread}
	if c.Model != "" {
		parts = append(parts, c.Model)
	}
	if len(c.Skills) > 0 {
		parts = append(parts, "skills "+strings.Join(c.Skills, ", "))
	}
	return strings.Join(parts, " · ")
}

// Budgets returns how much of the day's budgets is used and left.
func (c *card) Budgets() []meter { return meters("budget", "today", &c.Spent) }

// tiles returns the numbers of an agent's record.
func tiles(t *ledger.Tally) []tile {
	list := []tile{
		{"merged issues", strconv.Itoa(t.Merged.Issues)},
		{"approved at once", "-"},
		{"rounds each", "-"},
		{"minutes each", "-"},
		{"cost each", "-"},
		{"tokens each", "-"},
		{"sessions", strconv.Itoa(t.Sessions)},
		{"cached", control.Hit(t.CacheHit)},
		{"idle", strconv.Itoa(int(100*(1-t.Busy)+0.5)) + " %"},
	}
	if n := t.Merged.Reviewed; n > 0 {
		list[1].Value = fmt.Sprintf("%d of %d", t.Merged.FirstRound, n)
	}
	if r := t.PerIssue; r != nil {
		list[2].Value, list[3].Value = fmt.Sprintf("%.1f", r.Rounds), fmt.Sprintf("%.1f", r.Minutes)
		list[4].Value = usdKnown(r.USD, t.Merged.Unpriced)
		list[5].Value = tokensKnown(r.Tokens, t.Merged.Untold)
	}
	return list
}

// usdKnown writes a sum of dollars: with "≥" if missing sessions did not report their cost, "-" if none did.
func usdKnown(sum *float64, missing int) string {
	if sum == nil {
		return "-"
	}
	return atLeast(missing) + usd(*sum)
}

// tokensKnown formats a sum of tokens: with "≥" if missing sessions did not report theirs, "-" if none did.
func tokensKnown(sum *int64, missing int) string {
	if sum == nil {
		return "-"
	}
	return atLeast(missing) + control.Tokens(*sum)
}

func atLeast(missing int) string {
	if missing > 0 {
		return "≥ "
	}
	return ""
}
