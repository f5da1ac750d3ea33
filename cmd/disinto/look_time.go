package main

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// longestTime limits the part of an unreadable time that an error quotes, in bytes.
const longestTime = 40

// parseTime parses a past time in one of the forms that people write, in the time zone of now.
func parseTime(said string, now time.Time) (time.Time, error) {
	if ago, isAgo := strings.CutPrefix(said, "-"); isAgo {
		span, err := control.Span(ago)
		if err != nil {
			return time.Time{}, timeError(said)
		}
		return now.Add(-span), nil
	}
	at, ok := parseDated(said, now)
	switch {
	case !ok:
		return time.Time{}, timeError(said)
	case at.After(now):
		return time.Time{}, fmt.Errorf("%s is in the future", said)
	}
	return at, nil
}

func timeError(said string) error {
	if len(said) > longestTime {
		said = said[:longestTime] + "..."
	}
	return fmt.Errorf("cannot read %q as a time: write it as 15:04, \"yesterday 15:04\", \"2026-01-31 15:04\", "+
		"2026-01-31T15:04:05Z or -2h", said)
}

// parseDated parses a time with a date, or a time of today or yesterday.
func parseDated(said string, now time.Time) (at time.Time, ok bool) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if at, err := time.ParseInLocation(form, said, now.Location()); err == nil {
			return at, true
		}
	}
	clock, back := strings.TrimPrefix(said, "today "), 0
	if rest, yesterday := strings.CutPrefix(said, "yesterday "); yesterday {
		clock, back = rest, 1
	}
	for _, form := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(form, clock); err == nil {
			day := now.AddDate(0, 0, -back)
			return time.Date(day.Year(), day.Month(), day.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()), true
		}
	}
	return at, false
}
