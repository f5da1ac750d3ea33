package screen

import (
	"fmt"

	"codeberg.org/johba/disinto/supervisor/control"
)

// spent shows today's usage: a line for each thread with usage or a budget, and below it one for each of its windows
// and each of its agents with usage or a budget.
func (v View) spent(p *page, d *control.Document) {
	rows := [][]cell{row(faint, "SPENT TODAY", "TOKENS", "COST", "CACHE HITS")}
	for _, t := range d.Threads {
		var under [][]cell
		for i := range t.Windows {
			line := spentLine("  its "+t.Windows[i].Length+" window", *t.Windows[i].Spent())
			under = append(under, line[:len(line)-1])
		}
		for _, a := range d.Agents {
			if a.Thread == t.Name && a.Spent != (control.SpentDocument{}) {
				under = append(under, spentLine("  "+a.Name, a.Spent))
			}
		}
		if t.Spent != (control.SpentDocument{}) || len(under) > 0 {
			rows = append(append(rows, spentLine(t.Name, t.Spent)), under...)
		}
	}
	for _, r := range d.Repos {
		if r.Spent.TokensPerDay > 0 || r.Spent.USDPerDay > 0 {
			rows = append(rows, spentLine(r.Name, r.Spent))
		}
	}
	p.headed(-1, rows)
}

func spentLine(name string, s control.SpentDocument) []cell {
	line := row(plain, name, control.Tokens(s.Tokens), "", control.Hit(s.CacheHit))
	if s.USD > 0 {
		line[2].text = fmt.Sprintf("$%.2f", s.USD)
	} else if s.USDPerDay > 0 { // nothing of a known price
		line[2].text = "-"
	}
	if s.TokensPerDay > 0 {
		line[1].text += " of " + control.Tokens(s.TokensPerDay)
		line[1].style = budgetStyle(s.Tokens >= s.TokensPerDay)
	}
	if s.USDPerDay > 0 {
		line[2].text += fmt.Sprintf(" of $%.2f", s.USDPerDay)
		line[2].style = budgetStyle(s.USD >= s.USDPerDay)
	}
	return line
}

func budgetStyle(usedUp bool) style {
	if usedUp {
		return held
	}
	return plain
}
