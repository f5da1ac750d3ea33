package file

import (
	"errors"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// times reads when a role's scheduled work falls due: by every, which has been read already, or by cron.
func (t *table) times(r *agents.Role) {
	line, zone, jitter := t.text("cron"), t.text("timezone"), t.duration("jitter", 0, 0)
	set := map[string]bool{"every": t.has("every"), "cron": line != "", "timezone": zone != "", "jitter": jitter > 0}
	keys := []string{"every", "cron", "timezone", "jitter"}
	switch {
	case r.On == "": // oneOf reported it
	case !r.On.Timed():
		for _, key := range keys {
			if set[key] {
				t.wrong(key, `is set, but on is %q: only a role with on = "schedule" has it`, r.On)
			}
		}
	case line == "":
		if !set["every"] && r.Every == 0 {
			t.wrong("every", `is not set, but on is "schedule": want a duration such as "6h", or cron`)
		}
		for _, key := range keys[2:] {
			if set[key] {
				t.wrong(key, "is set, and cron is not: it belongs to cron's times")
			}
		}
	case set["every"]:
		t.wrong("cron", "is set, and every is too: want one of them")
	default:
		t.calendar(r, line, zone, jitter)
	}
}

// calendar sets the times of a role's scheduled work.
func (t *table) calendar(r *agents.Role, line, zone string, jitter time.Duration) {
	var err error
	r.Every = 0
	switch r.Calendar, err = agents.NewCalendar(line, zone, jitter); {
	case errors.Is(err, agents.ErrZone):
		t.wrong("timezone", `is %q, want a time zone such as "Europe/Berlin"`, zone)
	case err != nil:
		t.wrong("cron", `is %q, which %v: want five fields such as "0 3 * * 1-5", or a word such as "@daily"`, line, err)
	}
}
