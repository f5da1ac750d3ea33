package web

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// breakdowns are the groups of the table, of which the page shows one; the first is the default.
var breakdowns = []ledger.By{
	ledger.ByAgent, ledger.ByRole, ledger.ByModel, ledger.ByThread, ledger.ByRepo, ledger.ByLabel, ledger.ByIssue,
	ledger.ByDay, ledger.ByOutcome, ledger.ByCause, ledger.ByRefused,
}

// money shows usage: by day with the budget, and by one of breakdowns.
func (s *Site) money(ctx context.Context, query url.Values) (*board, error) {
	by, u := breakdowns[0], units[0]
	if said := ledger.By(query.Get("by")); slices.Contains(breakdowns, said) {
		by = said
	}
	if query.Get("unit") == units[1].name {
		u = units[1]
	}
	var d control.Document
	if err := s.API.Get(ctx, "/v1/state?rows=0", &d); err != nil {
		return nil, err
	}
	var record control.RecordDocument
	if err := s.API.Get(ctx, "/v1/report?since=30d&by=day&by="+string(by), &record); err != nil {
		return nil, err
	}
	var ways, groups []navigation
	for _, x := range units {
		path := "/money?unit=" + x.name + "&by=" + string(by)
		ways = append(ways, navigation{path, x.title, "", x.name == u.name})
	}
	for _, x := range breakdowns {
		path := "/money?by=" + string(x) + "&unit=" + u.name + "#by"
		groups = append(groups, navigation{path, title(string(x)), "", x == by})
	}
	chart, table := days(&record, &d, u), spending(&record, by)
	chart.Tools, table.Tools = tabs("Unit", ways), tabs("Group", groups)
	return &board{Title: "Money", State: &d, Sections: []section{sums(&d, &record), chart, budgets(&d), table}}, nil
}

// dayLimit returns the sum of the threads' daily budgets in dollars and tokens; 0 unless every paid thread has one.
func dayLimit(d *control.Document, u unit) (limit float64) {
	for i := range d.Threads {
		t := &d.Threads[i]
		own := u.limit(&t.Spent)
		if own == 0 && t.Backend.Paid() {
			return 0
		}
		limit += own
	}
	return limit
}

// sums shows the money of today and of 30 days.
func sums(d *control.Document, record *control.RecordDocument) section {
	sec := section{ID: "totals", Class: "totals panel"}
	add := func(t total) { sec.Rows = append(sec.Rows, render("total", t.Name, t)) }
	var spent float64
	for i := range d.Threads {
		spent += d.Threads[i].Spent.USD
	}
	today := total{Name: "Today", Value: spentUSD(spent), Href: "#budgets", Note: "a day ends at 00:00 UTC"}
	if limit := dayLimit(d, units[0]); limit > 0 {
		today.Of = "of " + usd(limit)
	}
	add(today)
	all := &record.Total
	add(total{
		Name: "30 days", Value: usdKnown(all.USD, all.Unpriced), Href: "#days",
		Note: control.Count(all.Unpriced, "session") + " reported no cost",
	})
	each := total{Name: "Per merge", Value: unknown, Href: "#by", Note: control.Count(all.Merged.Pulls, "merge")}
	if all.PerMerge != nil {
		each.Value = usdKnown(all.PerMerge.USD, all.Unpriced)
	}
	add(each)
	add(total{
		Name: "Failed", Value: wasted(&all.Failed), Href: "/money?by=cause#by",
		Note: control.Count(all.Failed.Sessions, "session") + " came to nothing",
	})
	add(total{Name: "Tokens", Value: tokensKnown(all.Tokens, all.Untold), Href: "#days", Note: "in 30 days"})
	add(total{Name: "Cache hits", Value: hit(all.CacheHit), Href: "#by", Note: "of the tokens read"})
	return sec
}

