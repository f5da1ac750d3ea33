package agents

import "slices"

// On is the trigger of a role: where its work comes from.
type On string

// The triggers.
const (
	OnIssue    On = "issue"
	OnReview   On = "review"
	OnSchedule On = "schedule"
)

// trigger is a row of triggers.
type trigger struct {
	on     On
	kinds  []Kind
	items  bool
	writes bool
	timed  bool
}

// triggers has every difference between the triggers. The rows name no columns: a trigger without one of the answers
// does not compile.
var triggers = []trigger{
	{OnIssue, []Kind{KindIssue, KindRework}, true, true, false},
	{OnReview, []Kind{KindReview}, true, false, false},
	{OnSchedule, []Kind{KindSchedule}, false, false, true},
}

// Triggers returns all triggers.
func Triggers() (all []On) {
	for i := range triggers {
		all = append(all, triggers[i].on)
	}
	return all
}

// row returns the row of a trigger; an unknown one does nothing.
func (on On) row() *trigger {
	i := slices.IndexFunc(triggers, func(t trigger) bool { return t.on == on })
	if i < 0 {
		return new(trigger)
	}
	return &triggers[i]
}

// Does reports whether roles with the trigger do a kind of work.
func (on On) Does(kind Kind) bool { return slices.Contains(on.row().kinds, kind) }

// Items reports whether the work is on issues or pull requests, which have labels.
func (on On) Items() bool { return on.row().items }

// Writes reports whether the work is planned, written and reviewed.
func (on On) Writes() bool { return on.row().writes }

// Timed reports whether the work falls due after Role.Every.
func (on On) Timed() bool { return on.row().timed }
