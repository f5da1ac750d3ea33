package main

import (
	"fmt"

	"codeberg.org/johba/disinto/supervisor/control"
)

// spent shows what was used today, of what: a line for each thread that used something or has a budget, and under it one for
// each such agent.
func (v view) spent(p *page, d *control.Document) {
	rows := [][]cell{heads("SPENT TODAY", "TOKENS", "COST")}
	for _, t := range d.Threads {
		line := spentLine(t.Name, t.Spent)
		var under [][]cell
		for _, a := range d.Agents {
			if a.Thread == t.Name && a.Spent != (control.SpentDocument{}) {
				under = append(under, spentLine("  "+a.Name, a.Spent))
			}
		}
		if t.Spent != (control.SpentDocument{}) || len(under) > 0 {
			rows = append(append(rows, line), under...)
		}
	}
	if len(rows) > 1 {
		p.end()
		p.table(-1, rows)
	}
}

func spentLine(name string, s control.SpentDocument) []cell {
	tokens, cost := cell{amount(s.Tokens), plain}, cell{}
	if s.USD > 0 || s.USDPerDay > 0 { // a local model costs nothing
		cost.text = fmt.Sprintf("$%.2f", s.USD)
	}
	if s.TokensPerDay > 0 {
		tokens = cell{tokens.text + " of " + amount(s.TokensPerDay), used(s.Tokens >= s.TokensPerDay)}
	}
	if s.USDPerDay > 0 {
		cost = cell{fmt.Sprintf("%s of $%.2f", cost.text, s.USDPerDay), used(s.USD >= s.USDPerDay)}
	}
	return []cell{{name, plain}, tokens, cost}
}

// used is how a budget looks.
func used(up bool) style {
	if up {
		return held
	}
	return plain
}

// amount is a number of tokens as people say it.
func amount(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%d.%dM", n/1_000_000, n/100_000%10)
}
