package session

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // limits name zones, which slim images do not have
)

// The ways in which CLIs and backends say when a usage limit ends.
var (
	resetEpoch   = regexp.MustCompile(`(?i)(?:resets?_?at|reset_time|limit reached\|)\D{0,4}(\d{10})`)
	resetSeconds = regexp.MustCompile(`(?i)(?:retry[-_ ]after|resets?_in_seconds)\W{0,4}(\d+)`)
	resetStamp   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`)
	resetIn      = regexp.MustCompile(`(?i)(?:again|retry|resets?|wait) in ((?:[\d.]+ ?[a-z]+(?:,? and |,? )?)+)`)
	resetPart    = regexp.MustCompile(`(?i)([\d.]+) ?(ms|s|m|h|d|w)`)
	resetClock   = regexp.MustCompile(`(?i)(?:resets?|again|until)(?: at| on)? ` +
		`(?:([a-z]{3})[a-z]* (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?(?:,| at)? ?)?` +
		`(?:(\d{1,2})(?::(\d\d))?(?::\d\d)? ?([ap]m)?)?(?: ?\(([\w/+-]+)\))?`)
)

// resetUnits are the lengths of the units of resetPart.
var resetUnits = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	"w": 7 * 24 * time.Hour,
}

// resetPast is how long ago a time of day may be without meaning tomorrow's.
const resetPast = 10 * time.Minute

// resetTime returns when a usage limit ends, in its own words: "resets 1pm (Europe/Lisbon)", "try again at 12:36 PM",
// "try again in 2 days 3 hours", "retry-after: 7200", or a time in seconds since 1970. A time without a zone is in that
// of now. It returns zero if the words do not say.
func resetTime(words string, now time.Time) time.Time {
	words = strings.NewReplacer("a.m.", "am", "p.m.", "pm").Replace(strings.Join(strings.Fields(words), " "))
	if m := resetEpoch.FindStringSubmatch(words); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		return time.Unix(n, 0).UTC()
	}
	if at, err := time.Parse(time.RFC3339, resetStamp.FindString(words)); err == nil {
		return at
	}
	if m := resetSeconds.FindStringSubmatch(words); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 32)
		return now.Add(time.Duration(n) * time.Second)
	}
	if m := resetIn.FindStringSubmatch(words); m != nil {
		var d time.Duration
		for _, part := range resetPart.FindAllStringSubmatch(m[1], -1) {
			n, _ := strconv.ParseFloat(part[1], 64)
			d += time.Duration(min(n, 1e4) * float64(resetUnits[strings.ToLower(part[2])]))
		}
		if d > 0 {
			return now.Add(d)
		}
	}
	for _, m := range resetClock.FindAllStringSubmatch(words, -1) {
		if at := clockTime(m, now); !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

// clockTime returns the time that a match of resetClock names: the next one, if it names no year.
func clockTime(m []string, now time.Time) time.Time {
	month, day, year, hour, minute, half, zone := m[1], m[2], m[3], m[4], m[5], strings.ToLower(m[6]), m[7]
	if month == "" && half == "" && minute == "" { // a bare number says nothing
		return time.Time{}
	}
	place := now.Location()
	if zone != "" {
		var err error
		if place, err = time.LoadLocation(zone); err != nil {
			return time.Time{}
		}
	}
	number := func(text string, otherwise int) int {
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
		return otherwise
	}
	here := now.In(place)
	h := number(hour, 0)
	if half != "" {
		h %= 12
		if half == "pm" {
			h += 12
		}
	}
	of, d := here.Month(), number(day, here.Day())
	if month != "" {
		named, err := time.Parse("Jan", strings.ToUpper(month[:1])+strings.ToLower(month[1:]))
		if err != nil {
			return time.Time{}
		}
		of = named.Month()
	}
	at := time.Date(number(year, here.Year()), of, d, h, number(minute, 0), 0, 0, place)
	switch past := at.Before(now.Add(-resetPast)); {
	case past && month == "":
		at = time.Date(here.Year(), of, d+1, h, number(minute, 0), 0, 0, place)
	case past && year == "":
		at = at.AddDate(1, 0, 0)
	}
	return at
}
