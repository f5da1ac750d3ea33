package forge

// Refusal is a forge's refusal to merge a pull request. errors.Is reports it as ErrConflict.
type Refusal struct {
	Cause RefusalCause
	Words string // of the forge, in one line
}

// RefusalCause says what ends a Refusal. Journals contain it.
type RefusalCause string

// The causes of refusals.
const (
	// RefusedLate ends by itself: the forge checks for conflicts, a branch moved, or checks have not all reported.
	RefusedLate RefusalCause = "late"
	// RefusedOutdated ends when the head has the newest commits of its base, as the base's protection requires.
	RefusedOutdated RefusalCause = "outdated"
	// RefusedRule only a person can end: a rule of the forge or of the branch forbids the merge.
	RefusedRule RefusalCause = "rule"
)

func (r *Refusal) Error() string { return r.Words }

// Unwrap returns ErrConflict.
func (r *Refusal) Unwrap() error { return ErrConflict }

// Updated is what bringing a pull request up to date with its base has changed.
type Updated struct {
	Head      string
	MergeBase string // the commit of the base that was merged into it
	// Same reports that the head is nothing but the merge of its former head and the base, and that what it changes of
	// the base is what it changed before.
	Same bool
}
