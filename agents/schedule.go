package agents

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Calendar says at which times scheduled work falls due, as the line of a crontab does.
type Calendar struct {
	jitter time.Duration
	times  cron.Schedule
}

// ErrZone is the error of NewCalendar for a time zone that is unknown here.
var ErrZone = errors.New("unknown time zone")

// NewCalendar reads the five fields of a crontab's line, or a word such as @daily. zone is a name such as
// Europe/Berlin; empty means the supervisor's own. Each run is begun up to jitter later, always the same for one
// repository and role, so that ten repositories do not start at once.
func NewCalendar(line, zone string, jitter time.Duration) (*Calendar, error) {
	if strings.Contains(line, "TZ=") {
		return nil, errors.New("has a time zone, for the key timezone")
	}
	if strings.HasPrefix(line, "@every") {
		return nil, errors.New("is an interval, for the key every")
	}
	if _, err := cron.ParseStandard(line); err != nil {
		return nil, fmt.Errorf("cannot be read (%w)", err)
	}
	times, err := cron.ParseStandard("CRON_TZ=" + cmp.Or(zone, "Local") + " " + line)
	if err != nil {
		return nil, ErrZone
	}
	c := &Calendar{jitter, times}
	if c.next(time.Unix(0, 0), "").IsZero() {
		return nil, errors.New("never falls due")
	}
	return c, nil
}

// next returns the first time after t at which the work called key falls due; zero if there is none within five years.
func (c *Calendar) next(t time.Time, key string) time.Time {
	delay := c.delay(key)
	next := c.times.Next(t.Add(-delay))
	if next.IsZero() {
		return next
	}
	return next.Add(delay)
}

// delay returns the part of the jitter that one piece of work always has.
func (c *Calendar) delay(key string) time.Duration {
	if c.jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(key))
	return time.Duration(h.Sum64() % uint64(c.jitter)).Truncate(time.Second)
}

// Due returns when the role's scheduled work on a repository falls due; zero means at once. last is when its last run
// ended, zero without one. Work by the calendar that has never run waits for its first time after began; work by an
// interval does not wait.
func (r *Role) Due(last, began time.Time, repo string) time.Time {
	switch {
	case r.Calendar != nil && last.IsZero():
		return r.Calendar.next(began, repo+" "+r.Name)
	case r.Calendar != nil:
		return r.Calendar.next(last, repo+" "+r.Name)
	case last.IsZero():
		return time.Time{}
	}
	return last.Add(r.Every)
}

// mostMissed bounds the count of Missed: a role of every minute may have been away for a year.
const mostMissed = 100

// Missed returns how many times of the calendar after due have passed by now, at most 100: one run serves them all. An
// interval misses none.
func (r *Role) Missed(due, now time.Time, repo string) (n int) {
	if r.Calendar == nil {
		return 0
	}
	for at := due; n < mostMissed; n++ {
		if at = r.Calendar.next(at, repo+" "+r.Name); at.IsZero() || at.After(now) {
			break
		}
	}
	return n
}

// Interval returns the usual time from one run to the next.
func (r *Role) Interval() time.Duration {
	if r.Calendar == nil {
		return r.Every
	}
	first := r.Calendar.next(time.Unix(0, 0), "")
	return r.Calendar.next(first, "").Sub(first)
}
