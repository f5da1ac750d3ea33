// Package eta writes the comment on an issue about when it will be started and merged, and decides when the comment
// differs so much from the newest forecast that it must be changed.
package eta

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// Band is the time in which something happens in eight of ten runs of a forecast: one run in ten is earlier, and one is
// later. High is zero if it never happens in more than one run in ten; Low is zero, too, if it happens in less than one
// run in ten.
type Band struct {
	Low  time.Time `json:"low,omitzero"`
	High time.Time `json:"high,omitzero"`
}

// Note has the facts of a comment.
type Note struct {
	Began  time.Time    `json:"began,omitzero"` // start of the first session
	Start  Band         `json:"start,omitzero"` // forecast of that start, until the session starts
	Merged Band         `json:"merged,omitzero"`
	Ended  time.Time    `json:"ended,omitzero"`
	How    string       `json:"how,omitempty"`  // how it ended, such as "merged"
	Code   threads.Code `json:"code,omitempty"` // of the reason why it waits
}

const (
	// leastStand is the least time for which a comment stays while the state does not change.
	leastStand = 10 * time.Minute
	// leastMove is the least change of a time that is worth a change of the comment.
	leastMove = 5 * time.Minute
	// round is the precision of the times in a comment: a forecast is not exact to the minute.
	round = 5 * time.Minute
)

// Expected reports whether the start of an open issue, or the merge of one that was started, is in sight.
func (n *Note) Expected() bool {
	if n.Began.IsZero() {
		return n.Start != Band{}
	}
	return n.Merged != Band{}
}

// Outdated reports whether the comment on an open issue must change. n is the note that it has since said, and now is
// the note at a later time. A new state changes the comment at once. After leastStand, so does an end of a band that
// has moved by more than a quarter of the band's width.
func (n *Note) Outdated(now *Note, said, at time.Time) bool {
	switch {
	case n.Began.IsZero() != now.Began.IsZero(), n.Expected() != now.Expected():
		return true
	case at.Sub(said) < leastStand:
		return false
	case !now.Expected():
		return n.Code != now.Code
	}
	return now.Began.IsZero() && n.Start.left(now.Start, said) || n.Merged.left(now.Merged, said)
}

// left reports whether another band is too far from this one, which was written at said.
func (b Band) left(to Band, said time.Time) bool {
	if b.Low.IsZero() != to.Low.IsZero() || b.High.IsZero() != to.High.IsZero() {
		return true
	}
	width := b.High.Sub(b.Low)
	if b.High.IsZero() {
		width = b.Low.Sub(said)
	}
	most := max(width/4, leastMove)
	return to.Low.Sub(b.Low).Abs() > most || to.High.Sub(b.High).Abs() > most
}

// Text returns the comment, as it is written at a time.
func (n *Note) Text(at time.Time) string {
	return n.says(at) + "\n\nLast updated " + clock(at) + " UTC."
}

func (n *Note) says(at time.Time) string {
	began := "disinto started this at " + clock(n.Began) + " UTC"
	switch {
	case !n.Ended.IsZero() && n.Began.IsZero():
		return fmt.Sprintf("This was %s at %s UTC.", n.How, clock(n.Ended))
	case !n.Ended.IsZero():
		return fmt.Sprintf("%s. It was %s at %s UTC.", began, n.How, clock(n.Ended))
	case !n.Expected() && n.Code != "":
		words := "disinto cannot tell when it will start this"
		if !n.Began.IsZero() {
			words = began + ", and cannot tell when this will be merged"
		}
		return fmt.Sprintf("%s: it waits (`%s`).", words, n.Code)
	case !n.Expected():
		return began + ", and cannot tell when this will be merged."
	case !n.Began.IsZero():
		return began + ", and expects to merge it " + n.Merged.words(at) + ", as 8 of 10 simulated runs do."
	case n.Merged == Band{}:
		return "disinto expects to start this " + n.Start.words(at) + ", as 8 of 10 simulated runs do."
	}
	return "disinto expects to start this " + n.Start.words(at) + ", and to merge it " + n.Merged.words(at) +
		", as 8 of 10 simulated runs do."
}

// words formats a band at a time; no part of it is earlier than that. It rounds the ends away from each other.
func (b Band) words(at time.Time) string {
	low, high := b.Low.Truncate(round), b.High.Truncate(round)
	if low.Before(at) {
		low = at
	}
	if high.Before(b.High) {
		high = high.Add(round)
	}
	switch {
	case b.High.IsZero():
		return "after " + clock(low) + " UTC"
	case low.UTC().Truncate(24 * time.Hour).Equal(high.UTC().Truncate(24 * time.Hour)):
		return "between " + clock(low) + " and " + high.UTC().Format("15:04") + " UTC"
	}
	return "between " + clock(low) + " and " + clock(high) + " UTC"
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
