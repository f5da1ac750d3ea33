package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"

	"codeberg.org/johba/disinto/supervisor/control"
)

// worthDays is the number of days that are simulated if the query has none.
const worthDays = 30

// worths shows what one more slot, agent or dollar would have been worth. It simulates nothing until a person submits
// the form.
func (s *Site) worths(ctx context.Context, query url.Values) ([]section, error) {
	said := strconv.Itoa(worthDays)
	if query.Has("worth") {
		said = query.Get("worth")
	}
	form := section{
		ID: "worth", Title: "One more, one less",
		Note: "what a slot, an agent or a dollar would have been worth; takes up to a minute",
	}
	form.Rows = append(form.Rows, render("worths", "form", said))
	if !query.Has("worth") {
		return []section{form}, nil
	}
	days, err := strconv.Atoi(said)
	if err != nil {
		err = control.Invalid("cannot read %q as a number of days", said)
	}
	var d control.Advice
	if err == nil {
		err = s.API.Post(ctx, "/v1/advise", control.AdviceRequest{Days: days}, &d)
	}
	if no := (*control.Refusal)(nil); errors.As(err, &no) {
		refused := section{ID: "unknown", Title: "Not played", Urgent: true}
		refused.Rows = append(refused.Rows, render("refused", "why", no.Words))
		return []section{form, refused}, nil
	} else if err != nil {
		return nil, err
	}
	return []section{form, counsel(&d), worthOf("more", "More", d.More, &d), worthOf("less", "Less", d.Less, &d)}, nil
}

// counsel says in a sentence which addition would have been worth most.
func counsel(d *control.Advice) section {
	sec := section{ID: "counsel", Title: "In short"}
	add := func(format string, args ...any) {
		sec.Rows = append(sec.Rows, render("says", strconv.Itoa(len(sec.Rows)), fmt.Sprintf(format, args...)))
	}
	days := control.Count(d.Days, "day")
	switch best := first(d.More); {
	case best == nil:
		add("No addition would have made a difference that can be told from chance.")
	case best.Done.Low > 0:
		add("Worth most is %s: %.1f more issues done in %s (%.1f to %.1f).", best.What, best.Done.Mean, days,
			best.Done.Low, best.Done.High)
	case best.Open.High < 0:
		add("No more issues would have been done. With %s an issue would have been open for %s less.", best.What,
			spell(-best.Open.Mean))
	default:
		add("No addition would have completed more issues, or any issue sooner.")
	}
	for i := range d.Less {
		if l := &d.Less[i]; !l.Done.Sure() && !l.Open.Sure() {
			add("No difference that can be told from chance: %s.", l.What)
		}
	}
	return sec
}

// first returns the first line if it makes a difference that can be told from chance, else nil.
func first(lines []control.AdvisedLine) *control.AdvisedLine {
	if len(lines) == 0 || !lines[0].Done.Sure() && !lines[0].Open.Sure() {
		return nil
	}
	return &lines[0]
}

// The measures of the picture of a line, in pixels.
const (
	rangeWidth  = 240
	rangeMargin = 4
)

// ranged is the picture of a difference: a bar from zero to the mean, and a line over the range of the true value.
type ranged struct {
	Zero, Low, High, Bar, Width float64
	Words, Class                string
}

// worthOf shows the effects of changes in a table. Its picture shows the difference in issues done or, if no change
// has one, in the time that issues stay open.
func worthOf(id, title string, lines []control.AdvisedLine, d *control.Advice) section {
	sec := section{
		ID: id, Title: title, Note: fmt.Sprintf("beside %.1f of %.1f issues done; played up to %d times", d.Now.Done.Mean,
			d.Now.Issues.Mean, d.Plays),
		Head:  []string{"What", "Issues done", "Open", "Waits", "Cost", "Range"},
		Empty: "Nothing to try.",
	}
	of, better := func(l *control.AdvisedLine) control.AdviceFigure { return l.Done }, 1.
	if !slices.ContainsFunc(lines, func(l control.AdvisedLine) bool { return l.Done.Sure() }) {
		of, better = func(l *control.AdvisedLine) control.AdviceFigure { return l.Open }, -1
	}
	var low, high float64
	for i := range lines {
		low, high = min(low, of(&lines[i]).Low), max(high, of(&lines[i]).High)
	}
	for i := range lines {
		l := &lines[i]
		data := map[string]any{
			"What": l.What, "Done": signed(l.Done, func(v float64) string { return fmt.Sprintf("%.1f", v) }),
			"Open": signed(l.Open, spell), "Waits": signed(l.Waits, spell),
			"Cost":  signed(l.USD, func(v float64) string { return fmt.Sprintf("$%.2f", v) }),
			"Range": picture(of(l), low, high, better),
		}
		sec.Rows = append(sec.Rows, render("worth", id+"-"+strconv.Itoa(i), data))
	}
	return sec
}

// picture places a figure on a scale from low to high that contains zero.
func picture(f control.AdviceFigure, low, high, better float64) ranged {
	scale := (rangeWidth - 2*rangeMargin) / max(high-low, math.SmallestNonzeroFloat32)
	at := func(v float64) float64 { return rangeMargin + (v-low)*scale }
	r := ranged{Zero: at(0), Low: at(f.Low), High: at(f.High), Words: "no difference that can be told from chance"}
	if f.Sure() {
		r.Bar, r.Width = at(min(0, f.Mean)), math.Abs(f.Mean)*scale
		if r.Words, r.Class = "better", "yes"; f.Mean*better < 0 {
			r.Words, r.Class = "worse", "no"
		}
	}
	return r
}

// signed writes a difference with its possible error, or "-" if it would be written as zero.
func signed(f control.AdviceFigure, text func(float64) string) string {
	if !f.Sure() || text(math.Abs(f.Mean)) == text(0) {
		return "-"
	}
	sign := "+"
	if f.Mean < 0 {
		sign = "-"
	}
	return sign + text(math.Abs(f.Mean)) + " ±" + text((f.High-f.Low)/2)
}
