package screen

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Until shows why an item waits, and when it is likely to start and to be merged.
func (v View) Until(f *control.Forecast) string {
	p := v.page()
	why := cmp.Or(f.Why, &threads.Explanation{})
	v.repo = repoIn(why)
	v.verdict(p, why)
	e := f.Find(why.Repo, why.Number)
	if e == nil {
		return p.text.String()
	}
	p.end()
	if e.Start.Low.IsZero() && e.Merged.Low.IsZero() && needsPerson(why.Code) {
		p.line("no forecast: it waits for a person", held)
		return p.text.String()
	}
	far := control.About(f.Until.Sub(f.At))
	p.table(-1, [][]cell{v.band("starts", e.Start, far), v.band("merged", e.Merged, far)})
	p.line(fmt.Sprintf("80 %% of %s are within these times; %s", control.Count(f.Runs, "run"),
		timesOf(f.Sessions)), faint)
	return p.text.String()
}

// needsPerson reports whether an item with this reason waits for a person. A convoy waits for its members, and a
// claimed issue for the agent of another host.
func needsPerson(code threads.Code) bool {
	if code == threads.Tracking || code.Class() == threads.Begun {
		return false
	}
	return code.Ends() >= threads.ByPerson || code.Class() == threads.Failed
}

// timesOf names the source of a forecast's durations.
func timesOf(sessions int) string {
	if sessions == 0 {
		return "default durations: the journal has no session yet"
	}
	return "durations from " + control.Count(sessions, "session")
}

// band returns a row with the times of an event, relative and absolute.
func (v View) band(label string, b control.Band, far string) []cell {
	switch {
	case b.Low.IsZero():
		return labelled(label, "not within "+far, held)
	case b.High.IsZero():
		text := fmt.Sprintf("%s (from %s); in some runs not within %s", b.Words(v.Now), v.clock(b.Low), far)
		return labelled(label, text, held)
	case !b.High.After(v.Now):
		return labelled(label, v.ago(b.Low)+" ago", good)
	}
	return labelled(label, fmt.Sprintf("%s (%s to %s), in half of the runs by %s",
		b.Words(v.Now), v.clock(b.Low), v.clock(b.High), v.clock(b.Middle)), plain)
}

// clock returns the time of day, with the date if that is not today.
func (v View) clock(t time.Time) string {
	t = t.In(v.Now.Location())
	if t.Format(time.DateOnly) == v.Now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("Mon 2 Jan 15:04")
}

// starts adds a column to the queue with the expected start of each item.
func (v View) starts(rows [][]cell, shown []control.QueueDocument, f *control.Forecast) {
	add := func(i int, is cell) { rows[i] = slices.Insert(rows[i], 2, is) }
	add(0, cell{"STARTS", faint})
	for i, q := range shown {
		add(i+1, cell{f.StartOf(&q).Words(v.Now), plain})
	}
}
