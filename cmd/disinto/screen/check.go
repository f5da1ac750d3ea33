package screen

// Finding is one result of disinto check.
type Finding struct {
	About   string `json:"about"`
	Problem bool   `json:"problem"`
	Note    bool   `json:"note"` // worth knowing, but not a problem
	Text    string `json:"text"`
}

// Findings shows findings, one a line.
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
		}
	}
	p := v.page()
	p.table(-1, rows)
	return p.text.String()
}
