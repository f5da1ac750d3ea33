package ledger

import "slices"

// Outcomes returns the names of the rows of the table of outcomes.
func Outcomes() (names []string) {
	for _, row := range outcomes {
		names = append(names, row.name)
	}
	return names
}

// WithoutOutcome takes a row out of the table of outcomes until back is called.
func WithoutOutcome(name string) (back func()) {
	whole := outcomes
	outcomes = slices.DeleteFunc(slices.Clone(outcomes), func(row outcome) bool { return row.name == name })
	return func() { outcomes = whole }
}
