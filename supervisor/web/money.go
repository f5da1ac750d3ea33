package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// money shows usage: by day with the budgets, and by agent, thread, model and issue.
func (s *Site) money(ctx context.Context, _ url.Values) (*board, error) {
	var d control.Document
	if err := s.API.Get(ctx, "/v1/state?rows=0", &d); err != nil {
		return nil, err
	}
	var record control.RecordDocument
	ask := "/v1/report?since=30d&by=day&by=agent&by=thread&by=model&by=issue"
	if err := s.API.Get(ctx, ask, &record); err != nil {
		return nil, err
	}
	b := &board{Title: "Money", Sections: []section{s.charts(ctx, &record, &d), budgets(&d)}}
	for _, by := range []ledger.By{ledger.ByAgent, ledger.ByThread, ledger.ByModel, ledger.ByIssue, ledger.ByDay} {
		b.Sections = append(b.Sections, spending(&record, by))
	}
	return b, nil
}

// budgets shows how much of each budget is used today.
func budgets(d *control.Document) section {
	sec := section{
		ID: "budgets", Title: "Budgets of today", Note: "a day ends at midnight UTC",
		Empty: "No agent and no thread has a budget.",
	}
	add := func(id, of, when string, s *control.SpentDocument) {
		for i, m := range meters(of, when, s) {
			sec.Rows = append(sec.Rows, render("meter", fmt.Sprintf("%s-%d", id, i), m))
		}
	}
	for i := range d.Threads {
		t := &d.Threads[i]
		add("thread-"+t.Name, "thread "+t.Name, "today", &t.Spent)
		for j := range t.Windows {
			w := &t.Windows[j]
			add("window-"+t.Name+"-"+w.Length, "thread "+t.Name, "in "+w.Length, w.Spent())
		}
	}
	for i := range d.Agents {
		add("agent-"+d.Agents[i].Name, "agent "+d.Agents[i].Name, "today", &d.Agents[i].Spent)
	}
	return sec
}

// meter is a daily budget or a window, and how much of it is used.
type meter struct {
	Of, Text string
	Percent  float64 // at most 100
	Over     bool    // the budget is used up
}

// meters returns the budgets of an agent or a thread; empty if it has none.
func meters(of, when string, d *control.SpentDocument) (list []meter) {
	if limit := d.TokensPerDay; limit > 0 {
		left := max(0, limit-d.Tokens)
		text := fmt.Sprintf("%s of %s tokens %s, %s left",
			control.Tokens(d.Tokens), control.Tokens(limit), when, control.Tokens(left))
		list = append(list, meter{of, text, min(100, 100*float64(d.Tokens)/float64(limit)), left == 0})
	}
	if limit := d.USDPerDay; limit > 0 {
		left := max(0, limit-d.USD)
		text := fmt.Sprintf("%s of %s %s, %s left", usd(d.USD), usd(limit), when, usd(left))
		list = append(list, meter{of, text, min(100, 100*d.USD/limit), left == 0})
	}
	return list
}

// charts shows the days: all dollars and tokens, then those of each thread with a budget, which is drawn as a line.
func (s *Site) charts(ctx context.Context, record *control.RecordDocument, d *control.Document) section {
	sec := section{ID: "days", Title: "By day", Note: "the last 30, in UTC"}
	if record.Total.Sessions == 0 {
		sec.Empty = "No session ended in the last 30 days."
		return sec
	}
	add := func(id string, c *chart) { sec.Rows = append(sec.Rows, render("chart", id, c)) }
	add("usd", barsOf("Dollars, all threads", record, dollarsOf, 0))
	add("tokens", barsOf("Tokens, all threads", record, tokensOf, 0))
	for i := range d.Threads {
		t := &d.Threads[i]
		if t.Spent.USDPerDay == 0 && t.Spent.TokensPerDay == 0 {
			continue
		}
		var own control.RecordDocument
		ask := url.Values{"since": {"30d"}, "by": {string(ledger.ByDay)}, "thread": {t.Name}}
		if s.API.Get(ctx, "/v1/report?"+ask.Encode(), &own) != nil {
			continue
		}
		if limit := t.Spent.USDPerDay; limit > 0 {
			add("usd-"+t.Name, barsOf("Dollars of "+t.Name, &own, dollarsOf, limit))
		}
		if limit := t.Spent.TokensPerDay; limit > 0 {
			add("tokens-"+t.Name, barsOf("Tokens of "+t.Name, &own, tokensOf, float64(limit)))
		}
	}
	return sec
}

// unit reads a chart's number from a day's tally and formats it.
type unit struct {
	of    func(*ledger.Tally) (sum float64, known bool)
	write func(float64) string
}

var (
	dollarsOf = unit{func(t *ledger.Tally) (float64, bool) {
		if t.USD == nil {
			return 0, false
		}
		return *t.USD, true
	}, usd}
	tokensOf = unit{func(t *ledger.Tally) (float64, bool) {
		if t.Tokens == nil {
			return 0, false
		}
		return float64(*t.Tokens), true
	}, func(n float64) string { return control.Tokens(int64(n)) }}
)

