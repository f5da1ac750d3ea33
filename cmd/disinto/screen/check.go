package screen

// Finding is one result of disinto check.
type Finding struct {
	About   string `json:"about"`
	Problem bool   `json:"problem"`
	Note    bool   `json:"note"` // worth knowing, but not a problem
	Text    string `json:"text"`
	// Story has the shortest sequence of events to a problem or note, one line per step; it may be empty.
	Story []string `json:"story,omitempty"`
}

// Findings shows findings, each on one or more lines.
func (v View) Findings(found []Finding) string {
	rows := make([][]cell, 0, len(found))
	for _, f := range found {
		switch {
		case f.Problem:
			rows = append(rows, []cell{{"wrong", wrong}, {f.About, plain}, {f.Text, wrong}})
		case f.Note:
			rows = append(rows, []cell{{"note", held}, {f.About, plain}, {f.Text, held}})
		default:
			rows = append(rows, []cell{{"ok", good}, {f.About, plain}, {f.Text, plain}})
			continue
		}
		for _, line := range f.Story {
			rows = append(rows, []cell{{"", plain}, {"", plain}, {"  " + line, plain}})
		}
	}
	p := v.page()
	p.table(-1, rows)
	return p.text.String()
}
