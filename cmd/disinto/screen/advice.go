package screen

import (
	"fmt"
	"math"
	"strings"
	"time"

	"codeberg.org/johba/disinto/threads/advice"
)

// Broken shows what would hurt a factory most, and what would have helped. work says what was played.
func (v View) Broken(work string, b *advice.Breakdown) string {
	p := v.page()
	p.played(work, b.Plays)
	rows := [][]cell{row(faint, "not done", "waits", "open", "goes wrong")}
	for i := range b.Harms {
		o := &b.Harms[i].Outcome
		rows = append(rows, row(plain, differs(o.Undone, issues), waits(o), open(o), b.Harms[i].What))
	}
	p.ends("nothing goes wrong", &b.Plain)
	p.end()
	p.table(-1, rows)
	p.end()
	if b.Worst == nil {
		p.line("Nothing that was tried hurts this factory in a way that can be told from chance.", good)
	} else {
		p.line("hurts most: "+b.Worst.What, bold)
		p.ends("then", &b.Week)
		p.helps(b.Helps, "would have helped", "Nothing that was tried would have helped.")
	}
	p.end()
	p.legend()
	return p.text.String()
}

// Advice shows what one more slot, agent or dollar would have been worth. work says what was played.
func (v View) Advice(work string, a *advice.Advice) string {
	p := v.page()
	p.played(work, a.Plays)
	p.ends("as it is", &a.Now)
	p.helps(a.More, "more", "More of nothing that was tried would have helped.")
	p.helps(a.Less, "less", "Less of nothing that was tried would have hurt.")
	p.end()
	p.legend()
	return p.text.String()
}

// played says what was played, and how often.
func (p *page) played(work string, plays int) {
	p.line(work, plain)
	p.line(fmt.Sprintf("played up to %d times, fewer where the answer was clear: once as it was, then with other luck",
		plays), faint)
	p.end()
}

// ends says what became of the work.
func (p *page) ends(what string, o *advice.Outcome) {
	p.line(fmt.Sprintf("%s: %.1f of %.1f issues are done; one waits %s and is open for %s",
		what, o.Done.Mean, o.Issues.Mean, clock(o.Waits.Mean), clock(o.Open.Mean)), plain)
}

// helps lists changes whose difference can be told from chance, and names the others.
func (p *page) helps(lines []advice.Line, head, none string) {
	rows := [][]cell{row(faint, "done", "waits", "open", "costs", head)}
	var same []string
	for i := range lines {
		o := &lines[i].Outcome
		if !o.Done.Sure() && !o.Open.Sure() && !o.Waits.Sure() {
			same = append(same, lines[i].What)
			continue
		}
		rows = append(rows, row(plain, differs(o.Done, issues), waits(o), open(o), costs(o), worth(&lines[i])))
	}
	p.end()
	if len(rows) > 1 {
		p.table(-1, rows)
	} else {
		p.line(none, plain)
	}
	if len(same) > 0 {
		p.line("no difference that can be told from chance: "+strings.Join(same, "; "), faint)
	}
}

// legend says what the columns are.
func (p *page) legend() {
	p.table(-1, [][]cell{
		row(faint, "done", "issues done by the end, on average; not done, those that were not"),
		row(faint, "waits", "from filing to the first session, on average"),
		row(faint, "open", "from filing to done, on average; to the end, where an issue is not done by then"),
		row(faint, "costs", "dollars that the sessions cost, where that is known"),
		row(faint, "±", "as sure as 99 of 100; - is no difference that can be told from chance"),
	})
}

// differs is a difference and how sure it is.
func differs(f advice.Figure, text func(float64) string) string {
	if !f.Sure() {
		return "-"
	}
	sign := "+"
	if f.Mean < 0 {
		sign = "-"
	}
	return fmt.Sprintf("%s%s ±%s", sign, text(math.Abs(f.Mean)), text((f.High-f.Low)/2))
}

// worth names a change and, where it is a higher budget, says how many issues a dollar brings.
func worth(l *advice.Line) string {
	if l.Kind != advice.Dollar || l.USD.Low <= 0 || l.Done.Low <= 0 {
		return l.What
	}
	return fmt.Sprintf("%s: %.2f issues a dollar", l.What, l.Done.Mean/l.USD.Mean)
}

// costs tells how much more the sessions cost.
func costs(o *advice.Outcome) string {
	if !o.USD.Sure() {
		return "-"
	}
	return fmt.Sprintf("%+.2f", o.USD.Mean)
}

func waits(o *advice.Outcome) string { return differs(o.Waits, clock) }
func open(o *advice.Outcome) string  { return differs(o.Open, clock) }

func issues(n float64) string { return fmt.Sprintf("%.1f", n) }
func clock(s float64) string  { return Brief(time.Duration(s * float64(time.Second))) }