// The measures of a chart, in pixels.
const (
	chartDays           = 30
	barWidth, barGap    = 15, 5
	chartLeft, chartTop = 62, 16
	chartBase           = 116 // the y of the zero line
)

// chart has a bar for each day.
type chart struct {
	Title, Label string
	Highest      string // the number at the top; empty if no day has a number
	Bars         []dayBar
	Ticks        []label
	LimitY       int // the y of the budget's line; 0 without a budget
}

// dayBar is one day. A day whose sessions all reported no number is a question mark.
type dayBar struct {
	X, Y, Height int
	Words        string
	Unknown      bool
}

// barsOf draws the days of a record. limit is the daily budget; 0 means none.
func barsOf(title string, d *control.RecordDocument, u unit, limit float64) *chart {
	c := &chart{Title: title}
	if limit > 0 {
		c.Title += ", and its budget of " + u.write(limit) + " a day"
	}
	by := make(map[string]*ledger.Tally)
	rows := d.Rows(ledger.ByDay)
	highest, told := limit, limit > 0
	for i := range rows {
		by[rows[i].Key] = &rows[i]
		sum, known := u.of(&rows[i])
		highest, told = max(highest, sum), told || known
	}
	if !told {
		return c
	}
	c.Highest = u.write(highest)
	scale := float64(chartBase-chartTop) / cmp.Or(highest, 1)
	if limit > 0 {
		c.LimitY = chartBase - int(limit*scale)
	}
	for i := range chartDays {
		day := d.Since.UTC().Add(time.Duration(i+1) * 24 * time.Hour)
		x := chartLeft + i*(barWidth+barGap)
		if i%5 == 4 {
			c.Ticks = append(c.Ticks, label{x + barWidth, day.Format("2 Jan")})
		}
		t := by[day.Format(time.DateOnly)]
		if t == nil || t.Sessions == 0 {
			continue
		}
		sum, known := u.of(t)
		height := int(sum * scale)
		if sum > 0 {
			height = max(height, 1)
		}
		words := fmt.Sprintf("%s: %s in %s",
			day.Format("2 Jan"), formatSum(u, sum, known), control.Count(t.Sessions, "session"))
		c.Bars = append(c.Bars, dayBar{x, chartBase - height, height, words, !known})
	}
	c.Label = fmt.Sprintf("%s: %s at the top", c.Title, c.Highest)
	return c
}

func formatSum(u unit, sum float64, known bool) string {
	if !known {
		return "unknown"
	}
	return u.write(sum)
}

// mostSpending bounds the rows of a spending table.
const mostSpending = 50

// spending is a table of each group's usage: the most expensive group first, or the newest day first.
func spending(d *control.RecordDocument, by ledger.By) section {
	name := strings.ToUpper(string(by[:1])) + string(by[1:])
	sec := section{
		ID: "by-" + string(by), Title: "By " + string(by),
		Head: columns(name, "Cost", "Tokens", "Cached", "Sessions", "Minutes", "Merged", "Cost of one"),
	}
	rows := slices.Clone(d.Rows(by))
	slices.SortStableFunc(rows, func(a, b ledger.Tally) int {
		if by == ledger.ByDay {
			return strings.Compare(b.Key, a.Key)
		}
		return cmp.Or(cmp.Compare(order(dollarsOf.of(&b)), order(dollarsOf.of(&a))),
			cmp.Compare(order(tokensOf.of(&b)), order(tokensOf.of(&a))), strings.Compare(a.Key, b.Key))
	})
	for i := range rows[:min(len(rows), mostSpending)] {
		sec.Rows = append(sec.Rows, render("spending", "key-"+rows[i].Key, groupOf(by, &rows[i])))
	}
	if len(rows) > mostSpending {
		sec.Note = fmt.Sprintf("%d of %d", mostSpending, len(rows))
	}
	return sec
}

// order sorts unknown sums after all known ones.
func order(sum float64, known bool) float64 {
	if !known {
		return -1
	}
	return sum
}

// group is a row of a spending table.
type group struct {
	*ledger.Tally
	Name               link
	Cost, Read, CostOf string
}

func groupOf(by ledger.By, t *ledger.Tally) *group {
	g := &group{
		Tally: t, Name: link{Text: t.Key}, Cost: usdKnown(t.USD, t.Unpriced), Read: tokensKnown(t.Tokens, t.Untold),
		CostOf: "-",
	}
	if ref, err := forge.ParseRef(t.Key, ""); by == ledger.ByIssue && err == nil {
		g.Name = refOf(ref.Repo, ref.Number)
	}
	switch {
	case t.Key != "":
	case by == ledger.ByIssue:
		g.Name.Text = "no issue"
	default:
		g.Name.Text = "unknown"
	}
	if t.PerIssue != nil {
		g.CostOf = usdKnown(t.PerIssue.USD, t.Merged.Unpriced)
	}
	return g
}