// budgets shows how much of each budget is used today.
func budgets(d *control.Document) section {
	sec := section{
		ID: "budgets", Title: "Budgets of today", Class: "bars panel",
		Empty: "Nothing has a budget: budget in factory.toml sets one.",
	}
	add := func(id, of, when string, s *control.SpentDocument) {
		for i, m := range meters(of, when, s) {
			sec.Rows = append(sec.Rows, render("meter", fmt.Sprintf("%s-%d", id, i), m))
		}
	}
	for i := range d.Threads {
		t := &d.Threads[i]
		add("thread-"+t.Name, t.Name, "today", &t.Spent)
		for j := range t.Windows {
			w := &t.Windows[j]
			add("window-"+t.Name+"-"+w.Length, t.Name, "in "+w.Length, w.Spent())
		}
	}
	for i := range d.Agents {
		add("agent-"+d.Agents[i].Name, d.Agents[i].Name, "today", &d.Agents[i].Spent)
	}
	for i := range d.Repos {
		add("repo-"+d.Repos[i].Name, d.Repos[i].Name, "today", &d.Repos[i].Spent)
	}
	return sec
}

// meter is a daily budget or a window, and how much of it is used.
type meter struct {
	Of, Text string
	Percent  float64 // at most 100
	Over     bool    // the budget is used up
}

// meters returns the budgets of an agent, a thread or a repository; empty if it has none.
func meters(of, when string, d *control.SpentDocument) (list []meter) {
	if limit := d.TokensPerDay; limit > 0 {
		text := fmt.Sprintf("%s of %s tokens %s", control.Tokens(d.Tokens), control.Tokens(limit), when)
		list = append(list, meter{of, text, min(100, 100*float64(d.Tokens)/float64(limit)), d.Tokens >= limit})
	}
	if limit := d.USDPerDay; limit > 0 {
		text := fmt.Sprintf("%s of %s %s", spentUSD(d.USD), usd(limit), when)
		list = append(list, meter{of, text, min(100, 100*d.USD/limit), d.USD >= limit})
	}
	return list
}

// days draws the last 30 days on one scale, with the budget as a line.
func days(record *control.RecordDocument, d *control.Document, u unit) section {
	sec := section{
		ID: "days", Title: "By day", Note: cmp.Or(record.Counted(), "the last 30, in UTC"), Class: "panel",
	}
	if record.Total.Sessions == 0 {
		sec.Empty = "No session ended in the last 30 days."
		return sec
	}
	sec.Rows = []row{render("chart", u.name, barsOf(u.title, record, u, dayLimit(d, u)))}
	return sec
}

// unit reads a chart's number from a day's tally and a budget, and formats it.
type unit struct {
	name, title string
	of          func(*ledger.Tally) (sum float64, known bool)
	limit       func(*control.SpentDocument) float64
	write       func(float64) string
}

var units = []unit{
	{"usd", "Dollars", func(t *ledger.Tally) (float64, bool) {
		if t.USD == nil {
			return 0, false
		}
		return *t.USD, true
	}, func(s *control.SpentDocument) float64 { return s.USDPerDay }, usd},
	{
		"tokens", "Tokens", func(t *ledger.Tally) (float64, bool) {
			if t.Tokens == nil {
				return 0, false
			}
			return float64(*t.Tokens), true
		}, func(s *control.SpentDocument) float64 { return float64(s.TokensPerDay) },
		func(n float64) string { return control.Tokens(int64(n)) },
	},
}

// The measures of a chart: its days, and the pixels of its top and of the zero line.
const (
	chartDays           = 30
	chartTop, chartBase = 16, 166
)

// chart has a bar for each day. Positions from the left are percent of its width.
type chart struct {
	Label  string
	Lines  []mark // the scale, from zero to the highest
	Bars   []dayBar
	Ticks  []mark
	LimitY int    // the y of the budget's line; 0 without a budget
	Limit  string // the budget
}

// mark is a text at a position.
type mark struct {
	At   float64
	Text string
}

// dayBar is one day. A day whose sessions all reported no number is a question mark.
type dayBar struct {
	X         float64
	Y, Height int
	Words     string
	Unknown   bool
}

// xOf returns the position of a day.
func xOf(i int) float64 { return 7 + float64(i)*93/chartDays }

// scaleOf returns the highest line of a scale of four equal steps that are easy to read.
func scaleOf(highest float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(highest/4)))
	for _, nice := range []float64{1, 2, 2.5, 5, 10} {
		if 4*nice*step >= highest {
			return 4 * nice * step
		}
	}
	return 40 * step
}

