package ledger

import (
	"reflect"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// otherClocks are the fields with a time of the forge's clock or of the init's, which were right.
var otherClocks = []string{"Ready", "Seen", "Life"}

// TurnBack corrects times that a clock recorded while it was ahead: a board without a battery, a host that slept, a
// wrong time zone. The newest record cannot be later than now, so every time in the state moves back by the
// difference. Otherwise a run in the year 2030 would be the last one of its role, and a rest of two minutes would
// take years. A clock that was behind does no harm: it looks like a supervisor that was down.
func (s *State) TurnBack(newest, now time.Time) {
	off := newest.Sub(now)
	if off <= 0 {
		return
	}
	days := threads.Day(newest).Sub(threads.Day(now)) // the day of the newest record is today
	for _, part := range []any{
		&s.Chains, &s.Items, &s.Open, &s.Services, &s.Heard, &s.Agents, &s.Opened, &s.Slots, &s.Authors, &s.Repos, &s.Failing,
		&s.Threads,
	} {
		walk(part, func(field string, v reflect.Value) {
			at, is := v.Interface().(time.Time)
			switch {
			case !is || at.IsZero() || slices.Contains(otherClocks, field):
			case field == "Day":
				v.Set(reflect.ValueOf(at.Add(-days)))
			default:
				v.Set(reflect.ValueOf(at.Add(-off)))
			}
		})
	}
}
