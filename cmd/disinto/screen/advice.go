package screen

import (
	"fmt"
	"math"
	"strings"
	"time"

	"codeberg.org/johba/disinto/threads/advice"
)

// Broken shows the events that hurt a factory most, and the best remedies. work describes the simulated work.
func (v View) Broken(work string, b *advice.Breakdown) string {
	p := v.page()
	p.played(work, b.Plays)
	rows := [][]cell{row(faint, "not done", "waits", "open", "goes wrong")}
	for i := range b.Harms {
		o := &b.Harms[i].Outcome
		rows = append(rows, row(plain, differs(o.Undone, issues), waits(o), open(o), b.Harms[i].What))
	}
	p.ends("if nothing goes wrong", &b.Plain)
	p.end()
	p.table(-1, rows)
	p.end()
	if b.Worst == nil {
		p.line("No event that was tried hurts this factory significantly.", good)
	} else {
		p.line("hurts most: "+b.Worst.What, bold)
		p.ends("then", &b.Week)
		p.helps(b.Helps, "would have helped", "No remedy that was tried would have helped significantly.")
	}
	p.end()
	p.legend()
	return p.text.String()
}

// Advice shows the value of one more slot, agent or dollar. work describes the simulated work.
func (v View) Advice(work string, a *advice.Advice) string {
	p := v.page()
	p.played(work, a.Plays)
	p.ends("as it is", &a.Now)
	p.helps(a.More, "more", "No addition that was tried would have helped significantly.")
	p.helps(a.Less, "less", "No removal that was tried would have hurt significantly.")
	p.end()
	p.legend()
	return p.text.String()
}

// played describes the simulated work and the number of trials.
func (p *page) played(work string, plays int) {
	p.line(work, plain)
	p.line(fmt.Sprintf("simulated up to %d times, fewer if the result was clear: once as it was, then with other random "+
		"numbers", plays), faint)
	p.end()
}

// ends shows the outcome of the work.
func (p *page) ends(what string, o *advice.Outcome) {
	p.line(fmt.Sprintf("%s: %.1f of %.1f issues are done; an issue waits %s and is open for %s on average",
		what, o.Done.Mean, o.Issues.Mean, clock(o.Waits.Mean), clock(o.Open.Mean)), plain)
}

// helps lists the changes with a significant difference, and names the others.
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
		p.line("no significant difference: "+strings.Join(same, "; "), faint)
	}
}

// legend explains the columns.
func (p *page) legend() {
	p.table(-1, [][]cell{
		row(faint, "done", "issues done by the end, on average; not done: the other issues"),
		row(faint, "waits", "from filing to the first session, on average"),
		row(faint, "open", "from filing to done, on average; to the end for an issue that is not done"),
		row(faint, "costs", "the known cost of the sessions, in dollars"),
		row(faint, "±", "99 % confidence interval; - is no significant difference"),
	})
}

// differs returns a difference and its confidence interval.
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

// worth names a change and, for a higher budget, the number of issues per dollar.
func worth(l *advice.Line) string {
	if l.Kind != advice.Dollar || l.USD.Low <= 0 || l.Done.Low <= 0 {
		return l.What
	}
	return fmt.Sprintf("%s: %.2f issues per dollar", l.What, l.Done.Mean/l.USD.Mean)
}

// costs returns the additional cost of the sessions.
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
