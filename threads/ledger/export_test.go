package ledger

import (
	"bytes"
	"slices"
)

// Outcomes returns the names of the rows of the table of outcomes.
func Outcomes() (names []string) {
	for _, row := range outcomes {
		names = append(names, row.name)
	}
	return names
}

// WithoutOutcome removes a row from the table of outcomes until back is called. A session that no other row fits then
// has no consequences.
func WithoutOutcome(name string) (back func()) {
	whole := outcomes
	outcomes = slices.DeleteFunc(slices.Clone(outcomes), func(row outcome) bool { return row.name == name })
	outcomes = append(outcomes, outcome{name: "none", fits: func(*ended) bool { return true }})
	return func() { outcomes = whole }
}

// Parse reads the text of a journal: its records, and the lines that are not valid.
func Parse(text []byte) (records []Record, corrupt [][]byte) {
	err := Read(bytes.NewReader(text), func(r Record) { records = append(records, r) }, func(from, to int64) {
		corrupt = append(corrupt, bytes.TrimSuffix(text[from:to], []byte("\n")))
	})
	if err != nil {
		panic(err)
	}
	return records, corrupt
}