// barsOf draws the days of a record. limit is the daily budget; 0 means none.
func barsOf(title string, d *control.RecordDocument, u unit, limit float64) *chart {
	c := &chart{}
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
	top := scaleOf(cmp.Or(highest, 1))
	scale := float64(chartBase-chartTop) / top
	for i := range 5 {
		n := float64(i) * top / 4
		c.Lines = append(c.Lines, mark{chartBase - n*scale, strings.TrimSuffix(u.write(n), ".00")})
	}
	if limit > 0 {
		c.LimitY, c.Limit = chartBase-int(limit*scale), "budget "+u.write(limit)+" a day"
	}
	for i := range chartDays {
		day := d.Since.UTC().Add(time.Duration(i+1) * 24 * time.Hour)
		if i%6 == 0 {
			c.Ticks = append(c.Ticks, mark{xOf(i), day.Format("2 Jan")})
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
		c.Bars = append(c.Bars, dayBar{xOf(i), chartBase - height, height, words, !known})
	}
	c.Label = fmt.Sprintf("%s by day, up to %s", title, u.write(highest))
	return c
}

func formatSum(u unit, sum float64, known bool) string {
	if !known {
		return "unknown"
	}
	return u.write(sum)
}

// mostSpending bounds the rows of a spending table.
const mostSpending = 30

// spending is the table of each group's usage: the most expensive group first, or the newest day first. The last row is
// the total.
func spending(d *control.RecordDocument, by ledger.By) section {
	sec := section{
		ID: "by", Title: "By " + string(by), Note: "30 days; – is not reported, ≥ is reported in part",
		Head: columns(title(string(by)), "Cost#", "", "Tokens#", "Cache hits#", "Sessions#", "Minutes#", "Merged#",
			"Failed#", "Cost of failures#", "Cost per merge#"),
		Empty: "No session ended in the last 30 days.",
	}
	rows := slices.Clone(d.Rows(by))
	slices.SortStableFunc(rows, func(a, b ledger.Tally) int {
		if by == ledger.ByDay {
			return strings.Compare(b.Key, a.Key)
		}
		return cmp.Or(cmp.Compare(order(units[0].of(&b)), order(units[0].of(&a))),
			cmp.Compare(order(units[1].of(&b)), order(units[1].of(&a))), strings.Compare(a.Key, b.Key))
	})
	most := 0.0
	for i := range rows {
		sum, _ := units[0].of(&rows[i])
		most = max(most, sum)
	}
	for i := range rows[:min(len(rows), mostSpending)] {
		sec.Rows = append(sec.Rows, render("spending", "key-"+rows[i].Key, groupOf(by, &rows[i], most)))
	}
	if len(rows) > 0 {
		all := groupOf("", &d.Total, 0)
		all.Name.Text = "Total"
		if len(rows) > mostSpending {
			all.Name.Text = fmt.Sprintf("Total of %d", len(rows))
		}
		sec.Rows = append(sec.Rows, render("spending", "total", all))
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

// group is a row of the spending table.
type group struct {
	*ledger.Tally
	Name               link
	Cost, Read, CostOf string
	Share              float64 // of the most expensive group's cost, in percent; 0 for the total
}

// Wasted returns the cost of the group's failures.
func (g *group) Wasted() string { return wasted(&g.Failed) }

func wasted(f *ledger.Waste) string {
	if f.Sessions == 0 {
		return unknown
	}
	return usdKnown(f.USD, f.Unpriced)
}

// groupOf returns a row. most is the cost of the most expensive group.
func groupOf(by ledger.By, t *ledger.Tally, most float64) *group {
	g := &group{
		Tally: t, Name: link{Text: t.Key}, Cost: usdKnown(t.USD, t.Unpriced), Read: tokensKnown(t.Tokens, t.Untold),
		CostOf: unknown,
	}
	if ref, err := forge.ParseRef(t.Key, ""); by == ledger.ByIssue && err == nil {
		g.Name = refOf(ref.Repo, ref.Number)
	}
	switch {
	case t.Key != "":
	case by == ledger.ByIssue, by == ledger.ByLabel:
		g.Name.Text = "none"
	default:
		g.Name.Text = "unknown"
	}
	if sum, known := units[0].of(t); known && most > 0 {
		g.Share = 100 * sum / most
	}
	if t.PerMerge != nil {
		g.CostOf = usdKnown(t.PerMerge.USD, t.Unpriced)
	}
	return g
}
